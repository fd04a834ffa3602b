"""Define the states of a reservation, its effect on totals, and which changes are alerts.

    HELD ──▶ SENT ──▶ SETTLED           done, at this cost
      │        ├────▶ RELEASED          nothing was done
      │        └────▶ UNCERTAIN ──▶ SETTLED | RELEASED   once the outcome is known
      └────▶ SETTLED | RELEASED | UNCERTAIN | EXPIRED

    RELEASED | EXPIRED ──▶ SETTLED | UNCERTAIN   its owner came back, and it was done after all

RESERVED is stored and shown as HELD. That of a dead owner expires and is released. One that may
have been SENT is not: money that may be spent must not be granted twice. Stores write the changes,
the totals and the entries together, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from stoker.base.errors import ConflictError
from stoker.base.events import Event, OutcomeUncertain, Overrun
from stoker.base.reasons import Reason
from stoker.base.types import TenantId
from stoker.budgets.caps import get_cap_unit, validate_amount, validate_unit
from stoker.budgets.charges import Charge, SpendRequest
from stoker.ledger.chain import NewEntry


class ReservationStatus(StrEnum):
    """The status of a reservation."""

    RESERVED = "HELD"
    SENT = "SENT"
    UNCERTAIN = "UNCERTAIN"
    SETTLED = "SETTLED"
    RELEASED = "RELEASED"
    EXPIRED = "EXPIRED"


OPEN_STATUSES = frozenset(
    {ReservationStatus.RESERVED, ReservationStatus.SENT, ReservationStatus.UNCERTAIN}
)

RETURNED_STATUSES = frozenset({ReservationStatus.RELEASED, ReservationStatus.EXPIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One reservation. While it is open, its charges count as reserved."""

    key: str
    connector: str
    fingerprint: str
    amounts: Mapping[str, int]
    charges: tuple[Charge, ...]
    status: ReservationStatus
    owner: str
    until: datetime
    reserved_at: datetime
    run: str | None = None
    account: str | None = None
    actual: Mapping[str, int] = field(default_factory=dict)
    closed_at: datetime | None = None
    reason: str = ""


def build_reservation(
    request: SpendRequest, wanted: tuple[Charge, ...], *, owner: str, until: datetime, now: datetime
) -> Reservation:
    """Return the reservation a granted request becomes."""
    return Reservation(
        key=request.key,
        connector=request.connector,
        fingerprint=request.fingerprint,
        amounts=dict(request.amounts),
        charges=wanted,
        status=ReservationStatus.SENT if request.sends_at_once else ReservationStatus.RESERVED,
        owner=owner,
        until=until,
        reserved_at=now,
        run=request.run,
        account=request.account,
    )


def check_repeat(reservation: Reservation, request: SpendRequest) -> Reservation:
    """Return the reservation a key was already good for; with other inputs it is a conflict."""
    if reservation.fingerprint != request.fingerprint:
        raise ConflictError(
            f"{request.key} was used for another request; a new attempt needs a key of its own"
        )
    return reservation


def mark_sent(reservation: Reservation) -> Reservation:
    """Return the reservation with status SENT: the vendor may receive the call. Safe to repeat."""
    if reservation.status is ReservationStatus.SENT:
        return reservation
    if reservation.status is not ReservationStatus.RESERVED:
        raise ConflictError(
            f"{reservation.key} is {reservation.status}; it cannot be sent any more, reserve under "
            "a new key"
        )
    return replace(reservation, status=ReservationStatus.SENT)


def settle_reservation(
    reservation: Reservation, actual: Mapping[str, int], *, now: datetime
) -> Reservation:
    """Return the reservation with its real cost, even if that is more than was reserved.

    Settling again with the same numbers changes nothing; with others it is a conflict. A unit
    without a number cost zero. A reservation that had been released and still cost something is
    settled late: the money is gone and is counted. If it cost nothing, it stays released.
    """
    amounts = {
        validate_unit(name): validate_amount(number, what=f"{reservation.key}: {name}")
        for name, number in actual.items()
    }
    if unknown := set(amounts) - set(reservation.amounts):
        raise ConflictError(f"{reservation.key} did not reserve any {', '.join(sorted(unknown))}")
    cost = {name: amounts.get(name, 0) for name in reservation.amounts}
    if reservation.status is ReservationStatus.SETTLED:
        if dict(reservation.actual) == cost:
            return reservation
        raise ConflictError(
            f"{reservation.key} is {reservation.status} already; it cannot be settled otherwise"
        )
    if reservation.status in RETURNED_STATUSES:
        if not any(cost.values()):
            return reservation
        reservation = replace(reservation, reason=Reason.SETTLED_LATE.value)
    return replace(reservation, status=ReservationStatus.SETTLED, actual=cost, closed_at=now)


def release_reservation(reservation: Reservation, *, now: datetime, reason: str) -> Reservation:
    """Return the reservation released in full. Safe to repeat."""
    if reservation.status in RETURNED_STATUSES:
        return reservation
    if reservation.status is ReservationStatus.SETTLED:
        raise ConflictError(f"{reservation.key} is settled already; it cannot be released")
    return replace(reservation, status=ReservationStatus.RELEASED, closed_at=now, reason=reason)


