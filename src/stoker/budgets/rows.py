"""Convert reservations, cap changes, stops and totals to rows and back.

Rows are read as either database's driver returns them: times and JSON as text or decoded. An
invalid row is named and refused: money must not be spent against what cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.base.types import Json, TenantId
from stoker.budgets.caps import CapChange, get_cap_unit, validate_amount, validate_unit
from stoker.budgets.charges import Charge, Totals
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.db.database import (
    Value,
    from_db_json,
    from_db_time,
    from_optional_db_time,
    to_db_time,
    to_optional_db_time,
    wrap_row_errors,
)

RESERVATION_COLUMNS = (
    "key, connector, fingerprint, phase, owner, until_at, reserved_at, closed_at, run, account, "
    "reason, amounts, charges, actual"
)


def to_reservation_values(reservation: Reservation) -> dict[str, Value]:
    """Return a reservation as the values of its row, in the order of `RESERVATION_COLUMNS`."""
    return {
        "key": reservation.key,
        "connector": reservation.connector,
        "fingerprint": reservation.fingerprint,
        "phase": reservation.status.value,
        "owner": reservation.owner,
        "until_at": to_db_time(reservation.until),
        "reserved_at": to_db_time(reservation.reserved_at),
        "closed_at": to_optional_db_time(reservation.closed_at),
        "run": reservation.run,
        "account": reservation.account,
        "reason": reservation.reason,
        "amounts": compact_json(dict(reservation.amounts)),
        "charges": compact_json(to_charges_json(reservation)),
        "actual": compact_json(dict(reservation.actual)),
    }


def parse_reservation(row: tuple[Any, ...]) -> Reservation:
    """Return the reservation in a row of `RESERVATION_COLUMNS`."""
    key, connector, fingerprint, phase, owner, until_at, reserved_at, closed_at = row[:8]
    run, account, reason, amounts, charges, actual = row[8:]
    with wrap_row_errors(f"the reservation {key}"):
        return Reservation(
            key=key,
            connector=connector,
            fingerprint=fingerprint,
            amounts=_parse_amounts(from_db_json(amounts)),
            charges=tuple(_parse_charge(values) for values in _require_list(from_db_json(charges))),
            status=ReservationStatus(phase),
            owner=owner,
            until=from_db_time(until_at),
            reserved_at=from_db_time(reserved_at),
            run=run,
            account=account,
            actual=_parse_amounts(from_db_json(actual)),
            closed_at=from_optional_db_time(closed_at),
            reason=reason,
        )


def parse_cap_change(row: tuple[Any, ...]) -> CapChange:
    """Return the change in a row of cap, new_limit, raised_to, raised_until.

    Raises TransientError when it makes no sense: a cap that cannot be read refuses.
    """
    cap, limit, raised_to, raised_until = row
    with wrap_row_errors(f"the change of the cap {cap}"):
        return CapChange(
            cap=cap,
            limit=limit,
            raised_to=raised_to,
            raised_until=from_optional_db_time(raised_until),
        )


def to_cap_change_values(change: CapChange) -> dict[str, Value]:
    """Return a change as the values of its row."""
    return {
        "cap": change.cap,
        "new_limit": change.limit,
        "raised_to": change.raised_to,
        "raised_until": to_optional_db_time(change.raised_until),
    }


def parse_stops(rows: Iterable[tuple[Any, ...]], *, tenant: TenantId | None) -> list[Stop]:
    """Return the stops in rows of connector, since_at, reason."""
    with wrap_row_errors("a stop"):
        return [
            Stop(tenant=tenant, connector=connector, since=from_db_time(since_at), reason=reason)
            for connector, since_at, reason in rows
        ]


def parse_usage(rows: Iterable[tuple[Any, ...]]) -> list[CapUsage]:
    """Return the totals in rows of cap, window_name, settled, reserved."""
    return [
        CapUsage(cap=cap, window=window, used=Totals(settled=settled, reserved=reserved))
        for cap, window, settled, reserved in rows
    ]


def to_charges_json(reservation: Reservation) -> list[Json]:
    """Return a reservation's charges as its row has them."""
    return [
        [
            charge.cap,
            charge.shared,
            charge.window,
            charge.amount,
            charge.limit,
            to_db_time(charge.ends_at),
            charge.reason,
        ]
        for charge in reservation.charges
    ]


def _parse_charge(values: Any) -> Charge:
    cap, shared, window, number, limit, ends_at, reason = _require_list(values)
    get_cap_unit(cap)  # found out now, before anything is counted
    if not isinstance(shared, bool) or not isinstance(window, str):
        raise TypeError(f"{values!r} is no charge")
    return Charge(
        cap=cap,
        shared=shared,
        window=window,
        amount=validate_amount(number),
        limit=validate_amount(limit),
        ends_at=from_db_time(ends_at),
        reason=reason,
    )


def _require_list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError(f"{type(values).__name__} where a list is expected")
    return values


def _parse_amounts(values: Any) -> Mapping[str, int]:
    if not isinstance(values, dict):
        raise TypeError(f"{type(values).__name__} where an object is expected")
    return {validate_unit(name): validate_amount(number) for name, number in values.items()}
