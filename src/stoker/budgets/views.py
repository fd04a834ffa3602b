"""Caps, reservations and stops as people and programs are shown them."""

from __future__ import annotations

from datetime import datetime

from stoker.base.formats import format_amount, format_duration, format_time
from stoker.base.types import Json, TenantId
from stoker.budgets.caps import Scope, get_cap_unit
from stoker.budgets.model import Stop
from stoker.budgets.reservations import Reservation, ReservationStatus, compute_overrun
from stoker.budgets.statements import CapBalance

ALL_TENANTS = "everybody"  # in JSON, the tenant of what all tenants share

_CONNECTOR_NAMES = {"openai": "OpenAI", "zerobounce": "ZeroBounce"}

_UNIT_NAMES = {"pull_units": "research units", "money": "money"}


def parse_cap_name(text: str) -> str:
    """Return a cap's id from its id or its short name.

    `tavily/calls/day` is a tenant's cap on one connector, `money:USD/day` one on all together.
    """
    parts = text.split("/")
    if len(parts) == 3:
        return f"{Scope.TENANT_CONNECTOR}/{text}"
    return f"{Scope.TENANT}/*/{text}" if len(parts) == 2 else text


def to_cap_name(cap_id: str) -> str:
    """Return the short name of a cap; a shared cap has none but its id."""
    for start in (f"{Scope.TENANT_CONNECTOR}/", f"{Scope.TENANT}/*/"):
        if cap_id.startswith(start):
            return cap_id.removeprefix(start)
    return cap_id


def format_cap(cap_id: str) -> str:
    """Return a cap in words: `Tavily calls per day`, `Money per day`."""
    _, connector, unit, window = cap_id.split("/")
    kind = unit.partition(":")[0]
    words = _UNIT_NAMES.get(kind, kind)
    if connector == "*":
        return f"{words.capitalize()} per {window}"
    return f"{format_connector(connector)} {words} per {window}"


def format_connector(connector: str) -> str:
    """Return a connector's name as its maker writes it."""
    return _CONNECTOR_NAMES.get(connector, connector.capitalize())


def format_cap_amount(cap_id: str, amount: int) -> str:
    """Return an amount that a cap counts, without its unit; money in major units."""
    unit = get_cap_unit(cap_id)
    if unit.startswith("money:"):
        return format_amount(unit, amount).partition(" ")[2]
    return f"{amount:,}"


def format_stop(stop: Stop) -> str:
    """Return who and what a stop is about, since when and why."""
    tenants = stop.tenant or "all tenants"
    what = f"{tenants}: {stop.connector}" if stop.connector else tenants
    reason = f" Reason: {stop.reason}" if stop.reason else ""
    return f"Spending is stopped for {what} since {format_time(stop.since)}.{reason}"


def format_resume_command(stop: Stop) -> str:
    """Return the command that ends a stop."""
    tenant = f" --tenant {stop.tenant}" if stop.tenant else ""
    connector = f" --connector {stop.connector}" if stop.connector else ""
    return f"stoker resume{tenant}{connector}"


def format_lease(reservation: Reservation, *, now: datetime) -> str:
    """Return how long a worker still holds a reservation, or what it waits for."""
    if reservation.status is ReservationStatus.UNCERTAIN:
        return "waits for your decision"
    if now < reservation.until:
        return f"ends in {format_duration(reservation.until - now)}"
    return f"ended {format_duration(now - reservation.until)} ago"


def to_balance_json(tenant: str, balance: CapBalance) -> Json:
    """Return a cap's balance for programs."""
    return {
        "tenant": tenant,
        "cap": balance.cap,
        "name": to_cap_name(balance.cap),
        "window": balance.window,
        "used": balance.used.settled,
        "reserved": balance.used.reserved,
        "free": balance.free,
        "over": balance.over,
        "limit": balance.limit,
        "raised_until": balance.raised_until.isoformat() if balance.raised_until else None,
        "resets": balance.resets,
    }


def to_stop_json(stop: Stop) -> dict[str, Json]:
    """Return a stop for programs."""
    return {
        "tenant": stop.tenant,
        "connector": stop.connector,
        "since": stop.since.isoformat(),
        "reason": stop.reason,
    }


def to_reservation_json(tenant: TenantId, reservation: Reservation) -> dict[str, Json]:
    """Return a reservation for programs; one that has ended also says what it cost."""
    view: dict[str, Json] = {
        "tenant": tenant,
        "key": reservation.key,
        "connector": reservation.connector,
        "phase": reservation.status.value,
        "amounts": dict(reservation.amounts),
        "owner": reservation.owner,
        "reserved_at": reservation.reserved_at.isoformat(),
        "until": reservation.until.isoformat(),
        "run": reservation.run,
        "account": reservation.account,
        "reason": reservation.reason,
    }
    if reservation.status in (ReservationStatus.SETTLED, ReservationStatus.RELEASED):
        view |= {"actual": dict(reservation.actual), "overrun": compute_overrun(reservation)}
    return view