def mark_uncertain(reservation: Reservation, *, reason: str) -> Reservation:
    """Return the reservation marked uncertain until its outcome is known. Safe to repeat.

    A released one counts as reserved again: the call may have been charged.
    """
    if reservation.status is ReservationStatus.UNCERTAIN:
        return reservation
    if reservation.status is ReservationStatus.SETTLED:
        raise ConflictError(
            f"{reservation.key} is {reservation.status} already; its outcome is known"
        )
    return replace(reservation, status=ReservationStatus.UNCERTAIN, reason=reason, closed_at=None)


def expire_reservation(reservation: Reservation, *, now: datetime) -> Reservation:
    """Return what becomes of a reservation whose lease ended without a heartbeat.

    One that was never sent expires and is released; one that may have been sent is marked
    uncertain. One whose lease has not ended, or whose outcome is known, stays as it is.
    """
    if now < reservation.until or reservation.status not in (
        ReservationStatus.RESERVED,
        ReservationStatus.SENT,
    ):
        return reservation
    if reservation.status is ReservationStatus.RESERVED:
        return replace(
            reservation,
            status=ReservationStatus.EXPIRED,
            closed_at=now,
            reason="its worker sent no heartbeat in time",
        )
    return mark_uncertain(
        reservation, reason="its worker sent no heartbeat after the request may have been sent"
    )


def compute_totals(reservation: Reservation) -> dict[tuple[str, str], tuple[int, int]]:
    """Return what a reservation adds to (settled, reserved), by cap and window."""
    added = {}
    for charge in reservation.charges:
        used = (
            reservation.actual.get(get_cap_unit(charge.cap), 0)
            if reservation.status is ReservationStatus.SETTLED
            else 0
        )
        reserved = charge.amount if reservation.status in OPEN_STATUSES else 0
        added[charge.cap, charge.window] = (used, reserved)
    return added


def compute_overrun(reservation: Reservation) -> dict[str, int]:
    """Return by how much the real cost was above the reservation, by unit; empty when it was not.

    Of a reservation that had been released nothing was left, so all of its cost is.
    """
    if reservation.status is not ReservationStatus.SETTLED:
        return {}
    reserved = (
        dict.fromkeys(reservation.amounts, 0)
        if is_settled_late(reservation)
        else reservation.amounts
    )
    over = {name: cost - reserved[name] for name, cost in reservation.actual.items()}
    return {name: more for name, more in over.items() if more > 0}


def is_settled_late(reservation: Reservation) -> bool:
    """Return whether a reservation had been released before its cost became known."""
    return (
        reservation.status is ReservationStatus.SETTLED
        and reservation.reason == Reason.SETTLED_LATE
    )


def find_alert(reservation: Reservation, *, tenant: TenantId | None, at: datetime) -> Event | None:
    """Return the event to report about a reservation that just changed, or None."""
    if reservation.status is ReservationStatus.UNCERTAIN:
        return OutcomeUncertain(
            at=at,
            tenant=tenant,
            key=reservation.key,
            connector=reservation.connector,
            reason=reservation.reason or "no reason was given",
        )
    if reservation.status is ReservationStatus.SETTLED and (over := compute_overrun(reservation)):
        amounts = ", ".join(f"{number} {unit}" for unit, number in sorted(over.items()))
        return Overrun(
            at=at, tenant=tenant, key=reservation.key, connector=reservation.connector, over=amounts
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChange:
    """One reservation before and after, and the entry the ledger keeps of it."""

    before: Reservation | None  # None: it is being given
    after: Reservation
    entry: NewEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalChange:
    """What is added to one cap's totals in one window; may be less than nothing.

    With a limit, it is only allowed while settled + reserved stay within it.
    """

    shared: bool
    cap: str
    window: str
    settled: int
    reserved: int
    limit: int | None = None


def list_total_changes(moves: Iterable[ReservationChange]) -> list[TotalChange]:
    """Return what these changes add to totals, each cap and window once, shared caps first, by
    name.
    """
    added: dict[tuple[bool, str, str], tuple[int, int]] = {}
    limits: dict[tuple[bool, str, str], int] = {}
    for move in moves:
        before = compute_totals(move.before) if move.before else {}
        after = compute_totals(move.after)
        for charge in move.after.charges:
            place = (not charge.shared, charge.cap, charge.window)
            was, is_now = before.get(place[1:], (0, 0)), after[place[1:]]
            settled, reserved = added.get(place, (0, 0))
            added[place] = (settled + is_now[0] - was[0], reserved + is_now[1] - was[1])
            # Only a new reservation is held to the limit: what was charged already has happened.
            if move.before is None:
                limits[place] = charge.limit - charge.overlap_amount
    return [
        TotalChange(
            shared=not place[0],
            cap=place[1],
            window=place[2],
            settled=settled,
            reserved=reserved,
            limit=limits.get(place),
        )
        for place, (settled, reserved) in sorted(added.items())
        if settled or reserved or place in limits
    ]
