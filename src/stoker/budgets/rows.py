"""How a promise, a cap's change, a stop and a total stand in the rows of the money tables.

Rows that come out are read as either database's driver gives them: moments and JSON as text or
decoded. A row that makes no sense is no row of ours: it is named and refused, never made the best
of, for what cannot be read must not be spent against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.base.types import Json, TenantId
from stoker.budgets.caps import CapChange, amount, cap_unit, unit
from stoker.budgets.charges import Charge, Used
from stoker.budgets.model import Stop, Usage
from stoker.budgets.reservations import Hold, Phase
from stoker.db.database import (
    Value,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
    refusing_garbage,
)

HOLD = (
    "key, connector, fingerprint, phase, owner, until_at, reserved_at, closed_at, run, account, "
    "reason, amounts, charges, actual"
)


def hold_values(hold: Hold) -> dict[str, Value]:
    """Return a promise as the values of its row, in the order of `HOLD`."""
    return {
        "key": hold.key,
        "connector": hold.connector,
        "fingerprint": hold.fingerprint,
        "phase": hold.phase.value,
        "owner": hold.owner,
        "until_at": moment_text(hold.until),
        "reserved_at": moment_text(hold.reserved_at),
        "closed_at": optional_moment_text(hold.closed_at),
        "run": hold.run,
        "account": hold.account,
        "reason": hold.reason,
        "amounts": compact_json(dict(hold.amounts)),
        "charges": compact_json(charges_json(hold)),
        "actual": compact_json(dict(hold.actual)),
    }


def hold_of(row: tuple[Any, ...]) -> Hold:
    """Return the promise in a row of `HOLD`."""
    key, connector, fingerprint, phase, owner, until_at, reserved_at, closed_at = row[:8]
    run, account, reason, amounts, charges, actual = row[8:]
    with refusing_garbage(f"the promise {key}"):
        return Hold(
            key=key,
            connector=connector,
            fingerprint=fingerprint,
            amounts=_amounts(json_value(amounts)),
            charges=tuple(_charge(said) for said in _listed(json_value(charges))),
            phase=Phase(phase),
            owner=owner,
            until=moment(until_at),
            reserved_at=moment(reserved_at),
            run=run,
            account=account,
            actual=_amounts(json_value(actual)),
            closed_at=optional_moment(closed_at),
            reason=reason,
        )


def change_of(row: tuple[Any, ...]) -> CapChange:
    """Return the change in a row of cap, new_limit, raised_to, raised_until.

    Raises TransientError when it makes no sense: a cap that cannot be read refuses.
    """
    cap, limit, raised_to, raised_until = row
    with refusing_garbage(f"what was said about the cap {cap}"):
        return CapChange(
            cap=cap, limit=limit, raised_to=raised_to, raised_until=optional_moment(raised_until)
        )


def change_values(change: CapChange) -> dict[str, Value]:
    """Return a change as the values of its row."""
    return {
        "cap": change.cap,
        "new_limit": change.limit,
        "raised_to": change.raised_to,
        "raised_until": optional_moment_text(change.raised_until),
    }


def stops_of(rows: Iterable[tuple[Any, ...]], *, tenant: TenantId | None) -> list[Stop]:
    """Return the stops in rows of connector, since_at, reason."""
    with refusing_garbage("a stop"):
        return [
            Stop(tenant=tenant, connector=connector, since=moment(since_at), reason=reason)
            for connector, since_at, reason in rows
        ]


def usage_of(rows: Iterable[tuple[Any, ...]]) -> list[Usage]:
    """Return the totals in rows of cap, window_name, settled, reserved."""
    return [
        Usage(cap=cap, window=window, used=Used(settled=settled, reserved=reserved))
        for cap, window, settled, reserved in rows
    ]


def charges_json(hold: Hold) -> list[Json]:
    """Return what a promise is charged, as its row says it."""
    return [
        [
            charge.cap,
            charge.shared,
            charge.window,
            charge.amount,
            charge.limit,
            moment_text(charge.ends_at),
            charge.reason,
        ]
        for charge in hold.charges
    ]


def _charge(said: Any) -> Charge:
    cap, shared, window, number, limit, ends_at, reason = _listed(said)
    cap_unit(cap)  # found out now, before anything is counted
    if not isinstance(shared, bool) or not isinstance(window, str):
        raise TypeError(f"{said!r} is no charge")
    return Charge(
        cap=cap,
        shared=shared,
        window=window,
        amount=amount(number),
        limit=amount(limit),
        ends_at=moment(ends_at),
        reason=reason,
    )


def _listed(said: Any) -> list[Any]:
    if not isinstance(said, list):
        raise TypeError(f"{type(said).__name__} where a list is expected")
    return said


def _amounts(said: Any) -> Mapping[str, int]:
    if not isinstance(said, dict):
        raise TypeError(f"{type(said).__name__} where an object is expected")
    return {unit(name): amount(number) for name, number in said.items()}
