"""How a promise, a cap's change, a stop and a total stand in the rows of the money tables.

Rows that come out are read as either database's driver gives them: moments and JSON as text or
decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker.core.budget import Charge, Used
from stoker.core.caps import CapChange
from stoker.core.holds import Hold, Phase
from stoker.core.model import Json, TenantId
from stoker.core.runs import compact_json
from stoker.errors import ConfigError, TransientError
from stoker.ports import Stop, Usage
from stoker.stores.sql import (
    Value,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
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
    return Hold(
        key=key,
        connector=connector,
        fingerprint=fingerprint,
        amounts=json_value(amounts),
        charges=tuple(_charge(said) for said in json_value(charges)),
        phase=Phase(phase),
        owner=owner,
        until=moment(until_at),
        reserved_at=moment(reserved_at),
        run=run,
        account=account,
        actual=json_value(actual),
        closed_at=optional_moment(closed_at),
        reason=reason,
    )


def change_of(row: tuple[Any, ...]) -> CapChange:
    """Return the change in a row of cap, new_limit, raised_to, raised_until.

    Raises TransientError when it makes no sense: a cap that cannot be read refuses.
    """
    cap, limit, raised_to, raised_until = row
    try:
        return CapChange(
            cap=cap, limit=limit, raised_to=raised_to, raised_until=optional_moment(raised_until)
        )
    except (ValueError, ConfigError) as error:
        raise TransientError(
            f"what was said about the cap {cap} cannot be read ({error}); nothing was done, "
            "restore the store from a backup"
        ) from error


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


def _charge(said: list[Any]) -> Charge:
    cap, shared, window, amount, limit, ends_at, reason = said
    return Charge(
        cap=cap,
        shared=shared,
        window=window,
        amount=amount,
        limit=limit,
        ends_at=moment(ends_at),
        reason=reason,
    )
