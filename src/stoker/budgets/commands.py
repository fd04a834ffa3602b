"""`stoker caps`, `holds`, `stop` and `resume`: what may be spent, what is, and stopping it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_amounts, format_count, format_duration, format_time
from stoker.base.types import TenantId
from stoker.budgets import operator
from stoker.budgets.caps import Cap, Scope, validate_amount, validate_unit
from stoker.budgets.operator import (
    ALL_TENANTS,
    format_cap,
    format_cap_amount,
    format_lease,
    format_resume_command,
    format_stop,
    parse_cap_name,
    to_balance_json,
    to_cap_name,
    to_reservation_json,
    to_stop_json,
)
from stoker.budgets.reservations import Reservation, ReservationStatus, compute_overrun
from stoker.budgets.statements import CapBalance
from stoker.cli.options import (
    DefaultGroup,
    choose_tenant,
    choose_tenants,
    parse_time,
    tenant_option,
    tenants_option,
)
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_command,
    print_error,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.budgets.model import Stop
    from stoker.cli.output import CommandContext
    from stoker.context import Context

# An amount below zero must reach us as an amount, to be answered as one.
_ALLOW_NEGATIVE_AMOUNTS = {"ignore_unknown_options": True}

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")

_all_tenants_option = click.option(
    "--tenant", metavar="ID", help="Only this tenant. Default: all tenants."
)
_connector_option = click.option(
    "--connector", default="", metavar="NAME", help="Only this connector. Default: all."
)


@click.group()
def caps() -> None:
    """List, set and raise caps; see what is used and left."""


@caps.command("list")
@tenants_option
@json_option
@pass_context
@async_command
async def list_caps(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> None:
    """Show every cap: used, held by open reservations, left, limit, and when it resets.

    Caps that tenants share are listed once, after the tenants'.
    """
    async with asked.open_app(only_to_read=True) as app:
        now, chosen = app.clock.now(), choose_tenants(app.settings, tenants)
        found = [await operator.read_position(app, tenant, now=now) for tenant in chosen]
        shared = await operator.list_shared_balances(app, now=now)
        stops = await app.backend.shared().list_stops()
    groups = [*((str(each.tenant), each.balances) for each in found), (ALL_TENANTS, shared)]
    stops += [stop for each in found for stop in each.stops if stop.tenant]
    if as_json:
        lines = [to_balance_json(tenant, line) for tenant, balances in groups for line in balances]
        print_json({"caps": lines, "stops": [to_stop_json(stop) for stop in stops]})
        return
    _print_balances(groups)
    _print_stops(stops)


@caps.command("set", context_settings=_ALLOW_NEGATIVE_AMOUNTS)
@click.argument("cap", metavar="CAP")
@click.argument("limit", metavar="LIMIT")
@tenant_option
@json_option
@pass_context
@async_command
async def set_cap(
    asked: CommandContext, cap: str, limit: str, tenant: str | None, as_json: bool
) -> None:
    """Set a cap's limit from now on, or add a cap.

    CAP is a name as `stoker caps list` shows it, e.g. tavily/calls/day; one that is not there yet
    is added. connector/NAME/UNIT/WINDOW is shared by all tenants. Money is in minor units: 1000 is
    USD 10.00.
    """
    from stoker.vendors.table import VENDORS

    cap_id, wanted = parse_cap_name(cap), parse_amount(limit, what="LIMIT")
    async with asked.open_app() as app:
        owner = _choose_cap_tenant(app, cap_id, tenant)
        update = await operator.set_cap(app, cap_id, wanted, tenant=owner, known=VENDORS)
    if as_json:
        print_json(
            {
                "tenant": update.tenant or ALL_TENANTS,
                "cap": cap_id,
                "limit": wanted,
                "was": update.was,
                "raise_ended": bool(update.raised),
                "added": update.was is None,
            }
        )
    elif update.was is None:
        print_text(f"{_format_changed(update)}: added, {_format_limit(update.cap)}.")
    else:
        was = format_cap_amount(cap_id, update.was)
        print_text(f"{_format_changed(update)}: {was} → {_format_limit(update.cap)}.")
        if update.raised:
            raised = format_cap_amount(cap_id, update.raised)
            print_text(f"The temporary raise to {raised} has ended.")


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
@async_command
async def raise_cap(
    asked: CommandContext, cap: str, limit: str, until: str, tenant: str | None, as_json: bool
) -> None:
    """Raise a cap until a given time; its limit is then what it was."""
    cap_id, wanted = parse_cap_name(cap), parse_amount(limit, what="LIMIT")
    async with asked.open_app() as app:
        ends = _parse_future(until, now=app.clock.now())
        owner = _choose_cap_tenant(app, cap_id, tenant)
        update = await operator.raise_cap(app, cap_id, wanted, until=ends, tenant=owner)
    if as_json:
        print_json(
            {
                "tenant": update.tenant or ALL_TENANTS,
                "cap": cap_id,
                "raised_to": wanted,
                "raised_until": ends.isoformat(),
                "limit": update.was,
            }
        )
        return
    was = format_cap_amount(cap_id, update.was or 0)
    limit_text = _format_limit(update.cap)
    print_text(f"{_format_changed(update)}: {limit_text} until {format_time(ends)}, then {was}.")


@click.group(cls=DefaultGroup)
def holds() -> None:
    """List open reservations; settle or release one by hand."""


@holds.command("list")
@tenants_option
@json_option
@pass_context
@async_command
async def list_holds(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> Exit:
    """List open reservations with owner, age, lease and state, and every cap's balance.

    Exit code 1 when what a cap holds differs from its open reservations.
    """
    async with asked.open_app(only_to_read=True) as app:
        now, chosen = app.clock.now(), choose_tenants(app.settings, tenants)
        found = [await operator.read_position(app, each, now=now) for each in chosen]
    held = [(one.tenant, each) for one in found for each in one.reservations]
    wrong = [f"{one.tenant}: {line}" for one in found for line in one.mismatches]
    if as_json:
        balances = [to_balance_json(one.tenant, line) for one in found for line in one.balances]
        shown = [to_reservation_json(*each) for each in held]
        print_json({"holds": shown, "caps": balances, "wrong": wrong})
    else:
        _print_reservations(held, now=now, empty="No open reservations.")
        _print_next_steps([each for each in held if each[1].status is ReservationStatus.UNCERTAIN])
        print_text()
        _print_balances([(one.tenant, one.balances) for one in found])
    for line in wrong:
        print_error(f"{line}; find the cause with: stoker ledger verify")
    return Exit.PROBLEMS if wrong else Exit.OK


@holds.command()
@click.argument("key", metavar="KEY")
@click.argument("amounts", metavar="UNIT=AMOUNT...", nargs=-1, required=True)
@tenant_option
@json_option
@pass_context
@async_command
async def settle(
    asked: CommandContext, key: str, amounts: tuple[str, ...], tenant: str | None, as_json: bool
) -> None:
    """Settle a reservation of unknown outcome at its cost; a unit left out cost nothing."""
    actual = _parse_amounts(amounts)
    async with asked.open_app() as app:
        owner = choose_tenant(app.settings, tenant)
        reservation = await operator.settle_by_hand(app, owner, key, actual)
    if as_json:
        print_json(to_reservation_json(owner, reservation))
        return
    over = format_amounts(compute_overrun(reservation))
    more = f", {over} more than reserved" if over else ""
    print_text(f"{key} is settled: {format_amounts(reservation.actual)}{more}.")


@holds.command()
@click.argument("key", metavar="KEY")
@click.option("--reason", required=True, metavar="TEXT", help="How you know nothing was bought.")
@tenant_option
@json_option
@pass_context
@async_command
async def release(
    asked: CommandContext, key: str, reason: str, tenant: str | None, as_json: bool
) -> None:
    """Release a reservation of unknown outcome: nothing was bought, its amounts are free again."""
    async with asked.open_app() as app:
        owner = choose_tenant(app.settings, tenant)
        reservation = await operator.release_by_hand(app, owner, key, reason=reason)
    if as_json:
        print_json(to_reservation_json(owner, reservation))
        return
    print_text(f"{key} is released: {format_amounts(reservation.amounts)} free again.")


@click.command()
@_all_tenants_option
@_connector_option
@click.option("--reason", default="", metavar="TEXT", help="Shown with every refusal.")
@json_option
@pass_context
@async_command
async def stop(
    asked: CommandContext, tenant: str | None, connector: str, reason: str, as_json: bool
) -> None:
    """Stop all spending now and list the calls still in progress. Safe to repeat."""
    from stoker.vendors.table import VENDORS

    async with asked.open_app() as app:
        owner = choose_tenant(app.settings, tenant) if tenant is not None else None
        stops, in_flight, is_known = await operator.stop_spending(
            app, owner, connector, reason=reason, known=VENDORS
        )
        now = app.clock.now()
    if as_json:
        shown = [to_reservation_json(*each) for each in in_flight]
        print_json({"stops": [to_stop_json(each) for each in stops], "in_flight": shown})
        return
    _print_stops(stops)
    if not is_known:
        print_text(f"There is no connector {connector}; list them: stoker connectors list")
    if in_flight:
        print_text(f"{format_count(len(in_flight), 'call')} still in progress:")
    _print_reservations(in_flight, now=now, empty="No calls in progress.")


@click.command()
@_all_tenants_option
@_connector_option
@json_option
@pass_context
@async_command
async def resume(asked: CommandContext, tenant: str | None, connector: str, as_json: bool) -> None:
    """Allow spending again. Use the same --tenant and --connector as the stop."""
    async with asked.open_app() as app:
        owner = choose_tenant(app.settings, tenant) if tenant is not None else None
        resumed = await operator.resume_spending(app, owner, connector)
        stops = await operator.list_stops(app, owner)
    if as_json:
        print_json({"resumed": resumed, "stops": [to_stop_json(each) for each in stops]})
        return
    what = f"{connector or 'spending'} for {tenant or 'all tenants'}"
    print_text(f"Resumed: {what}." if resumed else f"There was no stop of {what}.")
    _print_stops(stops)


def _choose_cap_tenant(app: Context, cap_id: str, tenant: str | None) -> TenantId | None:
    is_shared = cap_id.startswith(f"{Scope.CONNECTOR}/")
    return None if is_shared and tenant is None else choose_tenant(app.settings, tenant)


def _format_changed(update: operator.CapUpdate) -> str:
    return f"{format_cap(update.cap.id)} for {update.tenant or 'all tenants together'}"


def _format_limit(cap: Cap) -> str:
    currency = cap.unit.partition(":")[2]
    amount = format_cap_amount(cap.id, cap.limit)
    return f"{currency} {amount}" if currency else amount


def _print_balances(groups: Iterable[tuple[str, Sequence[CapBalance]]]) -> None:
    """Print each tenant's caps under when they reset; a cap that resets otherwise says so."""
    filled = [(tenant, balances) for tenant, balances in groups if balances]
    if not filled:
        print_text("No caps; set one with: stoker caps set CAP LIMIT")
    for number, (tenant, balances) in enumerate(filled):
        resets = [line.resets for line in balances]
        usual = max(dict.fromkeys(resets), key=resets.count)
        title = "shared by all tenants" if tenant == ALL_TENANTS else tenant
        print_text(("\n" if number else "") + f"{title}: {usual}")
        print_table(
            ["cap", "used", "held", "left", "limit", "resets", "note"],
            [
                (
                    to_cap_name(line.cap),
                    *(
                        format_cap_amount(line.cap, amount)
                        for amount in (line.used.settled, line.used.reserved, line.free)
                    ),
                    "none" if line.limit is None else format_cap_amount(line.cap, line.limit),
                    "" if line.resets == usual else line.resets,
                    _format_note(line),
                )
                for line in balances
            ],
            right=("used", "held", "left", "limit"),
        )


