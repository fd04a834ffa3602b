"""`stoker pulls plan|run` and `stoker quote`: look where it is worth most, and say why.

What is chosen is the core's decision; carrying looks out is a night's own machinery.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stoker.base.errors import StokerError
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
    from stoker.base.types import TenantId
    from stoker.cli.output import Asked
    from stoker.nightly.report import Told
    from stoker.pulls.report import PlannedPulls

_POLICY = click.option(
    "--policy",
    type=click.Choice(["optimal", "tiers"]),
    help="By what looks are chosen, this once. Default: pulls.policy.",
)


@click.group()
def pulls() -> None:
    """Look at accounts where it is worth most, inside every cap."""


@pulls.command()
@takes_tenants
@_POLICY
@click.option("--dry-run", is_flag=True, help="Keep nothing: as `stoker quote`.")
@takes_json
@pass_asked
def plan(
    asked: Asked, tenants: tuple[str, ...], policy: str | None, dry_run: bool, as_json: bool
) -> None:
    """Decide about every account, and keep the decisions; nobody is looked at.

    `stoker why TENANT/ACCOUNT` explains one of them, `stoker replay RUN` makes the plan again.
    """
    _tell(run_async(_planned(asked, tenants, policy=policy, keep=not dry_run)), as_json=as_json)


@click.command()
@takes_tenants
@_POLICY
@takes_json
@pass_asked
def quote(asked: Asked, tenants: tuple[str, ...], policy: str | None, as_json: bool) -> None:
    """Say what pulls would take now: units and money by connector, who is not chosen and why."""
    _tell(run_async(_planned(asked, tenants, policy=policy, keep=False)), as_json=as_json)


def _tell(planned: list[PlannedPulls], *, as_json: bool) -> None:
    from stoker.pulls.report import pulls_json, show_pulls

    if as_json:
        show_json([pulls_json(each) for each in planned])
        return
    for each in planned:
        show_pulls(each)


async def _planned(
    asked: Asked, named: tuple[str, ...], *, policy: str | None, keep: bool
) -> list[PlannedPulls]:
    from stoker.pulls.report import PlannedPulls

    found = []
    async with asked.app(only_to_read=not keep) as app:
        meant = (working_tenants if keep else chosen_tenants)(app.settings, named)
        for tenant in meant:
            planning, store = app.pull_planning(tenant, policy=policy), app.backend.tenant(tenant)
            decided, takes = await planning.quoted(store, now=app.clock.now())
            run = ""
            if keep:
                task = app.plan_task(tenant, decided)
                run = (await app.scheduler(()).start_now(task)).name
            found.append(PlannedPulls(tenant=tenant, pulls=decided, quote=takes, run=run))
    return found


@pulls.command()
@takes_tenants
@_POLICY
@takes_json
@pass_asked
def run(asked: Asked, tenants: tuple[str, ...], policy: str | None, as_json: bool) -> Exit:
    """Plan, then look: each pull is promised, claimed once, carried out and settled.

    One that was stopped or killed goes on where it was, and pays for nothing twice. The exit code
    tells how it ended.
    """
    return run_async(_carried_out(asked, tenants, policy=policy, as_json=as_json))


async def _carried_out(
    asked: Asked, named: tuple[str, ...], *, policy: str | None, as_json: bool
) -> Exit:
    from stoker.nightly.progress import LiveNight
    from stoker.nightly.report import show_told, told_json

    async with asked.app() as app:
        live = LiveNight(sys.stderr, otherwise=app.observer)
        with live:
            seen = replace(app, observer=live)
            done, failed = await _looks(seen, working_tenants(app.settings, named), policy)
    if as_json:
        show_json([told_json(each) for each in done])
    else:
        for each in done:
            show_told(each)
    for tenant, error in failed:
        complain(f"{tenant}: {error}")
    ends = [each.run.state for each in done]
    bad = (RunState.FAILED, RunState.CANCELLED, RunState.PARTIAL)
    worst = [state for state in bad if state in ends]
    code = exit_for_run(worst[0] if worst else RunState.DONE)
    return exit_for_error(failed[0][1]) if failed and code in (Exit.OK, Exit.PARTIAL) else code


async def _looks(
    app: App, tenants: tuple[TenantId, ...], policy: str | None
) -> tuple[list[Told], list[tuple[TenantId, StokerError]]]:
    from stoker.nightly.report import told_of

    scheduler = app.scheduler(())
    room = asyncio.Semaphore(app.settings.scheduling.tenant_concurrency)

    async def one(tenant: TenantId) -> Told | StokerError:
        async with room:
            try:
                task = app.night_task(tenant, app.pulls(tenant, policy=policy))
                return await told_of(app, tenant, await scheduler.start_now(task))
            except StokerError as error:
                return error  # one tenant's trouble is not another's

    ended = await asyncio.gather(*(one(tenant) for tenant in tenants))
    told = [each for each in ended if not isinstance(each, StokerError)]
    failed = [
        (tenant, each)
        for tenant, each in zip(tenants, ended, strict=True)
        if isinstance(each, StokerError)
    ]
    return told, failed
