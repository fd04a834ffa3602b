"""`stoker nightly`: run tenants' nightly work now, due or not; or show a preview."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, StokerError
from stoker.cli.options import COUNT, choose_active_tenants, choose_tenants, tenants_option
from stoker.cli.output import (
    Exit,
    choose_exit,
    json_option,
    pass_context,
    print_error,
    print_json,
    run_async,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.base.events import Observer
    from stoker.base.types import Json, Step, TenantId
    from stoker.cli.output import CommandContext
    from stoker.context import Context
    from stoker.nightly.commands_report import NightReport, PlanReport
    from stoker.nightly.service import NightlyRun

_STEP = "STEP"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyWish:
    """The options of `stoker nightly`."""

    limit: int | None = None
    steps: tuple[Step, ...]
    from_run: str = ""
    again: bool = False

    def build_night(self, app: Context, tenant: TenantId) -> NightlyRun:
        """Return a tenant's nightly run with these options."""
        from stoker.nightly.setup import build_nightly_run

        return build_nightly_run(
            app.for_tenant(tenant),
            limit=self.limit,
            steps=self.steps,
            from_run=self.from_run,
            again=self.again,
        )


@click.command()
@tenants_option
@click.option("--limit", type=COUNT, metavar="N", help="At most N companies per tenant.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the selection, its order and the estimate; call no vendor.",
)
@click.option("--plan", "quote", is_flag=True, help="Show the estimate: units, money, finish time.")
@click.option(
    "--from-manifest",
    "from_run",
    metavar="RUN",
    help="Only that run's companies, without those that are done.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Also companies researched today; with --from-manifest, also those that are done.",
)
@click.option("--skip", multiple=True, metavar=_STEP, help="Leave a step out; may be repeated.")
@click.option("--only", multiple=True, metavar=_STEP, help="Run only this step; may be repeated.")
@json_option
@pass_context
def nightly(
    asked: CommandContext,
    tenants: tuple[str, ...],
    limit: int | None,
    dry_run: bool,
    quote: bool,
    from_run: str | None,
    again: bool,
    skip: tuple[str, ...],
    only: tuple[str, ...],
    as_json: bool,
) -> Exit:
    """Research tonight's companies: crawl, extract, verify, score, and fill the CRM.

    Without --tenant, every active tenant that has an ICP and a CRM. A run that was stopped or
    killed continues and pays nothing twice; a company is researched once a day. STEP is refresh,
    candidates, select, crawl, extract, contacts, verify, score or export. The exit code tells how
    the runs ended.
    """
    from stoker.enrichment.model import choose_steps

    if from_run is not None and len(tenants) > 1:
        raise ConfigError("--from-manifest needs one tenant; give one --tenant")
    wish = NightlyWish(
        limit=limit,
        steps=choose_steps(only=only, skip=skip),
        from_run=from_run or "",
        again=again,
    )
    if dry_run or quote:
        return run_async(_print_plans(asked, tenants, wish, whole=dry_run, as_json=as_json))
    words = [
        f"{asked.format_command()} nightly",
        *(f"--tenant {each}" for each in tenants),
        *(f"--skip {each}" for each in skip),
        *(f"--only {each}" for each in only),
    ]
    return run_async(_run_tenants(asked, tenants, wish, go_on=" ".join(words), as_json=as_json))


async def _print_plans(
    asked: CommandContext,
    tenants: tuple[str, ...],
    wish: NightlyWish,
    *,
    whole: bool,
    as_json: bool,
) -> Exit:
    from stoker.nightly.commands_report import print_plan, to_plan_json

    async with asked.open_app() as app:
        with app.redirect_events(_ignore_event) as quiet:
            chosen = await choose_participants(quiet, tenants, wish, only_to_look=True)
            plans = [await _build_plan(quiet, tenant, wish, names=whole) for tenant in chosen]
    if as_json:
        print_json([to_plan_json(each, whole=whole) for each in plans])
    else:
        for each in plans:
            print_plan(each, whole=whole)
    return Exit.OK


async def _build_plan(
    app: Context, tenant: TenantId, wish: NightlyWish, *, names: bool
) -> PlanReport:
    from stoker.nightly.commands_report import MAX_LEADS_SHOWN, PlanReport

    store = app.backend.tenant(tenant)
    plan = await wish.build_night(app, tenant).plan(store, clock=app.clock, observer=app.observer)
    names_by_id: dict[str, str] = {}
    for unit in plan.items[:MAX_LEADS_SHOWN] if names else ():
        record = await store.accounts.find_company_record(unit.company)
        names_by_id[unit.company] = record.company.name if record else ""
    return PlanReport(
        tenant=tenant, plan=plan, at=app.clock.now(), names=names_by_id, limit=wish.limit
    )


