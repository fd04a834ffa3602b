"""Build the ledger entry of each money event, and rebuild totals and settings from the entries.

Each `build_` function turns one event into one entry: kind, key, cap or connector, sentence,
numbers. An entry about a shared cap has what was taken, never how full the cap is. `Replay` and
`OperatorSettings` read entries back: the ledger is the truth and totals are a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from stoker.base.errors import ConfigError
from stoker.base.formats import format_amounts
from stoker.base.reasons import Reason
from stoker.base.types import Json, to_utc
from stoker.budgets.caps import CapChange, get_cap_unit, merge_changes
from stoker.budgets.charges import CapWindow, Refusal, SpendRequest, Totals
from stoker.budgets.reservations import (
    OPEN_STATUSES,
    Reservation,
    ReservationStatus,
    compute_overrun,
    is_settled_late,
)
from stoker.budgets.windows import RETENTION, is_old_window
from stoker.ledger.chain import LedgerEntry, NewEntry
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
    reason = f"reserved {format_amounts(reservation.amounts)}"
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
        parts.append(f"limit {change.limit} from now on")
        data["limit"] = change.limit
    kind = EntryKind.CAP_CHANGED
    if change.raised_to is not None and change.raised_until is not None:
        until = to_utc(change.raised_until)
        data |= {"raised_to": change.raised_to, "raised_until": until.isoformat()}
        if until > now:
            kind = EntryKind.CAP_RAISED
            parts.append(f"raised to {change.raised_to} until {until:%Y-%m-%d %H:%M} UTC")
        else:
            parts.append("the temporary raise has ended")
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
    """Build the entry of a stop that was ended."""
    return NewEntry(
        at=now,
        kind=EntryKind.RESUMED.value,
        subject=connector or ANY_CONNECTOR,
        reason="spending is allowed again",
    )


def _to_data(*, connector: str, run: str | None, account: str | None) -> dict[str, Json]:
    named: dict[str, Json] = {"connector": connector, "run": run, "account": account}
    return {name: value for name, value in named.items() if value is not None}


def _format_status(reservation: Reservation) -> str:
    if reservation.status is ReservationStatus.SENT:
        return "request sent, no answer yet"
    if reservation.status is ReservationStatus.SETTLED:
        cost = f"cost {format_amounts(reservation.actual) or 'nothing'}"
        if is_settled_late(reservation):
            return f"{cost}; the reservation was released before"
        over = compute_overrun(reservation)
        return f"{cost}, {format_amounts(over)} more than reserved" if over else cost
    return reservation.reason or "no reason was given"


class OperatorSettings:
    """The stops and shared cap changes after every entry read so far."""

    def __init__(self) -> None:
        self.stops: set[str] = set()  # connectors; empty for every connector
        self.changes: dict[str, CapChange] = {}
        self.faults: list[str] = []

    def read(self, entries: Iterable[LedgerEntry]) -> None:
        """Read on. An entry that cannot be understood is a fault, and changes nothing."""
        for entry in entries:
            try:
                self._apply_entry(entry)
            except (ConfigError, TypeError, ValueError) as error:
                self.faults.append(f"entry {entry.seq} cannot be understood: {error}")

    def _apply_entry(self, entry: LedgerEntry) -> None:
        connector = "" if entry.subject == ANY_CONNECTOR else entry.subject
        match entry.kind:
            case EntryKind.STOPPED:
                self.stops.add(connector)
            case EntryKind.RESUMED:
                self.stops.discard(connector)
            case EntryKind.CAP_CHANGED | EntryKind.CAP_RAISED:
                before = self.changes.get(entry.subject)
                self.changes[entry.subject] = merge_changes(before, _parse_change(entry))
            case _:
                return  # it changes no stop and no cap


def find_operator_mismatches(
    orders: OperatorSettings, *, stops: Iterable[str], changes: Mapping[str, CapChange]
) -> list[str]:
    """Return where a store's stops and caps differ from what was ordered, one sentence each."""
    in_force = set(stops)
    found = [
        f"the ledger stops {connector or 'every connector'}, the store does not"
        for connector in sorted(orders.stops - in_force)
    ]
    found += [
        f"the store stops {connector or 'every connector'}, the ledger has no entry of it"
        for connector in sorted(in_force - orders.stops)
    ]
    found += [
        f"{cap}: the ledger says {_format_change(orders.changes.get(cap))}, the store says "
        f"{_format_change(changes.get(cap))}"
        for cap in sorted(orders.changes.keys() | changes.keys())
        if orders.changes.get(cap) != changes.get(cap)
    ]
    return found


def _parse_change(entry: LedgerEntry) -> CapChange:
    limit, raised_to = entry.data.get("limit"), entry.data.get("raised_to")
    until = entry.data.get("raised_until")
    whole = all(number is None or isinstance(number, int) for number in (limit, raised_to))
    if not whole or not (until is None or isinstance(until, str)):
        raise ConfigError("its numbers are not numbers")
    return CapChange(
        cap=entry.subject,
        limit=limit,  # type: ignore[arg-type]  # seen to be whole, or nothing, just above
        raised_to=raised_to,  # type: ignore[arg-type]  # as above
        raised_until=None if until is None else datetime.fromisoformat(until),
    )


def _format_change(change: CapChange | None) -> str:
    if change is None:
        return "nothing"
    limit = "its own limit" if change.limit is None else f"limit {change.limit}"
    if change.raised_to is None or change.raised_until is None:
        return limit
    return f"{limit}, {change.raised_to} until {change.raised_until:%Y-%m-%d %H:%M:%S} UTC"


