"""`stoker undo`: take back what a run wrote into a tenant's CRM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import one_tenant, takes_tenant
from stoker.cli.output import pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import Asked
    from stoker.context import Store
    from stoker.crm.undo import Undone

MOST_SHOWN = 50

LATEST, LOOKS_BACK = "latest", 1000


@click.command()
@click.argument("run", metavar="RUN")
@takes_tenant
@click.option("--dry-run", is_flag=True, help="Say what would be taken back; change nothing.")
@takes_json
@pass_asked
def undo(asked: Asked, run: str, tenant: str | None, dry_run: bool, as_json: bool) -> None:
    """Take back what a run wrote into the CRM. RUN looks like 20260207_013000, or is `latest`.

    The latest is the newest run of the tenant that wrote anything into it.
    Fields are as they were before, where nobody has changed them since. Records which that run made
    are archived, unless somebody has worked on them; nothing is ever deleted. What a later run has
    written is taken back by undoing that run first. Twice is once.
    """
    run_async(_undo(asked, run, tenant=tenant, dry_run=dry_run, as_json=as_json))


async def _undo(
    asked: Asked, name: str, *, tenant: str | None, dry_run: bool, as_json: bool
) -> None:
    from stoker.crm.undo import undo_run
    from stoker.nightly.setup import crm_at
    from stoker.runs.model import run_at, run_name

    run = name if name == LATEST else run_name(run_at(name))
    async with asked.app(only_to_read=dry_run) as app:
        whose = one_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        if run == LATEST:
            run = await _latest(store)
        await _must_have_ended(store, run)
        crm = crm_at(app.connectors, whose, await store.accounts.connection(), despite_stops=True)
        told = await undo_run(run, crm=crm, store=store.nights, now=app.clock.now(), dry=dry_run)
    if as_json:
        show_json(_json(whose, run, told, dry_run=dry_run))
        return
    _show(whose, run, told, dry_run=dry_run)


async def _latest(store: Store) -> str:
    for run in await store.runs.runs(limit=LOOKS_BACK):
        if await store.nights.sent_by(run.name, limit=1):
            return run.name
    raise ConfigError(
        f"none of the latest {LOOKS_BACK} runs of {store.tenant} wrote anything into its CRM; "
        f"see those there are with: stoker runs list --tenant {store.tenant}"
    )


async def _must_have_ended(store: Store, name: str) -> None:
    from stoker.runs.model import RunState, run_at

    run = await store.runs.run(run_at(name))
    if run is not None and run.state is RunState.RUNNING:
        raise ConfigError(
            f"run {name} of {store.tenant} has not ended; stop it first, or, if its process died, "
            "start the next night: it ends what was left"
        )
    if run is None and not await store.nights.sent_by(name, limit=1):
        raise ConfigError(
            f"{store.tenant} has no run {name}; see those there are with: "
            f"stoker runs list --tenant {store.tenant}"
        )


def _show(tenant: TenantId, run: str, told: Undone, *, dry_run: bool) -> None:
    if not told.rows:
        say(f"run {run} of {tenant} wrote nothing into the CRM")
        return
    would = "would be " if dry_run else ""
    say(f"run {run} of {tenant} wrote {told.rows} records:")
    say(f"  {len(told.restored)} {would}restored to what was there before")
    say(f"  {len(told.archived)} {would}archived, because that run made them")
    say(f"  {told.same} had nothing left to take back")
    say(f"  {len(told.left)} left as they are, wholly or in part")
    if told.left:
        show_table(["record", "left because"], sorted(told.left.items())[:MOST_SHOWN])
    if len(told.left) > MOST_SHOWN:
        say(f"and {len(told.left) - MOST_SHOWN} more; see all of them with --json")


def _json(tenant: TenantId, run: str, told: Undone, *, dry_run: bool) -> Json:
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
