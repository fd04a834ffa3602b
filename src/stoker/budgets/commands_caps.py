"""`stoker caps`: what may be used, what is, and changing it. Every change is a ledger entry."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from stoker.base.errors import ConfigError
from stoker.budgets.caps import CapChange, compute_effective_limit, parse_cap
from stoker.budgets.views import (
    list_shared_balances,
    parse_amount,
    parse_until,
    print_stops,
    read_position,
    show_balances,
    to_balance_json,
    to_stop_json,
)
from stoker.cli.options import choose_tenant, choose_tenants, tenant_option, tenants_option
from stoker.cli.output import json_option, pass_context, print_json, print_text, run_async
from stoker.ledger.commands import ALL_TENANTS

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.budgets.caps import Cap
    from stoker.cli.output import CommandContext

# An amount below zero must reach us as an amount, to be answered as one.
_ALLOW_NEGATIVE_AMOUNTS = {"ignore_unknown_options": True}


@click.group()
def caps() -> None:
    """List, set and raise caps; see what is used and free."""


@caps.command("list")
@tenants_option
@json_option
@pass_context
def list_caps(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> None:
    """Show every cap: used, reserved, free, limit, and when it resets.

    Caps that tenants share are listed once, under `everybody`.
    """
    run_async(_list_caps(asked, tenants, as_json=as_json))


async def _list_caps(asked: CommandContext, tenants: tuple[str, ...], *, as_json: bool) -> None:
    async with asked.open_app(only_to_read=True) as app:
        now, chosen = app.clock.now(), choose_tenants(app.settings, tenants)
        found = [await read_position(app, tenant, now=now) for tenant in chosen]
        shared = await list_shared_balances(app, now=now)
        everybody = await app.backend.shared().list_stops()
    lines = [(str(one.tenant), line) for one in found for line in one.balances]
    lines += [(ALL_TENANTS, line) for line in shared]
    stops = [*everybody, *(stop for one in found for stop in one.stops if stop.tenant)]
    if as_json:
        print_json(
            {
                "caps": [to_balance_json(*line) for line in lines],
                "stops": [to_stop_json(stop) for stop in stops],
            }
        )
        return
    show_balances(lines)
    print_stops(stops)


@caps.command("set", context_settings=_ALLOW_NEGATIVE_AMOUNTS)
@click.argument("cap", metavar="CAP")
@click.argument("limit", metavar="LIMIT")
@tenant_option
@json_option
@pass_context
def set_cap(asked: CommandContext, cap: str, limit: str, tenant: str | None, as_json: bool) -> None:
    """Set a cap's limit from now on, or add a cap.

    CAP is SCOPE/CONNECTOR/UNIT/WINDOW, as `stoker caps list` shows them; one that is not there yet
    is added. Scope `connector` is shared by all tenants.
    """
    wanted = parse_amount(limit, what="LIMIT")
    run_async(_set_cap(asked, cap, wanted, tenant=tenant, as_json=as_json))


async def _set_cap(
    asked: CommandContext, cap: str, limit: int, *, tenant: str | None, as_json: bool
) -> None:
    wanted = parse_cap(cap, limit=limit)
    async with asked.open_app() as app:
        now = app.clock.now()
        known = await _find_current_limit(app, wanted, tenant=tenant, now=now)
        # Whoever sets a limit means it: a raise that is in force ends with it.
        ends = now if known and known.raised else None
        change = CapChange(
            cap=cap, limit=limit, raised_to=limit if ends else None, raised_until=ends
        )
        whose = await _save_change(app, wanted, change, tenant=tenant)
    if as_json:
        print_json(
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
        print_text(f"{cap} allows {limit} from now on; it was {known.limit}{raised}.")
    else:
        print_text(f"{cap} is added and allows {limit}; it counts from now on.")


@caps.command("raise", context_settings=_ALLOW_NEGATIVE_AMOUNTS)
@click.argument("cap", metavar="CAP")
@click.argument("limit", metavar="LIMIT")
@click.option(
    "--until",
    required=True,
    metavar="TIME",
    help="When it ends: 2h, 90m, 3d, or a moment with its offset (2026-02-07T18:00+08:00).",
)
@tenant_option
@json_option
@pass_context
def raise_cap(
    asked: CommandContext, cap: str, limit: str, until: str, tenant: str | None, as_json: bool
) -> None:
    """Let a cap allow more for a while; afterwards it is what it was."""
    wanted = parse_amount(limit, what="LIMIT")
    run_async(_raise_cap(asked, cap, wanted, until=until, tenant=tenant, as_json=as_json))


async def _raise_cap(
    asked: CommandContext, cap: str, limit: int, *, until: str, tenant: str | None, as_json: bool
) -> None:
    wanted = parse_cap(cap, limit=limit)
    async with asked.open_app() as app:
        now = app.clock.now()
        ends = parse_until(until, now=now)
        known = await _find_current_limit(app, wanted, tenant=tenant, now=now)
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
        whose = await _save_change(app, wanted, change, tenant=tenant)
    if as_json:
        print_json(
            {
                "tenant": whose,
                "cap": cap,
                "raised_to": limit,
                "raised_until": ends.isoformat(),
                "limit": known.limit,
            }
        )
        return
    print_text(f"{cap} allows {limit} until {ends:%Y-%m-%d %H:%M} UTC; then {known.limit} again.")


class _CurrentLimit(NamedTuple):
    limit: int  # without any raise
    raised: int  # what a raise says meanwhile; 0 when none is in force


async def _find_current_limit(
    app: App, wanted: Cap, *, tenant: str | None, now: datetime
) -> _CurrentLimit | None:
    if wanted.shared:
        there, changes = await app.list_shared_caps(), await app.backend.shared().list_cap_changes()
    else:
        whose = choose_tenant(app.settings, tenant)
        there = await app.list_caps(whose)
        changes = await app.backend.tenant(whose).money.list_cap_changes()
    for cap in there:
        if cap.id == wanted.id:
            said = changes.get(cap.id)
            lasting = compute_effective_limit(
                cap, said and CapChange(cap=cap.id, limit=said.limit), now=now
            )
            # Also one that is below the limit counts: it would be above a limit set lower.
            until = said.raised_until if said else None
            raised = said.raised_to if said and until is not None and now < until else None
            return _CurrentLimit(lasting, raised or 0)
    return None


async def _save_change(app: App, cap: Cap, change: CapChange, *, tenant: str | None) -> str:
    """Write a change down; return whose cap it is, as listings say it."""
    now = app.clock.now()
    if not cap.shared:
        whose = choose_tenant(app.settings, tenant)
        await app.backend.tenant(whose).money.change_cap(change, now=now)
        return whose
    if tenant is not None:
        raise ConfigError(f"{cap.id} is shared by all tenants; leave out --tenant")
    await app.backend.shared().change_cap(change, now=now)
    return ALL_TENANTS
