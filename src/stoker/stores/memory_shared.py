"""What all tenants share, in dictionaries: the model the other shared stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from stoker.core import limits
from stoker.core.budget import Used
from stoker.core.caps import CapChange, said_together
from stoker.core.gate import kept_change, kept_name, kept_owner, kept_stop
from stoker.core.limits import Rate, Turn
from stoker.core.model import in_utc
from stoker.ports import Stop, Usage


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

    def __init__(self) -> None:
        self.kept = Kept()
        self._next_at: dict[str, datetime] = {}
        self._places: dict[str, dict[str, datetime]] = {}

    async def turn(self, key: str, rate: Rate, *, now: datetime) -> Turn:
        key, now = kept_name(key, what="a rate's key"), in_utc(now)
        turn = limits.turn(rate, self._next_at.get(key), now=now)
        if turn.allowed:
            self._next_at[key] = turn.next_at
        return turn

    async def push_back(self, key: str, *, until: datetime) -> None:
        key = kept_name(key, what="a rate's key")
        self._next_at[key] = limits.pushed_back(self._next_at.get(key), until=in_utc(until))

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
        connector = kept_stop(connector, reason=reason)
        stop = Stop(tenant=None, connector=connector, since=in_utc(now), reason=reason)
        self.kept.stops.setdefault(connector, stop)

    async def resume(self, connector: str) -> bool:
        return self.kept.stops.pop(kept_stop(connector), None) is not None

    async def stops(self) -> list[Stop]:
        return [self.kept.stops[connector] for connector in sorted(self.kept.stops)]

    async def change_cap(self, change: CapChange) -> None:
        self.kept.change(kept_change(change, shared=True))

    async def cap_changes(self) -> dict[str, CapChange]:
        return dict(self.kept.changes)

    async def usage(self) -> list[Usage]:
        return self.kept.usage()
