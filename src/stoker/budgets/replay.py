"""Rebuild totals, open reservations and operators' changes from the ledger alone.

The ledger is the truth and totals are a cache: `find_differences` and `find_operator_mismatches`
list where a store differs from its entries. `ledger.chain` checks the chain itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from stoker.base.errors import ConfigError
from stoker.budgets.caps import CapChange, get_cap_unit, merge_changes
from stoker.budgets.charges import CapWindow, Totals
from stoker.budgets.reservations import OPEN_STATUSES, ReservationStatus
from stoker.budgets.windows import RETENTION, is_old_window
from stoker.ledger.chain import LedgerEntry
from stoker.ledger.query import ANY_CONNECTOR, EntryKind


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
                return  # something that orders nothing


def find_operator_mismatches(
    orders: OperatorSettings, *, stops: Iterable[str], changes: Mapping[str, CapChange]
) -> list[str]:
    """Return where a store's stops and caps differ from what was ordered, one sentence each."""
    in_force = set(stops)
    found = [
        f"a stop of {connector or 'every connector'} was ordered and is not in force"
        for connector in sorted(orders.stops - in_force)
    ]
    found += [
        f"a stop of {connector or 'every connector'} is in force, but its order is missing"
        for connector in sorted(in_force - orders.stops)
    ]
    found += [
        f"{cap}: orders say {_format_change(orders.changes.get(cap))}, the store says "
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
        raise ConfigError("its numbers are none")
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


def rebuild_totals(
    entries: Iterable[LedgerEntry], *, shared: bool = False
) -> dict[CapWindow, Totals]:
    """Return what a tenant's caps have used in each window, by its entries from the start.

    With `shared`, what this tenant took out of the caps it shares instead.
    """
    replay = Replay()
    replay.read(entries)
    return replay.shared if shared else replay.own


def rebuild_open_reservations(entries: Iterable[LedgerEntry]) -> dict[str, ReplayedReservation]:
    """Return the reservations whose outcome is not known yet, by key, by the entries from the
    start.
    """
    replay = Replay()
    replay.read(entries)
    return replay.open


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
