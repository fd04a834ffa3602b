"""Totals and open promises, worked out from nothing but the ledger.

Entries are the truth and totals are a cache: what a store says it has spent must be what its
entries add up to, and `differences` says where it is not. Reads the notes of `money_notes` and
passes over all other kinds; whether the chain itself is sound is `ledger`'s business.

What operators ordered for everybody, worked out from the ledger of their orders alone.

Which stops are in force and what was said about the caps that tenants share: the entries are the
truth, and what a store keeps beside them must agree. Where either is kept is the stores' business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from stoker.base.errors import ConfigError
from stoker.budgets.caps import CapChange, cap_unit, said_together
from stoker.budgets.charges import Place, Used
from stoker.budgets.reservations import OPEN, Phase
from stoker.ledger.chain import Entry
from stoker.ledger.query import ANY_CONNECTOR, MoneyKind


class Orders:
    """What stands after every entry read so far."""

    def __init__(self) -> None:
        self.stops: set[str] = set()  # connectors; empty for every connector
        self.changes: dict[str, CapChange] = {}
        self.faults: list[str] = []

    def read(self, entries: Iterable[Entry]) -> None:
        """Read on. An entry that cannot be understood is a fault, and changes nothing."""
        for entry in entries:
            try:
                self._read(entry)
            except (ConfigError, TypeError, ValueError) as error:
                self.faults.append(f"entry {entry.seq} cannot be understood: {error}")

    def _read(self, entry: Entry) -> None:
        connector = "" if entry.subject == ANY_CONNECTOR else entry.subject
        match entry.kind:
            case MoneyKind.STOPPED:
                self.stops.add(connector)
            case MoneyKind.RESUMED:
                self.stops.discard(connector)
            case MoneyKind.CAP_CHANGED | MoneyKind.CAP_RAISED:
                before = self.changes.get(entry.subject)
                self.changes[entry.subject] = said_together(before, _change(entry))
            case _:
                return  # something that orders nothing


def order_differences(
    orders: Orders, *, stops: Iterable[str], changes: Mapping[str, CapChange]
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
        f"{cap}: orders say {_said(orders.changes.get(cap))}, the store says "
        f"{_said(changes.get(cap))}"
        for cap in sorted(orders.changes.keys() | changes.keys())
        if orders.changes.get(cap) != changes.get(cap)
    ]
    return found


def _change(entry: Entry) -> CapChange:
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


def _said(change: CapChange | None) -> str:
    if change is None:
        return "nothing"
    limit = "its own limit" if change.limit is None else f"limit {change.limit}"
    if change.raised_to is None or change.raised_until is None:
        return limit
    return f"{limit}, {change.raised_to} until {change.raised_until:%Y-%m-%d %H:%M:%S} UTC"


_LATER = frozenset(phase.value for phase in Phase if phase is not Phase.HELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A promise as far as the ledger tells: what it takes, and where it stands."""

    key: str
    phase: Phase
    charges: Mapping[Place, int]
    shared: Mapping[Place, int]  # out of caps that tenants share


@dataclass(slots=True)
class Replay:
    """A ledger read from its beginning, in order, a page at a time if need be.

    `own` and `shared` are what each cap has given away in each window, the tenant's own caps and
    those it shares; of the latter only what this tenant took. `open` are the promises whose
    outcome is not known yet, by key. `faults` are entries that cannot follow what came before;
    they count for nothing.
    """

    own: dict[Place, Used] = field(default_factory=dict)
    shared: dict[Place, Used] = field(default_factory=dict)
    open: dict[str, Promise] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    _settled: set[str] = field(default_factory=set)
    _returned: dict[str, Promise] = field(default_factory=dict)  # given back; may turn out done

    def read(self, entries: Iterable[Entry]) -> None:
        """Go on reading where the last page ended."""
        for entry in entries:
            try:
                if entry.kind == MoneyKind.RESERVED:
                    self._promised(entry)
                elif entry.kind in _LATER:
                    self._moved_on(entry)
            except (LookupError, ValueError, TypeError, AttributeError):
                self._fault(entry, "does not say what was charged")

    def _promised(self, entry: Entry) -> None:
        key = entry.subject
        if key in self.open or key in self._returned or key in self._settled:
            self._fault(entry, f"promises {key} a second time")
            return
        promise = Promise(
            key=key,
            phase=Phase(_said_replaying(entry)["phase"]),
            charges=_charges(_said_replaying(entry)["charges"]),
            shared=_charges(_said_replaying(entry).get("shared", [])),
        )
        self.open[key] = promise
        self._count(promise, {}, promised=1)

    def _moved_on(self, entry: Entry) -> None:
        key, phase = entry.subject, Phase(entry.kind)
        promise, counted = self.open.get(key), 1
        if promise is None and phase in (Phase.SETTLED, Phase.UNCERTAIN):
            promise, counted = self._returned.get(key), 0
        if promise is None:
            known = key in self._settled or key in self._returned
            what = "was closed before" if known else "was never promised"
            self._fault(entry, f"says {phase} of {key}, which {what}")
            return
        actual = _actual(_said_replaying(entry)["actual"]) if phase is Phase.SETTLED else {}
        self.open.pop(key, None)
        self._returned.pop(key, None)
        if phase in OPEN:
            self.open[key] = replace(promise, phase=phase)
        elif phase is Phase.SETTLED:
            self._settled.add(key)
        else:
            self._returned[key] = promise
        self._count(promise, actual, promised=(phase in OPEN) - counted)

    def _count(self, promise: Promise, actual: Mapping[str, int], *, promised: int) -> None:
        for charges, totals in ((promise.charges, self.own), (promise.shared, self.shared)):
            for place, amount in charges.items():
                there = totals.get(place, Used())
                totals[place] = Used(
                    settled=there.settled + actual.get(cap_unit(place[0]), 0),
                    reserved=there.reserved + promised * amount,
                )

    def _fault(self, entry: Entry, what: str) -> None:
        self.faults.append(f"entry {entry.seq} {what}")


def replayed(entries: Iterable[Entry], *, shared: bool = False) -> dict[Place, Used]:
    """Return what a tenant's caps have given away in each window, by its entries from the start.

    With `shared`, what this tenant took out of the caps it shares instead.
    """
    replay = Replay()
    replay.read(entries)
    return replay.shared if shared else replay.own


def open_holds(entries: Iterable[Entry]) -> dict[str, Promise]:
    """Return the promises whose outcome is not known yet, by key, by the entries from the start."""
    replay = Replay()
    replay.read(entries)
    return replay.open


def differences(truth: Mapping[Place, Used], cache: Mapping[Place, Used]) -> list[str]:
    """Return a sentence for each cap and window where the cache is not what the entries add up to.

    Sorted. One that nothing was ever taken from may be missing on either side.
    """
    found = []
    for place in sorted(truth.keys() | cache.keys()):
        entries, kept = truth.get(place, Used()), cache.get(place, Used())
        if entries != kept:
            found.append(
                f"{place[0]} in {place[1]}: its entries add up to {entries.settled} settled and "
                f"{entries.reserved} reserved, the total says {kept.settled} and {kept.reserved}"
            )
    return found


def _said_replaying(entry: Entry) -> Mapping[str, Any]:
    return entry.data


def _charges(said: Iterable[tuple[str, str, int]]) -> dict[Place, int]:
    for cap, _, _ in said:
        cap_unit(cap)  # found out now, before anything is counted
    return {(cap, window): int(amount) for cap, window, amount in said}


def _actual(said: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(number) for name, number in said.items()}
