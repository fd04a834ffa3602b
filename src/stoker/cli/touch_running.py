"""`stoker touches run`: due touches leave, to a file, a webhook or a CRM."""

from __future__ import annotations

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
from stoker.cli.tenants import takes_tenant
from stoker.cli.touch_desk import desk

if TYPE_CHECKING:
    from stoker.core.model import Json

MOST_SHOWN = 20


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what is due; hand nothing over.")
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Hand over at most so many.")
@takes_tenant
@takes_json
@pass_asked
def run(
    asked: Asked, dry_run: bool, limit: int | None, tenant: str | None, as_json: bool
) -> Exit | None:
    """Hand over what is due, the way touches.way says: a file, a webhook, Odoo."""
    return run_async(_run(asked, dry=dry_run, limit=limit, tenant=tenant, as_json=as_json))


async def _run(
    asked: Asked, *, dry: bool, limit: int | None, tenant: str | None, as_json: bool
) -> Exit | None:
    from stoker.in_touch import handed_over, way_for

    async with desk(asked, tenant, to_work=not dry) as at:
        way = await way_for(
            at.store, own=at.own, connectors=at.app.connectors, directory=at.directory
        )
        told = await handed_over(
            at.store,
            at.touching,
            way,
            own=at.own,
            directory=at.directory,
            owner=at.app.owner,
            observer=at.app.observer,
            limit=limit,
            dry=dry,
        )
    if as_json:
        left: list[Json] = [touch.url for touch in told.left]
        show_json(
            {
                "tenant": at.store.tenant,
                "way": way.name,
                "dry_run": dry,
                "left": left,
                "refused": dict(told.refused),
                "later": dict(told.later),
                "waiting": told.waiting,
                "because": told.because,
            }
        )
    else:
        say(f"{len(told.left)} touches {'would leave' if dry else 'left'} by {way.name}")
        reasons = [*told.refused.items(), *told.later.items()]
        if reasons:
            show_table(["not handed over", "because"], reasons[:MOST_SHOWN])
        if told.waiting:
            say(f"{told.waiting} wait: {told.because}")
    return Exit.PROBLEMS if told.refused or told.later else None
