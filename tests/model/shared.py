"""What all tenants share, in dictionaries: the model the other shared stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from stoker.base.types import to_utc
from stoker.budgets.caps import CapChange, merge_changes
from stoker.budgets.charges import BudgetState, Totals
from stoker.budgets.ledger_entries import build_cap_entry, build_resume_entry, build_stop_entry
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.schema import validate_change, validate_stop
from stoker.db.codec import validate_name, validate_owner
from stoker.ledger.chain import LedgerEntry, NewEntry
from stoker.rate_limits import rate_limit as limits
from stoker.rate_limits.rate_limit import Rate, RateDecision


class SyncLedger(Protocol):
    """A ledger that a verb can write to as part of itself."""

    def add(self, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
        """Append without waiting."""
        ...

    @property
    def latest_at(self) -> datetime | None:
        """The moment of the last entry."""
        ...


@dataclass(kw_only=True)
class SpendingState:
    """What both kinds of money store remember: totals by cap and window, changes, stops."""

    totals: dict[tuple[str, str], Totals] = field(default_factory=dict)
    changes: dict[str, CapChange] = field(default_factory=dict)
    stops: dict[str, Stop] = field(default_factory=dict)

    def merge_change(self, change: CapChange) -> None:
        """Remember what was said about a cap, beside what was said before."""
        self.changes[change.cap] = merge_changes(self.changes.get(change.cap), change)

    def list_usage(self) -> list[CapUsage]:
        """Return the totals, sorted."""
        return [
            CapUsage(cap=cap, window=window, used=used)
            for (cap, window), used in sorted(self.totals.items(), key=lambda item: item[0])
        ]


class MemorySharedStore:
    """A `SharedStore` in this process."""

    def __init__(self, book: SyncLedger) -> None:
        self.ledger = book
        self.state = SpendingState()
        self._next_at: dict[str, datetime] = {}
        self._slots: dict[str, dict[str, datetime]] = {}

    async def acquire_call(self, key: str, rate: Rate, *, now: datetime) -> RateDecision:
        key, now = validate_name(key, what="a rate's key"), to_utc(now)
        turn = limits.check_rate(rate, self._next_at.get(key), now=now)
        self._next_at[key] = turn.next_at
        return turn

    async def delay_until(self, key: str, *, until: datetime) -> None:
        key = validate_name(key, what="a rate's key")
        self._next_at[key] = limits.postpone_next_at(self._next_at.get(key), until=to_utc(until))

    async def find_next_at(self, key: str) -> datetime | None:
        return self._next_at.get(validate_name(key, what="a rate's key"))

    async def acquire_slot(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        name, owner = validate_name(name, what="a place's name"), validate_owner(owner)
        until, now = to_utc(until), to_utc(now)
        taken = {other: end for other, end in self._slots.get(name, {}).items() if end > now}
        # Whoever is inside stays, also when there are now fewer places than before.
        if owner not in taken and len(taken) >= places:
            return False
        self._slots[name] = taken | {owner: max(until, taken.get(owner, until))}
        return True

    async def release_slot(self, name: str, *, owner: str) -> None:
        name, owner = validate_name(name, what="a place's name"), validate_owner(owner)
        self._slots.get(name, {}).pop(owner, None)

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, moment = validate_stop(connector, reason=reason), self._to_ledger_time(now)
        if connector in self.state.stops:
            return
        self.ledger.add([build_stop_entry(connector, reason=reason, now=moment)])
        self.state.stops[connector] = Stop(
            tenant=None, connector=connector, since=moment, reason=reason
        )

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, moment = validate_stop(connector), self._to_ledger_time(now)
        if self.state.stops.pop(connector, None) is None:
            return False
        self.ledger.add([build_resume_entry(connector, now=moment)])
        return True

    async def list_stops(self) -> list[Stop]:
        return [self.state.stops[connector] for connector in sorted(self.state.stops)]

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change = validate_change(change, shared=True)
        self.ledger.add([build_cap_entry(change, now=self._to_ledger_time(now))])
        self.state.merge_change(change)

    async def list_cap_changes(self) -> dict[str, CapChange]:
        return dict(self.state.changes)

    async def list_usage(self) -> list[CapUsage]:
        return self.state.list_usage()

    def _to_ledger_time(self, now: datetime) -> datetime:
        return BudgetState(latest=self.ledger.latest_at).to_ledger_time(now)
