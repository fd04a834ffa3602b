"""`stoker undo`: take back what a run wrote into a tenant's CRM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import (
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.context import TenantStores
    from stoker.crm.undo import UndoResult

MAX_SHOWN = 50

LATEST, MAX_RUNS_SEARCHED = "latest", 1000


@click.command()
@click.argument("run", metavar="RUN")
@tenant_option
@click.option("--dry-run", is_flag=True, help="Say what would be taken back; change nothing.")
@json_option
@pass_context
def undo(asked: CommandContext, run: str, tenant: str | None, dry_run: bool, as_json: bool) -> None:
    """Take back what a run wrote into the CRM. RUN looks like 20260207_013000, or is `latest`.

    The latest is the newest run of the tenant that wrote anything into it.
    Fields are as they were before, where nobody has changed them since. Records which that run made
    are archived, unless somebody has worked on them; nothing is ever deleted. What a later run has
    written is taken back by undoing that run first. Twice is once.
    """
    run_async(_undo_writes(asked, run, tenant=tenant, dry_run=dry_run, as_json=as_json))


async def _undo_writes(
    asked: CommandContext, name: str, *, tenant: str | None, dry_run: bool, as_json: bool
) -> None:
    from stoker.crm.odoo import open_crm
    from stoker.crm.undo import undo_run
    from stoker.runs.model import format_run_name, parse_run_name

    run = name if name == LATEST else format_run_name(parse_run_name(name))
    async with asked.open_app(only_to_read=dry_run) as app:
        whose = choose_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        if run == LATEST:
            run = await _get_latest_run(store)
        await _check_ended(store, run)
        crm = open_crm(
            app.for_tenant(whose), await store.setup.find_connection(), despite_stops=True
        )
        told = await undo_run(run, crm=crm, store=store.nights, now=app.clock.now(), dry=dry_run)
    if as_json:
        print_json(_undo_to_json(whose, run, told, dry_run=dry_run))
        return
    _print_undo(whose, run, told, dry_run=dry_run)


async def _get_latest_run(store: TenantStores) -> str:
    for run in await store.runs.list_runs(limit=MAX_RUNS_SEARCHED):
        if await store.nights.list_sent_rows(run.name, limit=1):
            return run.name
    raise ConfigError(
        f"none of the latest {MAX_RUNS_SEARCHED} runs of {store.tenant} wrote anything into its "
        f"CRM; "
        f"see those there are with: stoker runs list --tenant {store.tenant}"
    )


async def _check_ended(store: TenantStores, name: str) -> None:
    from stoker.runs.model import RunState, parse_run_name

    run = await store.runs.find_run(parse_run_name(name))
    if run is not None and run.state is RunState.RUNNING:
        raise ConfigError(
            f"run {name} of {store.tenant} has not ended; stop it first, or, if its process died, "
            "start the next night: it ends what was left"
        )
    if run is None and not await store.nights.list_sent_rows(name, limit=1):
        raise ConfigError(
            f"{store.tenant} has no run {name}; see those there are with: "
            f"stoker runs list --tenant {store.tenant}"
        )


def _print_undo(tenant: TenantId, run: str, told: UndoResult, *, dry_run: bool) -> None:
    if not told.rows:
        print_text(f"run {run} of {tenant} wrote nothing into the CRM")
        return
    would = "would be " if dry_run else ""
    print_text(f"run {run} of {tenant} wrote {told.rows} records:")
    print_text(f"  {len(told.restored)} {would}restored to what was there before")
    print_text(f"  {len(told.archived)} {would}archived, because that run made them")
    print_text(f"  {told.same} had nothing left to take back")
    print_text(f"  {len(told.left)} left as they are, wholly or in part")
    if told.left:
        print_table(["record", "left because"], sorted(told.left.items())[:MAX_SHOWN])
    if len(told.left) > MAX_SHOWN:
        print_text(f"and {len(told.left) - MAX_SHOWN} more; see all of them with --json")


def _undo_to_json(tenant: TenantId, run: str, told: UndoResult, *, dry_run: bool) -> Json:
    return {
        "tenant": tenant,
        "run": run,
        "dry_run": dry_run,
        "rows": told.rows,
        "restored": list(told.restored),
        "archived": list(told.archived),
        "same": told.same,
        "left": dict(told.left),
    }
