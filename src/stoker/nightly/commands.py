"""`stoker nightly`: tenants' nights now, due or not; or what they would be, without asking anybody.

What a night does is the engine's business, how it looks is `night_telling`'s and, while it goes on,
`night_progress`'s.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, StokerError
from stoker.cli.options import chosen_tenants, takes_tenants, working_tenants
from stoker.cli.output import (
    Exit,
    complain,
    exit_for_error,
    exit_for_run,
    pass_asked,
    run_async,
    show_json,
    takes_json,
)
from stoker.runs.model import RunState

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.events import Observer
    from stoker.base.types import Json, Step, TenantId
    from stoker.cli.output import Asked
    from stoker.nightly.report import Planned, Told
    from stoker.nightly.service import Night

WORST_FIRST = (RunState.FAILED, RunState.CANCELLED, RunState.PARTIAL, RunState.DONE)

_STEP = "STEP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks of tonight's nights."""

    limit: int | None = None
    steps: tuple[Step, ...]
    from_run: str = ""
    again: bool = False

    def night(self, app: App, tenant: TenantId) -> Night:
        """Return a tenant's night as it is wished for."""
        return app.night(
            tenant, limit=self.limit, steps=self.steps, from_run=self.from_run, again=self.again
        )


@click.command()
@takes_tenants
@click.option("--limit", type=click.IntRange(0), metavar="N", help="At most N companies each.")
@click.option(
    "--dry-run", is_flag=True, help="Print the selection, its order and the quote; ask nobody."
)
@click.option("--plan", "quote", is_flag=True, help="Print the quote: units, money, finish.")
@click.option(
    "--from-manifest",
    "from_run",
    metavar="RUN",
    help="Exactly the companies that run chose, without those that were done.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Also those looked at today; with --from-manifest, also those that were done.",
)
@click.option("--skip", multiple=True, metavar=_STEP, help="Leave a step out; may be repeated.")
@click.option("--only", multiple=True, metavar=_STEP, help="Take only this step; may be repeated.")
@takes_json
@pass_asked
def nightly(
    asked: Asked,
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
    """Do tenants' nights now: find, look, verify, score, and fill their CRMs.

    Without --tenant, every active tenant that has a rule and a CRM. A night that was stopped or
    killed goes on where it was, and pays for nothing twice; whoever was looked at today is not
    looked at again before tomorrow. STEP is refresh, candidates, select,
    crawl, extract, contacts, verify, score or export. The exit code tells how the nights ended.
    """
    from stoker.enrichment.model import steps_asked_for

    if from_run is not None and len(tenants) > 1:
        raise ConfigError("--from-manifest is about one tenant's run; give one --tenant")
    wish = Wish(
        limit=limit,
        steps=steps_asked_for(only=only, skip=skip),
        from_run=from_run or "",
        again=again,
    )
    if dry_run or quote:
        return run_async(_planned(asked, tenants, wish, whole=dry_run, as_json=as_json))
    words = [
        f"{asked.command()} nightly",
        *(f"--tenant {each}" for each in tenants),
        *(f"--skip {each}" for each in skip),
        *(f"--only {each}" for each in only),
    ]
    return run_async(_carried_out(asked, tenants, wish, go_on=" ".join(words), as_json=as_json))


async def _planned(
    asked: Asked, tenants: tuple[str, ...], wish: Wish, *, whole: bool, as_json: bool
) -> Exit:
    from stoker.nightly.report import plan_json, show_plan

    async with asked.app() as app:
        quiet = replace(app, observer=_unheard)
        chosen = await taking_part(quiet, tenants, wish, only_to_look=True)
        plans = [await _plan(quiet, tenant, wish, names=whole) for tenant in chosen]
    if as_json:
        show_json([plan_json(each, whole=whole) for each in plans])
    else:
        for each in plans:
            show_plan(each, whole=whole)
    return Exit.OK


async def _plan(app: App, tenant: TenantId, wish: Wish, *, names: bool) -> Planned:
    from stoker.nightly.report import SHOWN, Planned

    store = app.backend.tenant(tenant)
    plan = await wish.night(app, tenant).plan(store, clock=app.clock, observer=app.observer)
    called: dict[str, str] = {}
    for unit in plan.units[:SHOWN] if names else ():
        dossier = await store.accounts.dossier(unit.company)
        called[unit.company] = dossier.company.name if dossier else ""
    return Planned(tenant=tenant, plan=plan, at=app.clock.now(), names=called, limit=wish.limit)


async def _carried_out(
    asked: Asked, tenants: tuple[str, ...], wish: Wish, *, go_on: str, as_json: bool
) -> Exit:
    from stoker.nightly.progress import LiveNight
    from stoker.nightly.report import show_told, stopped_text, told_json

    async with asked.app() as app:
        live = LiveNight(sys.stderr, otherwise=app.observer)
        chosen = await taking_part(app, tenants, wish)
        began_at = app.clock.now()
        try:
            with live:
                done, failed = await nights(app, chosen, wish, observer=live)
        except asyncio.CancelledError:
            for tenant in chosen:
                complain(await stopped_text(app, tenant, since=began_at))
            complain(f"what was found is kept and paid for once; go on today with: {go_on}")
            raise
    if as_json:
        rows: list[Json] = [told_json(each) for each in done]
        show_json(rows)
    else:
        for each in done:
            show_told(each)
    for tenant, error in failed:
        complain(f"{tenant}: {error}")
    return _exit(done, [error for _, error in failed])


async def nights(
    app: App, tenants: tuple[TenantId, ...], wish: Wish, *, observer: Observer
) -> tuple[list[Told], list[tuple[TenantId, StokerError]]]:
    """Carry out tenants' nights side by side; return how they went, and whose did not begin."""
    from stoker.nightly.report import told_of

    seen = replace(app, observer=observer)
    scheduler, room = (
        seen.scheduler(()),
        asyncio.Semaphore(seen.settings.scheduling.tenant_concurrency),
    )

    async def one(tenant: TenantId) -> Told | StokerError:
        async with room:
            try:
                run = await scheduler.start_now(seen.night_task(tenant, wish.night(seen, tenant)))
            except StokerError as error:
                return error  # one tenant's trouble is not another's
            return await told_of(seen, tenant, run)

    ended = await asyncio.gather(*(one(tenant) for tenant in tenants))
    done = [each for each in ended if not isinstance(each, StokerError)]
    failed = [
        (tenant, each)
        for tenant, each in zip(tenants, ended, strict=True)
        if isinstance(each, StokerError)
    ]
    return done, failed


async def taking_part(
    app: App, named: tuple[str, ...], wish: Wish, *, only_to_look: bool = False
) -> tuple[TenantId, ...]:
    """Return whose nights are meant; those left out are told why.

    Raises ConfigError when a tenant that was named has no rule, or when nobody is left; and when
    it is switched off, unless one only looks at what would be.
    """
    from stoker.accounts.commands import readiness

    chosen = (chosen_tenants if only_to_look else working_tenants)(app.settings, named)
    if wish.from_run and len(chosen) > 1:
        raise ConfigError("--from-manifest is about one tenant's run; say whose with --tenant")
    ready = []
    for tenant in chosen:
        stands = await readiness(app, tenant)
        # Whoever is named has a night also without a CRM: its results are kept.
        if stands.has_nights or (named and stands.rule is not None):
            ready.append(tenant)
        elif len(chosen) == 1:
            raise ConfigError(f"{tenant} has no night: {stands.lacks[0]}")
        else:
            complain(f"{tenant} is left out: {stands.lacks[0]}")
    if not ready:
        raise ConfigError("no tenant is ready for a night; see what each lacks: stoker tenant list")
    if wish.from_run:
        await _must_be_there(app, ready[0], wish.from_run)
    return tuple(ready)


async def _must_be_there(app: App, tenant: TenantId, name: str) -> None:
    from stoker.runs.model import run_at

    if await app.backend.tenant(tenant).runs.run(run_at(name)) is None:
        raise ConfigError(
            f"{tenant} has no run {name}; see: stoker runs list --kind nightly --tenant {tenant}"
        )


def _exit(done: list[Told], errors: list[StokerError]) -> Exit:
    ends = {each.run.state for each in done}
    worst = exit_for_run(next((state for state in WORST_FIRST if state in ends), RunState.DONE))
    if errors and worst in (Exit.OK, Exit.PARTIAL):
        return exit_for_error(errors[0])
    return worst


def _unheard(_: object) -> None:
    """A plan is told when it is made."""
