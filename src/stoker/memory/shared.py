"""What all tenants share, in dictionaries: the model the other shared stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from stoker.base.types import in_utc
from stoker.budgets.caps import CapChange, said_together
from stoker.budgets.charges import Used
from stoker.budgets.gate import Standing, kept_change, kept_name, kept_owner, kept_stop
from stoker.budgets.ledger_entries import cap_note, resume_note, stop_note
from stoker.budgets.model import Stop, Usage
from stoker.ledger.chain import Entry, LedgerStore, Note
from stoker.rate_limits import rate_limit as limits
from stoker.rate_limits.rate_limit import Rate, Turn


class Book(LedgerStore, Protocol):
    """A ledger that a verb can write to as part of itself."""

    def add(self, notes: Sequence[Note]) -> list[Entry]:
        """Append without waiting."""
        ...

    @property
    def latest_at(self) -> datetime | None:
        """The moment of the last entry."""
        ...


@dataclass(kw_only=True)
class Kept:
    """What both kinds of money store remember: totals by cap and window, changes, stops."""

    totals: dict[tuple[str, str], Used] = field(default_factory=dict)
    changes: dict[str, CapChange] = field(default_factory=dict)
    stops: dict[str, Stop] = field(default_factory=dict)

    def change(self, change: CapChange) -> None:
        """Remember what was said about a cap, beside what was said before."""
        self.changes[change.cap] = said_together(self.changes.get(change.cap), change)

    def usage(self) -> list[Usage]:
        """Return the totals, sorted."""
        return [
            Usage(cap=cap, window=window, used=used)
            for (cap, window), used in sorted(self.totals.items(), key=lambda item: item[0])
        ]


class MemoryShared:
    """A `SharedStore` in this process."""

    def __init__(self, book: Book) -> None:
        self.ledger = book
        self.kept = Kept()
        self._next_at: dict[str, datetime] = {}
        self._places: dict[str, dict[str, datetime]] = {}

    async def turn(self, key: str, rate: Rate, *, now: datetime) -> Turn:
        key, now = kept_name(key, what="a rate's key"), in_utc(now)
        turn = limits.turn(rate, self._next_at.get(key), now=now)
        self._next_at[key] = turn.next_at
        return turn

    async def push_back(self, key: str, *, until: datetime) -> None:
        key = kept_name(key, what="a rate's key")
        self._next_at[key] = limits.pushed_back(self._next_at.get(key), until=in_utc(until))

    async def next_at(self, key: str) -> datetime | None:
        return self._next_at.get(kept_name(key, what="a rate's key"))

    async def take_place(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        name, owner = kept_name(name, what="a place's name"), kept_owner(owner)
        until, now = in_utc(until), in_utc(now)
        taken = {other: end for other, end in self._places.get(name, {}).items() if end > now}
        # Whoever is inside stays, also when there are now fewer places than before.
        if owner not in taken and len(taken) >= places:
            return False
        self._places[name] = taken | {owner: max(until, taken.get(owner, until))}
        return True

    async def leave_place(self, name: str, *, owner: str) -> None:
        name, owner = kept_name(name, what="a place's name"), kept_owner(owner)
        self._places.get(name, {}).pop(owner, None)

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, moment = kept_stop(connector, reason=reason), self._moment(now)
        if connector in self.kept.stops:
            return
        self.ledger.add([stop_note(connector, reason=reason, now=moment)])
        self.kept.stops[connector] = Stop(
            tenant=None, connector=connector, since=moment, reason=reason
        )

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, moment = kept_stop(connector), self._moment(now)
        if self.kept.stops.pop(connector, None) is None:
            return False
        self.ledger.add([resume_note(connector, now=moment)])
        return True

    async def stops(self) -> list[Stop]:
        return [self.kept.stops[connector] for connector in sorted(self.kept.stops)]

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change = kept_change(change, shared=True)
        self.ledger.add([cap_note(change, now=self._moment(now))])
        self.kept.change(change)

    async def cap_changes(self) -> dict[str, CapChange]:
        return dict(self.kept.changes)

    async def usage(self) -> list[Usage]:
        return self.kept.usage()

    def _moment(self, now: datetime) -> datetime:
        return Standing(latest=self.ledger.latest_at).moment(now)
