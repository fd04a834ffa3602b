"""`stoker caps`: what may be used, what is, and changing it. Every change is a ledger entry."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from stoker.base.errors import ConfigError
from stoker.budgets.caps import CapChange, cap_named, limit_in_force
from stoker.budgets.views import (
    position,
    shared_statements,
    show_statements,
    show_stops,
    statement_json,
    stop_json,
    typed_amount,
    typed_until,
)
from stoker.cli.options import chosen_tenants, one_tenant, takes_tenant, takes_tenants
from stoker.cli.output import pass_asked, run_async, say, show_json, takes_json
from stoker.ledger.commands import EVERYBODY

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.budgets.caps import Cap
    from stoker.cli.output import Asked

# An amount below zero must reach us as an amount, to be answered as one.
_AMOUNTS_FOLLOW = {"ignore_unknown_options": True}


@click.group()
def caps() -> None:
    """List, set and raise caps; see what is used and free."""


@caps.command("list")
@takes_tenants
@takes_json
@pass_asked
def list_caps(asked: Asked, tenants: tuple[str, ...], as_json: bool) -> None:
    """Show every cap: used, reserved, free, limit, and when it resets.

    Caps that tenants share are listed once, under `everybody`.
    """
    run_async(_list(asked, tenants, as_json=as_json))


async def _list(asked: Asked, tenants: tuple[str, ...], *, as_json: bool) -> None:
    async with asked.app(only_to_read=True) as app:
        now, chosen = app.clock.now(), chosen_tenants(app.settings, tenants)
        found = [await position(app, tenant, now=now) for tenant in chosen]
        shared = await shared_statements(app, now=now)
        everybody = await app.backend.shared().stops()
    lines = [(str(one.tenant), line) for one in found for line in one.statements]
    lines += [(EVERYBODY, line) for line in shared]
    stops = [*everybody, *(stop for one in found for stop in one.stops if stop.tenant)]
    if as_json:
        show_json(
            {
                "caps": [statement_json(*line) for line in lines],
                "stops": [stop_json(stop) for stop in stops],
            }
        )
        return
    show_statements(lines)
    show_stops(stops)


@caps.command("set", context_settings=_AMOUNTS_FOLLOW)
@click.argument("cap", metavar="CAP")
@click.argument("limit", metavar="LIMIT")
@takes_tenant
@takes_json
@pass_asked
def set_cap(asked: Asked, cap: str, limit: str, tenant: str | None, as_json: bool) -> None:
    """Set a cap's limit from now on, or add a cap.

    CAP is SCOPE/CONNECTOR/UNIT/WINDOW, as `stoker caps list` shows them; one that is not there yet
    is added. Scope `connector` is shared by all tenants.
    """
    wanted = typed_amount(limit, what="LIMIT")
    run_async(_set(asked, cap, wanted, tenant=tenant, as_json=as_json))


async def _set(asked: Asked, cap: str, limit: int, *, tenant: str | None, as_json: bool) -> None:
    wanted = cap_named(cap, limit=limit)
    async with asked.app() as app:
        now = app.clock.now()
        known = await _known(app, wanted, tenant=tenant, now=now)
        # Whoever sets a limit means it: a raise that is in force ends with it.
        ends = now if known and known.raised else None
        change = CapChange(
            cap=cap, limit=limit, raised_to=limit if ends else None, raised_until=ends
        )
        whose = await _say(app, wanted, change, tenant=tenant)
    if as_json:
        show_json(
            {
                "tenant": whose,
                "cap": cap,
                "limit": limit,
                "was": known and known.limit,
                "raise_ended": bool(known and known.raised),
                "added": known is None,
            }
        )
    elif known:
        raised = f", raised to {known.raised}" if known.raised else ""
        say(f"{cap} allows {limit} from now on; it was {known.limit}{raised}.")
    else:
        say(f"{cap} is added and allows {limit}; it counts from now on.")


@caps.command("raise", context_settings=_AMOUNTS_FOLLOW)
@click.argument("cap", metavar="CAP")
@click.argument("limit", metavar="LIMIT")
@click.option(
    "--until",
    required=True,
    metavar="TIME",
    help="When it ends: 2h, 90m, 3d, or a moment with its offset (2026-02-07T18:00+08:00).",
)
@takes_tenant
@takes_json
@pass_asked
def raise_cap(
    asked: Asked, cap: str, limit: str, until: str, tenant: str | None, as_json: bool
) -> None:
    """Let a cap allow more for a while; afterwards it is what it was."""
    wanted = typed_amount(limit, what="LIMIT")
    run_async(_raise(asked, cap, wanted, until=until, tenant=tenant, as_json=as_json))


async def _raise(
    asked: Asked, cap: str, limit: int, *, until: str, tenant: str | None, as_json: bool
) -> None:
    wanted = cap_named(cap, limit=limit)
    async with asked.app() as app:
        now = app.clock.now()
        ends = typed_until(until, now=now)
        known = await _known(app, wanted, tenant=tenant, now=now)
        if known is None:
            raise ConfigError(
                f"there is no cap {cap} to raise; see those there are with: stoker caps list"
            )
        if limit <= known.limit:
            raise ConfigError(
                f"{cap} allows {known.limit} already, so {limit} raises nothing; to lower it use: "
                f"stoker caps set {cap} {limit}"
            )
        change = CapChange(cap=cap, raised_to=limit, raised_until=ends)
        whose = await _say(app, wanted, change, tenant=tenant)
    if as_json:
        show_json(
            {
                "tenant": whose,
                "cap": cap,
                "raised_to": limit,
                "raised_until": ends.isoformat(),
                "limit": known.limit,
            }
        )
        return
    say(f"{cap} allows {limit} until {ends:%Y-%m-%d %H:%M} UTC; then {known.limit} again.")


class _Known(NamedTuple):
    limit: int  # without any raise
    raised: int  # what a raise says meanwhile; 0 when none is in force


async def _known(app: App, wanted: Cap, *, tenant: str | None, now: datetime) -> _Known | None:
    if wanted.shared:
        there, changes = await app.shared_caps(), await app.backend.shared().cap_changes()
    else:
        whose = one_tenant(app.settings, tenant)
        there = await app.caps_for(whose)
        changes = await app.backend.tenant(whose).money.cap_changes()
    for cap in there:
        if cap.id == wanted.id:
            said = changes.get(cap.id)
            lasting = limit_in_force(cap, said and CapChange(cap=cap.id, limit=said.limit), now=now)
            # Also one that is below the limit counts: it would be above a limit set lower.
            until = said.raised_until if said else None
            raised = said.raised_to if said and until is not None and now < until else None
            return _Known(lasting, raised or 0)
    return None


async def _say(app: App, cap: Cap, change: CapChange, *, tenant: str | None) -> str:
    """Write a change down; return whose cap it is, as listings say it."""
    now = app.clock.now()
    if not cap.shared:
        whose = one_tenant(app.settings, tenant)
        await app.backend.tenant(whose).money.change_cap(change, now=now)
        return whose
    if tenant is not None:
        raise ConfigError(f"{cap.id} is shared by all tenants; leave out --tenant")
    await app.backend.shared().change_cap(change, now=now)
    return EVERYBODY