_LATER_KINDS = frozenset(
    phase.value for phase in ReservationStatus if phase is not ReservationStatus.RESERVED
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedReservation:
    """A reservation rebuilt from the ledger: its charges and status."""

    key: str
    status: ReservationStatus
    charges: Mapping[CapWindow, int]
    shared: Mapping[CapWindow, int]  # out of caps that tenants share


@dataclass(slots=True)
class Replay:
    """A ledger read in order, page by page, from its beginning or from a later entry (`partial`).

    `own` and `shared` are the totals of each cap and window, the tenant's own caps and shared ones;
    of the latter only what this tenant took. `open` are the reservations without a known outcome,
    by key. `faults` are entries that contradict earlier ones; they are not counted. In a partial
    replay, entries about reservations from before its start are passed over.
    """

    partial: bool = False
    own: dict[CapWindow, Totals] = field(default_factory=dict)
    shared: dict[CapWindow, Totals] = field(default_factory=dict)
    open: dict[str, ReplayedReservation] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    _closed_at: dict[str, datetime] = field(default_factory=dict)
    _returned: dict[str, ReplayedReservation] = field(
        default_factory=dict
    )  # released; may turn out done

    def read(self, entries: Iterable[LedgerEntry]) -> None:
        """Go on reading where the last page ended."""
        for entry in entries:
            try:
                if entry.kind == EntryKind.RESERVED:
                    self._add_reservation(entry)
                elif entry.kind in _LATER_KINDS:
                    self._change_status(entry)
            except (LookupError, ValueError, TypeError, AttributeError):
                self._add_fault(entry, "does not say what was charged")

    def _add_reservation(self, entry: LedgerEntry) -> None:
        key = entry.subject
        closed_at = self._closed_at.get(key)
        # A closed reservation is deleted after a time, and its key is then good again.
        if key in self.open or (closed_at is not None and entry.at - closed_at < RETENTION):
            self._add_fault(entry, f"reserves {key} a second time")
            return
        self._returned.pop(key, None)
        reservation = ReplayedReservation(
            key=key,
            status=ReservationStatus(_get_data(entry)["phase"]),
            charges=_parse_charges(_get_data(entry)["charges"]),
            shared=_parse_charges(_get_data(entry).get("shared", [])),
        )
        self.open[key] = reservation
        self._add_totals(reservation, {}, direction=1)

    def _change_status(self, entry: LedgerEntry) -> None:
        key, phase = entry.subject, ReservationStatus(entry.kind)
        reservation, counted = self.open.get(key), 1
        if reservation is None and phase in (
            ReservationStatus.SETTLED,
            ReservationStatus.UNCERTAIN,
        ):
            reservation, counted = self._returned.get(key), 0
        if reservation is None:
            known = key in self._closed_at
            what = "was closed before" if known else "was never reserved"
            if known or not self.partial:
                self._add_fault(entry, f"says {phase} of {key}, which {what}")
            return
        actual = (
            _parse_actual(_get_data(entry)["actual"]) if phase is ReservationStatus.SETTLED else {}
        )
        self.open.pop(key, None)
        self._returned.pop(key, None)
        self._closed_at[key] = entry.at
        if phase in OPEN_STATUSES:
            self.open[key] = replace(reservation, status=phase)
        elif phase is not ReservationStatus.SETTLED:
            self._returned[key] = reservation
        self._add_totals(reservation, actual, direction=(phase in OPEN_STATUSES) - counted)

    def _add_totals(
        self, reservation: ReplayedReservation, actual: Mapping[str, int], *, direction: int
    ) -> None:
        for charges, totals in ((reservation.charges, self.own), (reservation.shared, self.shared)):
            for place, amount in charges.items():
                there = totals.get(place, Totals())
                totals[place] = Totals(
                    settled=there.settled + actual.get(get_cap_unit(place[0]), 0),
                    reserved=there.reserved + direction * amount,
                )

    def _add_fault(self, entry: LedgerEntry, what: str) -> None:
        self.faults.append(f"entry {entry.seq} {what}")


def find_differences(
    truth: Mapping[CapWindow, Totals],
    cache: Mapping[CapWindow, Totals],
    *,
    now: datetime | None = None,
) -> list[str]:
    """Return a sentence for each cap and window where the cache is not what the entries add up to.

    Sorted. One that nothing was ever taken from may be missing on either side. With `now`, of an
    old window less may be settled than its entries say: its total may have been deleted.
    """
    found = []
    for place in sorted(truth.keys() | cache.keys()):
        entries, stored = truth.get(place, Totals()), cache.get(place, Totals())
        is_deleted = (
            now is not None
            and is_old_window(place[1], now=now)
            and entries.reserved == stored.reserved
            and entries.settled >= stored.settled
        )
        if entries != stored and not is_deleted:
            found.append(
                f"{place[0]} in {place[1]}: its entries add up to {entries.settled} settled and "
                f"{entries.reserved} reserved, the total is {stored.settled} and {stored.reserved}"
            )
    return found


def _get_data(entry: LedgerEntry) -> Mapping[str, Any]:
    return entry.data


def _parse_charges(raw: Iterable[tuple[str, str, int]]) -> dict[CapWindow, int]:
    for cap, _, _ in raw:
        get_cap_unit(cap)  # found out now, before anything is counted
    return {(cap, window): int(amount) for cap, window, amount in raw}


def _parse_actual(raw: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(number) for name, number in raw.items()}
