"""`stoker stop` and `stoker resume`: nothing more is granted, in any process, until taken back.

What was promised before goes on and is settled as usual; `stop` shows what that is. A stop for
everybody is an entry in the ledger of operators, one for a tenant in the tenant's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.budgets.caps import validate_connector
from stoker.budgets.commands_holds import show_reservations, to_reservation_json
from stoker.budgets.views import list_open_reservations, print_stops, to_stop_json
from stoker.cli.options import choose_tenant
from stoker.cli.output import json_option, pass_context, print_json, print_text, run_async

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import TenantId
    from stoker.budgets.model import Stop
    from stoker.budgets.reservations import Reservation
    from stoker.cli.output import CommandContext

_TENANT_OPTION = click.option(
    "--tenant", metavar="ID", help="Only this tenant. Default: everybody."
)

_CONNECTOR_OPTION = click.option(
    "--connector", default="", metavar="NAME", help="Only this connector. Default: all."
)


@click.command()
@_TENANT_OPTION
@_CONNECTOR_OPTION
@click.option("--reason", default="", metavar="TEXT", help="Why; whoever is refused reads it.")
@json_option
@pass_context
def stop(
    asked: CommandContext, tenant: str | None, connector: str, reason: str, as_json: bool
) -> None:
    """Grant nothing more, and show what is in flight. Stopping twice is once."""
    run_async(_stop_spending(asked, tenant, connector, reason=reason, as_json=as_json))


async def _stop_spending(
    asked: CommandContext, tenant: str | None, connector: str, *, reason: str, as_json: bool
) -> None:
    if connector:
        validate_connector(connector)
    async with asked.open_app() as app:
        now = app.clock.now()
        if tenant is not None:
            whose = choose_tenant(app.settings, tenant)
            await app.backend.tenant(whose).money.stop(connector, reason=reason, now=now)
            tenants: tuple[TenantId, ...] = (whose,)
        else:
            tenants = tuple(known.id for known in app.settings.tenants)
            await app.backend.shared().stop(connector, reason=reason, now=now)
        going = [(name, await _list_in_flight(app, name, connector)) for name in tenants]
        stops = await _list_active_stops(app, tenant)
        strange = connector and connector not in await _list_connectors(app, tenants)
    flat = [(name, hold) for name, holds in going for hold in holds]
    if as_json:
        print_json(
            {
                "stops": [to_stop_json(each) for each in stops],
                "in_flight": [to_reservation_json(name, hold) for name, hold in flat],
            }
        )
        return
    print_stops(stops)
    if strange:
        print_text(f"There is no connector {connector}; check its name with: stoker connector list")
    if flat:
        print_text(f"In flight, {len(flat)} promises given before:")
    show_reservations(flat, now=now, empty="Nothing is in flight.")


@click.command()
@_TENANT_OPTION
@_CONNECTOR_OPTION
@json_option
@pass_context
def resume(asked: CommandContext, tenant: str | None, connector: str, as_json: bool) -> None:
    """Take a stop back, the one with the same --tenant and --connector."""
    run_async(_resume_spending(asked, tenant, connector, as_json=as_json))


async def _resume_spending(
    asked: CommandContext, tenant: str | None, connector: str, *, as_json: bool
) -> None:
    if connector:
        validate_connector(connector)
    async with asked.open_app() as app:
        now = app.clock.now()
        if tenant is not None:
            whose = choose_tenant(app.settings, tenant)
            was = await app.backend.tenant(whose).money.resume(connector, now=now)
        else:
            was = await app.backend.shared().resume(connector, now=now)
        stops = await _list_active_stops(app, tenant)
    if as_json:
        print_json({"resumed": was, "stops": [to_stop_json(each) for each in stops]})
        return
    what = f"{connector or 'spending'} for {tenant or 'everybody'}"
    print_text(f"Resumed: {what}." if was else f"There was no stop of {what}.")
    print_stops(stops)


async def _list_in_flight(app: App, tenant: TenantId, connector: str) -> list[Reservation]:
    return await list_open_reservations(app.backend.tenant(tenant).money, connector=connector)


async def _list_active_stops(app: App, tenant: str | None) -> list[Stop]:
    if tenant is not None:
        return await app.backend.tenant(choose_tenant(app.settings, tenant)).money.list_stops()
    everybody = await app.backend.shared().list_stops()
    for known in app.settings.tenants:
        stops = await app.backend.tenant(known.id).money.list_stops()
        everybody += [each for each in stops if each.tenant]
    return everybody


async def _list_connectors(app: App, tenants: tuple[TenantId, ...]) -> set[str]:
    """Return the connectors there are, and those that somebody's caps speak of."""
    from stoker.connectors import NEEDS

    return {*NEEDS} | {cap.connector for name in tenants for cap in await app.list_caps(name)}
