"""`stoker signals import`: what happened at accounts, from a file of somebody else's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.output import (
    Asked,
    Exit,
    pass_asked,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)
from stoker.cli.tenants import one_tenant, takes_tenant

if TYPE_CHECKING:
    from stoker.core.model import TenantId
    from stoker.engine.signalling import Imported

MOST_SHOWN = 20


@click.group()
def signals() -> None:
    """Tell Stoker what happened at accounts."""


@signals.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@takes_tenant
@takes_json
@pass_asked
def import_file(asked: Asked, file: Path, tenant: str | None, as_json: bool) -> Exit | None:
    """Read signals from FILE: CSV, or JSON lines when it ends in .jsonl.

    Columns: account and at; strength (0 to 1, 1 if not said), source and id if known. The same row
    twice counts once, so a file may be read again. Every row that is no signal is told.
    """
    whose, done = run_async(_imported(asked, file, tenant))
    if as_json:
        show_json(
            {
                "tenant": whose,
                "new": done.new,
                "known": done.known,
                "accounts": len(done.accounts),
                "bad": done.bad,
                "rows": [{"line": line, "because": because} for line, because in done.told],
            }
        )
        return Exit.PROBLEMS if done.bad else None
    say(
        f"{done.new} signals are new, {done.known} were known; "
        f"{len(done.accounts)} accounts of {whose} have moved"
    )
    if done.bad:
        say(f"{done.bad} rows were left out:")
        show_table(["line", "because"], done.told[:MOST_SHOWN])
    if done.bad > MOST_SHOWN:
        say(f"and {done.bad - MOST_SHOWN} more; see them with --json")
    return Exit.PROBLEMS if done.bad else None


async def _imported(asked: Asked, file: Path, named: str | None) -> tuple[TenantId, Imported]:
    from stoker.connectors.signal_tables import signal_rows
    from stoker.core.wallclock import zone_named
    from stoker.engine.signalling import import_signals

    async with asked.app() as app:
        tenant = one_tenant(app.settings, named)
        own = app.settings.for_tenant(tenant)
        done = await import_signals(
            app.backend.tenant(tenant),
            signal_rows(asked.directory / file),
            heat=own.heat.rule(),
            tiers=own.heat.tiers(),
            zone=zone_named(own.scheduling.timezone),
            clock=app.clock,
        )
        return tenant, done