def _format_note(line: CapBalance) -> str:
    over = f"over by {format_cap_amount(line.cap, line.over)}" if line.over else ""
    raised = f"raised until {format_time(line.raised_until)}" if line.raised_until else ""
    return "; ".join(filter(None, (over, raised)))


def _print_stops(stops: Iterable[Stop]) -> None:
    for each in stops:
        print_text(format_stop(each))
        print_text(f"  resume with: {format_resume_command(each)}")


def _print_reservations(
    held: Sequence[tuple[TenantId, Reservation]], *, now: datetime, empty: str
) -> None:
    print_table(
        ["tenant", "key", "state", "amounts", "owner", "age", "lease"],
        [
            (
                tenant,
                each.key,
                each.status.value,
                format_amounts(each.amounts),
                each.owner,
                format_duration(max(now - each.reserved_at, timedelta(0))),
                format_lease(each, now=now),
            )
            for tenant, each in held
        ],
        empty=empty,
    )


def _print_next_steps(uncertain: Sequence[tuple[TenantId, Reservation]]) -> None:
    if not uncertain:
        return
    calls = format_count(len(uncertain), "call has", "calls have")
    print_text(f"\n{calls} an unknown outcome. Check the vendor's bill, then run one of:")
    for tenant, each in uncertain:
        cost = " ".join(f"{unit}={amount}" for unit, amount in sorted(each.amounts.items()))
        # After the options, and behind -- where it could be taken for one.
        key = f"{'-- ' if each.key.startswith('-') else ''}{shlex.quote(each.key)}"
        print_text("if the vendor charged it, at this cost:")
        print_command(f"stoker holds settle --tenant {tenant} {key} {cost}")
        print_text("if it did not:")
        print_command(f"stoker holds release --tenant {tenant} --reason '…' {key}")


def parse_amount(text: str, *, what: str) -> int:
    """Return the amount that was typed. Raises ConfigError for what is no whole number."""
    if not _INTEGER.fullmatch(text):
        raise ConfigError(f"{what} is {text!r}; write a whole number, e.g. 500")
    return validate_amount(int(text), what=what)


def _parse_amounts(typed: Sequence[str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for text in typed:
        unit, equals, number = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r} is not UNIT=AMOUNT; write e.g. calls=1")
        if validate_unit(unit) in amounts:
            raise ConfigError(f"{unit} is given twice; give it once")
        amounts[unit] = parse_amount(number, what=unit)
    return amounts


def _parse_future(text: str, *, now: datetime) -> datetime:
    until = parse_time(text, what="--until", now=now, ahead=True)
    if until <= now:
        raise ConfigError(
            f"--until {text} is not ahead: it is {format_time(now)} now; "
            "give a later moment or a span, e.g. 2h"
        )
    return until
