"""Build the ledger entry of each money event, so that totals can be computed again from the ledger.

Each function turns one event into one entry: kind, key, cap or connector, sentence, numbers.
`replay` reads them back. An entry about a shared cap has what was taken, never how full the cap is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from stoker.base.reasons import Reason
from stoker.base.types import Json, to_utc
from stoker.budgets.caps import CapChange
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.reservations import (
    Reservation,
    ReservationStatus,
    compute_overrun,
    is_settled_late,
)
from stoker.ledger.chain import NewEntry
from stoker.ledger.query import ANY_CONNECTOR, EntryKind


def build_reserved_entry(reservation: Reservation, *, now: datetime) -> NewEntry:
    """Build the entry of a reservation that was given, with all it takes to count it again.

    `charges` and `shared` are lists of [cap, window, amount]; `limits` are those in force then.
    """
    own = [charge for charge in reservation.charges if not charge.shared]
    data: dict[str, Json] = {
        **_to_data(
            connector=reservation.connector, run=reservation.run, account=reservation.account
        ),
        "amounts": dict(reservation.amounts),
        "charges": [[charge.cap, charge.window, charge.amount] for charge in own],
        "limits": {charge.cap: charge.limit for charge in own},
        "phase": reservation.status.value,
        "owner": reservation.owner,
        "until": to_utc(reservation.until).isoformat(),
    }
    if shared := [charge for charge in reservation.charges if charge.shared]:
        data["shared"] = [[charge.cap, charge.window, charge.amount] for charge in shared]
    reason = f"promised {_format_amounts(reservation.amounts)} of {reservation.connector}"
    return NewEntry(
        at=now, kind=EntryKind.RESERVED.value, subject=reservation.key, reason=reason, data=data
    )


def build_refused_entry(request: SpendRequest, refused: Refusal, *, now: datetime) -> NewEntry:
    """Build the entry of a refused request: which cap or rule refused, and how full it was."""
    data: dict[str, Json] = {
        **_to_data(connector=request.connector, run=request.run, account=request.account),
        "amounts": dict(request.amounts),
        "code": refused.reason,
    }
    if refused.cap:
        data |= {"cap": refused.cap, "used": refused.used, "limit": refused.limit}
    if refused.resets_at is not None:
        data["resets_at"] = to_utc(refused.resets_at).isoformat()
    kind = EntryKind.REFUSED
    return NewEntry(at=now, kind=kind.value, subject=request.key, reason=refused.message, data=data)


def build_status_entry(before: Reservation, after: Reservation, *, now: datetime) -> NewEntry:
    """Build the entry of a reservation whose status changed.

    Call it only when the status differs: an operation that changed nothing has no entry.
    """
    data: dict[str, Json] = {
        **_to_data(connector=after.connector, run=after.run, account=after.account),
        "from": before.status.value,
    }
    if after.status is ReservationStatus.SETTLED:
        data["actual"] = dict(after.actual)
        if is_settled_late(after):
            data["code"] = Reason.SETTLED_LATE.value
        if over := compute_overrun(after):
            data["overrun"] = dict(over)
    kind = EntryKind(after.status.value)
    return NewEntry(
        at=now, kind=kind.value, subject=after.key, reason=_format_status(after), data=data
    )


def build_cap_entry(change: CapChange, *, now: datetime) -> NewEntry:
    """Build the entry of a change to a cap; values left as they were are not in it."""
    parts: list[str] = []
    data: dict[str, Json] = {}
    if change.limit is not None:
        parts.append(f"its limit is {change.limit} from now on")
        data["limit"] = change.limit
    kind = EntryKind.CAP_CHANGED
    if change.raised_to is not None and change.raised_until is not None:
        until = to_utc(change.raised_until)
        data |= {"raised_to": change.raised_to, "raised_until": until.isoformat()}
        if until > now:
            kind = EntryKind.CAP_RAISED
            parts.append(f"it allows {change.raised_to} until {until:%Y-%m-%d %H:%M} UTC")
        else:
            parts.append("it is no longer raised")
    return NewEntry(at=now, kind=kind.value, subject=change.cap, reason="; ".join(parts), data=data)


def build_stop_entry(connector: str, *, reason: str, now: datetime) -> NewEntry:
    """Build the entry of an order to spend nothing more, on a connector or (empty) on any."""
    return NewEntry(
        at=now,
        kind=EntryKind.STOPPED.value,
        subject=connector or ANY_CONNECTOR,
        reason=reason or "no reason was given",
    )


def build_resume_entry(connector: str, *, now: datetime) -> NewEntry:
    """Build the entry of a stop that was taken back."""
    return NewEntry(
        at=now,
        kind=EntryKind.RESUMED.value,
        subject=connector or ANY_CONNECTOR,
        reason="the stop was taken back",
    )


def build_decision_entry(
    account: str,
    *,
    chosen: bool,
    reason: str,
    sentence: str,
    numbers: Mapping[str, Json],
    probability: float | None = None,
    seed: int | None = None,
    now: datetime,
) -> NewEntry:
    """Build the entry of an account that was chosen or not, and why.

    `reason` is the code, `numbers` are the inputs of the decision. If it was random, `probability`
    is how likely the account was to be chosen and `seed` repeats the draw.
    """
    data: dict[str, Json] = {"account": account, "code": reason, "numbers": dict(numbers)}
    if probability is not None:
        data["probability"] = probability
    if seed is not None:
        data["seed"] = seed
    kind = EntryKind.CHOSEN if chosen else EntryKind.NOT_CHOSEN
    return NewEntry(at=now, kind=kind.value, subject=account, reason=sentence, data=data)


def _to_data(*, connector: str, run: str | None, account: str | None) -> dict[str, Json]:
    named: dict[str, Json] = {"connector": connector, "run": run, "account": account}
    return {name: value for name, value in named.items() if value is not None}


def _format_status(reservation: Reservation) -> str:
    if reservation.status is ReservationStatus.SENT:
        return "it may be on its way to the vendor"
    if reservation.status is ReservationStatus.SETTLED:
        cost = f"it cost {_format_amounts(reservation.actual)}"
        if is_settled_late(reservation):
            return f"{cost}, and had been given back"
        over = compute_overrun(reservation)
        return f"{cost}, {_format_amounts(over)} more than promised" if over else cost
    return reservation.reason or "no reason was given"


def _format_amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(amounts.items()))
