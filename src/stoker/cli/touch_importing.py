"""`stoker touches import`: profiles from a file, a shared sheet, or the tenant's own leads."""

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
from stoker.cli.touch_desk import Desk, desk
from stoker.errors import ConfigError

if TYPE_CHECKING:
    from stoker.core.profiles import ProfilesRead

MOST_SHOWN = 20


@click.command("import")
@click.argument("source", metavar="[FILE.csv|ADDRESS]", required=False)
@click.option("--leads", is_flag=True, help="Take the tenant's own leads, by their websites.")
@takes_tenant
@takes_json
@pass_asked
def import_profiles(
    asked: Asked, source: str | None, leads: bool, tenant: str | None, as_json: bool
) -> Exit | None:
    """Read profiles from a CSV file, a shared sheet, or the tenant's leads.

    The first row names the columns: url, and name, last_done_at and status if they are known. A
    Google sheet is given by its address. Every row that is no profile is told, with its reason.
    """
    if (source is None) == (not leads):
        raise ConfigError("say one of: a CSV file, a sheet's address, or --leads")
    return run_async(_import(asked, source, tenant=tenant, as_json=as_json))


async def _import(
    asked: Asked, source: str | None, *, tenant: str | None, as_json: bool
) -> Exit | None:
    async with desk(asked, tenant) as at:
        read = await profiles_from(at, source)
        put = await at.touching.store.put_profiles(read.profiles)
    if as_json:
        show_json(
            {
                "tenant": at.store.tenant,
                "new": put.new,
                "changed": put.changed,
                "same": put.same,
                "bad": [{"where": each.where, "because": each.because} for each in read.bad],
            }
        )
    else:
        say(f"{put.new} profiles are new, {put.changed} changed, {put.same} as they were")
        say_bad(read)
    return Exit.PROBLEMS if read.bad else None


async def profiles_from(at: Desk, source: str | None) -> ProfilesRead:
    """Return what a file, a sheet or (None) the tenant's leads list."""
    from stoker.connectors.profile_tables import profiles_at, profiles_file
    from stoker.core.wallclock import zone_named
    from stoker.in_touch import leads_as_profiles

    if source is None:
        least = at.own.score.min_export
        return await leads_as_profiles(at.store.accounts, least=least)
    zone, now = zone_named(at.touching.zone), at.app.clock.now()
    if source.lower().startswith(("https://", "http://")):
        return await profiles_at(at.app.connectors.http(), source, zone=zone, now=now)
    return await profiles_file(at.directory / source, zone=zone, now=now)


def say_bad(read: ProfilesRead) -> None:
    """Print which rows were left out, and why."""
    if read.bad:
        say(f"{len(read.bad)} rows were left out:")
        show_table(
            ["row", "because"], [(each.where, each.because) for each in read.bad[:MOST_SHOWN]]
        )
    if len(read.bad) > MOST_SHOWN:
        say(f"and {len(read.bad) - MOST_SHOWN} more; see all of them with --json")
