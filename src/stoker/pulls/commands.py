"""`stoker pulls plan|run` and `stoker quote`: look where it is worth most, and say why.

What is chosen is the core's decision; carrying looks out is a night's own machinery.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stoker.base.errors import StokerError
from stoker.cli.options import choose_active_tenants, choose_tenants, tenants_option
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
    from stoker.app import App
    from stoker.base.types import TenantId
    from stoker.cli.output import CommandContext
    from stoker.nightly.report import NightReport
    from stoker.pulls.report import PlannedPulls

_policy_option = click.option(
    "--policy",
    type=click.Choice(["optimal", "tiers"]),
    help="By what looks are chosen, this once. Default: pulls.policy.",
)


@click.group()
def pulls() -> None:
    """Look at accounts where it is worth most, inside every cap."""


@pulls.command()
@tenants_option
@_policy_option
@click.option("--dry-run", is_flag=True, help="Keep nothing: as `stoker quote`.")
@json_option
@pass_context
def plan(
    asked: CommandContext,
    tenants: tuple[str, ...],
    policy: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Decide about every account, and keep the decisions; nobody is looked at.

    `stoker why TENANT/ACCOUNT` explains one of them, `stoker replay RUN` makes the plan again.
    """
    _print_plans(
        run_async(_make_plans(asked, tenants, policy=policy, keep=not dry_run)), as_json=as_json
    )


@click.command()
@tenants_option
@_policy_option
@json_option
@pass_context
def quote(
    asked: CommandContext, tenants: tuple[str, ...], policy: str | None, as_json: bool
) -> None:
    """Say what pulls would take now: units and money by connector, who is not chosen and why."""
    _print_plans(run_async(_make_plans(asked, tenants, policy=policy, keep=False)), as_json=as_json)


def _print_plans(planned: list[PlannedPulls], *, as_json: bool) -> None:
    from stoker.pulls.report import print_pulls, to_pulls_json

    if as_json:
        print_json([to_pulls_json(each) for each in planned])
        return
    for each in planned:
        print_pulls(each)


async def _make_plans(
    asked: CommandContext, named: tuple[str, ...], *, policy: str | None, keep: bool
) -> list[PlannedPulls]:
    from stoker.pulls.report import PlannedPulls
    from stoker.pulls.service import SavePlanJob

    found = []
    async with asked.open_app(only_to_read=not keep) as app:
        meant = (choose_active_tenants if keep else choose_tenants)(app.settings, named)
        for tenant in meant:
            planning, store = (
                app.build_pull_planner(tenant, policy=policy),
                app.backend.tenant(tenant),
            )
            decided, takes = await planning.quote_plan(store, now=app.clock.now())
            run = ""
            if keep:
                run = (await app.run_now(tenant, SavePlanJob(pulls=decided))).name
            found.append(PlannedPulls(tenant=tenant, pulls=decided, quote=takes, run=run))
    return found


@pulls.command()
@tenants_option
@_policy_option
@json_option
@pass_context
def run(asked: CommandContext, tenants: tuple[str, ...], policy: str | None, as_json: bool) -> Exit:
    """Plan, then look: each pull is promised, claimed once, carried out and settled.

    One that was stopped or killed goes on where it was, and pays for nothing twice. The exit code
    tells how it ended.
    """
    return run_async(_run_pulls(asked, tenants, policy=policy, as_json=as_json))


async def _run_pulls(
    asked: CommandContext, named: tuple[str, ...], *, policy: str | None, as_json: bool
) -> Exit:
    from stoker.nightly.progress import ProgressDisplay
    from stoker.nightly.report import print_night, to_night_json

    async with asked.open_app() as app:
        live = ProgressDisplay(sys.stderr, otherwise=app.observer)
        with live, app.redirect_events(live) as seen:
            done, failed = await _run_tenants(
                seen, choose_active_tenants(app.settings, named), policy
            )
    if as_json:
        print_json([to_night_json(each) for each in done])
    else:
        for each in done:
            print_night(each)
    for tenant, error in failed:
        print_error(f"{tenant}: {error}")
    return choose_exit([each.run.state for each in done], [error for _, error in failed])


async def _run_tenants(
    app: App, tenants: tuple[TenantId, ...], policy: str | None
) -> tuple[list[NightReport], list[tuple[TenantId, StokerError]]]:
    from stoker.nightly.report import read_night_report
    from stoker.runs.parallel import run_for_tenants

    async def run_tenant(tenant: TenantId) -> NightReport:
        run = await app.run_now(tenant, app.build_pull_run(tenant, policy=policy))
        return await read_night_report(app, tenant, run)

    return await run_for_tenants(
        tenants, run_tenant, concurrency=app.settings.scheduling.tenant_concurrency
    )