async def _run_tenants(
    asked: CommandContext, tenants: tuple[str, ...], wish: NightlyWish, *, go_on: str, as_json: bool
) -> Exit:
    from stoker.nightly.commands_report import format_stopped
    from stoker.nightly.progress import ProgressDisplay

    async with asked.open_app() as app:
        live = ProgressDisplay(sys.stderr, otherwise=app.observer)
        chosen = await choose_participants(app, tenants, wish)
        began_at = app.clock.now()
        try:
            with live:
                done, failed = await run_nights(app, chosen, wish.build_night, observer=live)
        except asyncio.CancelledError:
            for tenant in chosen:
                print_error(await format_stopped(app, tenant, since=began_at))
            print_error(f"results are stored and not paid for again; continue today with: {go_on}")
            raise
    return print_nights(done, failed, as_json=as_json)


def print_nights(
    done: list[NightReport], failed: list[tuple[TenantId, StokerError]], *, as_json: bool
) -> Exit:
    """Print how tenants' runs ended, and which did not start; return the exit code."""
    from stoker.nightly.commands_report import print_night, to_night_json

    if as_json:
        rows: list[Json] = [to_night_json(each) for each in done]
        print_json(rows)
    else:
        for each in done:
            print_night(each)
    for tenant, error in failed:
        print_error(f"{tenant}: {error}")
    return choose_exit([each.run.state for each in done], [error for _, error in failed])


async def run_nights(
    app: Context,
    tenants: tuple[TenantId, ...],
    build_night: Callable[[Context, TenantId], NightlyRun],
    *,
    observer: Observer,
) -> tuple[list[NightReport], list[tuple[TenantId, StokerError]]]:
    """Run tenants in parallel; return how the runs ended, and which did not start."""
    from stoker.enrichment.runner import run_now
    from stoker.nightly.commands_report import read_night_report
    from stoker.runs.service import run_for_tenants

    with app.redirect_events(observer) as seen:

        async def run_tenant(tenant: TenantId) -> NightReport:
            run = await run_now(seen.for_tenant(tenant), build_night(seen, tenant))
            return await read_night_report(seen, tenant, run)

        return await run_for_tenants(
            tenants, run_tenant, concurrency=app.settings.scheduling.tenant_concurrency
        )


async def choose_participants(
    app: Context, named: tuple[str, ...], wish: NightlyWish, *, only_to_look: bool = False
) -> tuple[TenantId, ...]:
    """Return the tenants to run; print why others are left out.

    Raises ConfigError when a named tenant has no ICP, when no tenant is left, and when a named
    tenant is disabled, unless this is a preview.
    """
    from stoker.nightly.readiness import check_readiness

    chosen = (choose_tenants if only_to_look else choose_active_tenants)(app.settings, named)
    if wish.from_run and len(chosen) > 1:
        raise ConfigError("--from-manifest needs one tenant; choose a tenant with --tenant")
    ready = []
    for tenant in chosen:
        stands = await check_readiness(app, tenant)
        # A named tenant runs without a CRM too: its results are stored.
        if stands.is_ready or (named and stands.rule is not None):
            ready.append(tenant)
        elif len(chosen) == 1:
            raise ConfigError(f"{tenant} is not ready: {stands.missing[0]}")
        else:
            print_error(f"{tenant} is skipped: {stands.missing[0]}")
    if not ready:
        raise ConfigError(
            "no tenant is ready for a nightly run; see what is missing: stoker tenants list"
        )
    if wish.from_run:
        await _check_run_exists(app, ready[0], wish.from_run)
    return tuple(ready)


async def _check_run_exists(app: Context, tenant: TenantId, name: str) -> None:
    from stoker.runs.model import parse_run_name

    if await app.backend.tenant(tenant).runs.find_run(parse_run_name(name)) is None:
        raise ConfigError(
            f"{tenant} has no run {name}; see: stoker runs list --kind nightly --tenant {tenant}"
        )


def _ignore_event(_: object) -> None:
    """Drop an event: a plan is printed when it is made."""
