"""What operators ordered for everybody, worked out from the ledger of their orders alone.

Which stops are in force and what was said about the caps that tenants share: the entries are the
truth, and what a store keeps beside them must agree. Where either is kept is the stores' business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from stoker.core.caps import CapChange, said_together
from stoker.core.ledger import Entry
from stoker.core.money_notes import ANY_CONNECTOR, MoneyKind
from stoker.errors import ConfigError


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
