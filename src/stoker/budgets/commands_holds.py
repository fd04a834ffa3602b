"""`stoker holds`: every open promise, and saying by hand what became of one nobody knows about."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.types import Json, TenantId
from stoker.budgets.caps import validate_unit
from stoker.budgets.reservations import (
    OPEN_STATUSES,
    Reservation,
    ReservationStatus,
    compute_overrun,
)
from stoker.budgets.views import parse_amount, read_position, show_balances, to_balance_json
from stoker.calendar.timezones import format_duration
from stoker.cli.options import (
    DefaultGroup,
    choose_tenant,
    choose_tenants,
    tenant_option,
    tenants_option,
)
from stoker.cli.output import (
    Exit,
    json_option,
    pass_context,
    print_error,
    print_json,
    print_table,
    print_text,
    run_async,
)

if TYPE_CHECKING:
    from stoker.cli.output import CommandContext
    from stoker.context import TenantStores

TenantReservation = tuple[TenantId, Reservation]


@click.group(cls=DefaultGroup)
def holds() -> None:
    """List open reservations; settle or release one by hand."""


@holds.command("list")
@tenants_option
@json_option
@pass_context
def list_holds(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> Exit:
    """List open reservations with owner, age, expiry and state, and how full each cap is.

    What each cap has reserved is compared with them; exit code 1 when it does not add up.
    """
    return run_async(_list_reservations(asked, tenants, as_json=as_json))


async def _list_reservations(
    asked: CommandContext, tenants: tuple[str, ...], *, as_json: bool
) -> Exit:
    async with asked.open_app(only_to_read=True) as app:
        now, chosen = app.clock.now(), choose_tenants(app.settings, tenants)
        found = [await read_position(app, tenant, now=now) for tenant in chosen]
    held = [(one.tenant, hold) for one in found for hold in one.reservations]
    lines = [(str(one.tenant), line) for one in found for line in one.balances]
    wrong = [f"{one.tenant}: {line}" for one in found for line in one.mismatches]
    if as_json:
        print_json(
            {
                "holds": [to_reservation_json(*each) for each in held],
                "caps": [to_balance_json(*line) for line in lines],
                "wrong": wrong,
            }
        )
    else:
        show_reservations(held, now=now, empty="No open reservations.")
        _show_next_steps([each for each in held if each[1].status is ReservationStatus.UNCERTAIN])
        print_text()
        show_balances(lines)
    for line in wrong:
        print_error(f"{line}; look closer with: stoker ledger verify")
    return Exit.PROBLEMS if wrong else Exit.OK


@holds.command()
@click.argument("key", metavar="KEY")
@click.argument("amounts", metavar="UNIT=AMOUNT...", nargs=-1, required=True)
@tenant_option
@json_option
@pass_context
def settle(
    asked: CommandContext, key: str, amounts: tuple[str, ...], tenant: str | None, as_json: bool
) -> None:
    """Say that an uncertain promise was done, and what it cost; a unit left out cost nothing."""
    run_async(
        _settle_reservation(asked, key, _parse_amounts(amounts), tenant=tenant, as_json=as_json)
    )


async def _settle_reservation(
    asked: CommandContext, key: str, actual: dict[str, int], *, tenant: str | None, as_json: bool
) -> None:
    async with asked.open_app() as app:
        store = app.backend.tenant(choose_tenant(app.settings, tenant))
        hold = await _get_open_reservation(store, key, now=app.clock.now())
        if more := sorted(set(actual) - set(hold.amounts)):
            units = ", ".join(sorted(hold.amounts))
            raise ConfigError(f"{key} was promised {units}, not {', '.join(more)}")
        hold = await store.money.settle(key, actual, now=app.clock.now())
    if as_json:
        print_json(_to_closed_json(store.tenant, hold))
        return
    over = _format_amounts(compute_overrun(hold))
    print_text(
        f"{key} is settled: {_format_amounts(hold.actual)}"
        + (f", {over} over its promise." if over else ".")
    )


@holds.command()
@click.argument("key", metavar="KEY")
@click.option("--reason", required=True, metavar="TEXT", help="How you know that nothing was done.")
@tenant_option
@json_option
@pass_context
def release(
    asked: CommandContext, key: str, reason: str, tenant: str | None, as_json: bool
) -> None:
    """Say that nothing was done under an uncertain promise; its amounts are free again."""
    run_async(_release_reservation(asked, key, reason=reason, tenant=tenant, as_json=as_json))


async def _release_reservation(
    asked: CommandContext, key: str, *, reason: str, tenant: str | None, as_json: bool
) -> None:
    if not reason.strip():
        raise ConfigError("--reason is empty; say how you know that nothing was done")
    async with asked.open_app() as app:
        store = app.backend.tenant(choose_tenant(app.settings, tenant))
        await _get_open_reservation(store, key, now=app.clock.now())
        hold = await store.money.release(key, reason=reason, now=app.clock.now())
    if as_json:
        print_json(_to_closed_json(store.tenant, hold))
        return
    print_text(f"{key} is released: {_format_amounts(hold.amounts)} free again.")


def show_reservations(held: Sequence[TenantReservation], *, now: datetime, empty: str) -> None:
    """Print promises, each under its tenant."""
    print_table(
        ["tenant", "key", "connector", "phase", "promised", "owner", "age", "lease"],
        [
            (
                tenant,
                hold.key,
                hold.connector,
                hold.status.value,
                _format_amounts(hold.amounts),
                hold.owner,
                format_duration(max(now - hold.reserved_at, timedelta(0))),
                _format_lease(hold, now=now),
            )
            for tenant, hold in held
        ],
        empty=empty,
    )


def to_reservation_json(tenant: TenantId, hold: Reservation) -> dict[str, Json]:
    """Return a promise for programs."""
    return {
        "tenant": tenant,
        "key": hold.key,
        "connector": hold.connector,
        "phase": hold.status.value,
        "amounts": dict(hold.amounts),
        "owner": hold.owner,
        "reserved_at": hold.reserved_at.isoformat(),
        "until": hold.until.isoformat(),
        "run": hold.run,
        "account": hold.account,
        "reason": hold.reason,
    }


def _to_closed_json(tenant: TenantId, hold: Reservation) -> Json:
    return to_reservation_json(tenant, hold) | {
        "actual": dict(hold.actual),
        "overrun": compute_overrun(hold),
    }


def _show_next_steps(held: Sequence[TenantReservation]) -> None:
    if not held:
        return
    print_text(
        f"\n{len(held)} may have been done; nobody knows. Look at the vendor's side, then say"
    )
    for tenant, hold in held:
        key, cost = shlex.quote(hold.key), _format_amount_arguments(hold.amounts)
        # After the options, and behind -- where it could be taken for one.
        key = f"-- {key}" if hold.key.startswith("-") else key
        print_text(
            f"  stoker holds settle --tenant {tenant} {key} {cost}    if it was done, at that cost"
        )
        print_text(f"  stoker holds release --tenant {tenant} --reason '…' {key}    if it was not")


async def _get_open_reservation(store: TenantStores, key: str, *, now: datetime) -> Reservation:
    """Return a promise that a person may speak for: nobody is at work on it any more."""
    hold = await store.money.find_reservation(key)
    if hold is None:
        raise ConfigError(
            f"{store.tenant} has no promise {key!r}; see those there are with: stoker holds"
        )
    if hold.status not in OPEN_STATUSES:
        raise ConfigError(
            f"{key} is {hold.status} already; see: stoker ledger list --tenant {store.tenant}"
        )
    if hold.status is not ReservationStatus.UNCERTAIN and now < hold.until:
        raise ConfigError(
            f"{hold.owner} is at work on {key}, at least until {hold.until:%Y-%m-%d %H:%M:%S} UTC; "
            "it will say itself what became of it"
        )
    return hold


def _parse_amounts(typed: tuple[str, ...]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for text in typed:
        name, equals, number = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r} is not UNIT=AMOUNT; write e.g. calls=1")
        if validate_unit(name) in amounts:
            raise ConfigError(f"{name} is given twice; say it once")
        amounts[name] = parse_amount(number, what=name)
    return amounts


def _format_lease(hold: Reservation, *, now: datetime) -> str:
    if hold.status is ReservationStatus.UNCERTAIN:
        return "kept until somebody says"
    if now < hold.until:
        return f"ends in {format_duration(hold.until - now)}"
    return f"ended {format_duration(now - hold.until)} ago"


def _format_amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(amounts.items()))


def _format_amount_arguments(amounts: Mapping[str, int]) -> str:
    return " ".join(f"{name}={number}" for name, number in sorted(amounts.items()))
