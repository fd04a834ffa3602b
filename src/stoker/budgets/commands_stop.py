"""`stoker stop` and `stoker resume`: nothing more is granted, in any process, until taken back.

What was promised before goes on and is settled as usual; `stop` shows what that is. A stop for
everybody is an entry in the ledger of operators, one for a tenant in the tenant's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.budgets.caps import connector_name
from stoker.budgets.commands_holds import hold_json, show_holds
from stoker.budgets.views import open_holds, show_stops, stop_json
from stoker.cli.options import one_tenant
from stoker.cli.output import pass_asked, run_async, say, show_json, takes_json

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import TenantId
    from stoker.budgets.model import Stop
    from stoker.budgets.reservations import Hold
    from stoker.cli.output import Asked

_TENANT = click.option("--tenant", metavar="ID", help="Only this tenant. Default: everybody.")

_CONNECTOR = click.option(
    "--connector", default="", metavar="NAME", help="Only this connector. Default: all."
)


@click.command()
@_TENANT
@_CONNECTOR
@click.option("--reason", default="", metavar="TEXT", help="Why; whoever is refused reads it.")
@takes_json
@pass_asked
def stop(asked: Asked, tenant: str | None, connector: str, reason: str, as_json: bool) -> None:
    """Grant nothing more, and show what is in flight. Stopping twice is once."""
    run_async(_stop(asked, tenant, connector, reason=reason, as_json=as_json))


async def _stop(
    asked: Asked, tenant: str | None, connector: str, *, reason: str, as_json: bool
) -> None:
    if connector:
        connector_name(connector)
    async with asked.app() as app:
        now = app.clock.now()
        if tenant is not None:
            whose = one_tenant(app.settings, tenant)
            await app.backend.tenant(whose).money.stop(connector, reason=reason, now=now)
            tenants: tuple[TenantId, ...] = (whose,)
        else:
            tenants = tuple(known.id for known in app.settings.tenants)
            await app.backend.shared().stop(connector, reason=reason, now=now)
        going = [(name, await _in_flight(app, name, connector)) for name in tenants]
        stops = await _in_force(app, tenant)
        strange = connector and connector not in await _connectors(app, tenants)
    flat = [(name, hold) for name, holds in going for hold in holds]
    if as_json:
        show_json(
            {
                "stops": [stop_json(each) for each in stops],
                "in_flight": [hold_json(name, hold) for name, hold in flat],
            }
        )
        return
    show_stops(stops)
    if strange:
        say(f"There is no connector {connector}; check its name with: stoker connector list")
    if flat:
        say(f"In flight, {len(flat)} promises given before:")
    show_holds(flat, now=now, empty="Nothing is in flight.")


@click.command()
@_TENANT
@_CONNECTOR
@takes_json
@pass_asked
def resume(asked: Asked, tenant: str | None, connector: str, as_json: bool) -> None:
    """Take a stop back, the one with the same --tenant and --connector."""
    run_async(_resume(asked, tenant, connector, as_json=as_json))


async def _resume(asked: Asked, tenant: str | None, connector: str, *, as_json: bool) -> None:
    if connector:
        connector_name(connector)
    async with asked.app() as app:
        now = app.clock.now()
        if tenant is not None:
            whose = one_tenant(app.settings, tenant)
            was = await app.backend.tenant(whose).money.resume(connector, now=now)
        else:
            was = await app.backend.shared().resume(connector, now=now)
        stops = await _in_force(app, tenant)
    if as_json:
        show_json({"resumed": was, "stops": [stop_json(each) for each in stops]})
        return
    what = f"{connector or 'spending'} for {tenant or 'everybody'}"
    say(f"Resumed: {what}." if was else f"There was no stop of {what}.")
    show_stops(stops)


async def _in_flight(app: App, tenant: TenantId, connector: str) -> list[Hold]:
    return await open_holds(app.backend.tenant(tenant).money, connector=connector)


async def _in_force(app: App, tenant: str | None) -> list[Stop]:
    if tenant is not None:
        return await app.backend.tenant(one_tenant(app.settings, tenant)).money.stops()
    everybody = await app.backend.shared().stops()
    for known in app.settings.tenants:
        stops = await app.backend.tenant(known.id).money.stops()
        everybody += [each for each in stops if each.tenant]
    return everybody


async def _connectors(app: App, tenants: tuple[TenantId, ...]) -> set[str]:
    """Return the connectors there are, and those that somebody's caps speak of."""
    from stoker.connectors import NEEDS

    return {*NEEDS} | {cap.connector for name in tenants for cap in await app.caps_for(name)}
