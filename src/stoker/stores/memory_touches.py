"""Profiles, plans and counters in dictionaries: the model the other stores are held to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from stoker.core.coverage.values import Marked, Profile, WeeklyPlan
from stoker.stores.touch_book import TouchBook
from stoker.touches import HandOver, KeptPlan, ProfilesPut


class MemoryTouches:
    """A `TouchStore` that is gone when the process ends."""

    def __init__(self) -> None:
        self._book = TouchBook()

    async def put_profiles(self, profiles: Sequence[Profile]) -> ProfilesPut:
        return self._book.put_profiles(profiles)

    async def profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        return self._book.profiles(after=after, limit=limit)

    async def plan(self, week: str) -> KeptPlan | None:
        return self._book.plan(week)

    async def put_plan(self, plan: WeeklyPlan, *, seen: int) -> bool:
        return self._book.put_plan(plan, seen=seen)

    async def mark(self, week: str, marked: Marked, *, counters: Sequence[str]) -> bool:
        return self._book.mark(week, marked, counters=counters)

    async def hand_over(self, week: str, handed: HandOver) -> bool:
        return self._book.hand_over(week, handed)

    async def marks(self, *, since: date) -> list[Marked]:
        return self._book.marks(since=since)

    async def count(self, counters: Sequence[str], amount: int) -> None:
        self._book.count(counters, amount)

    async def counted(self, counters: Sequence[str]) -> dict[str, int]:
        return self._book.counted(counters)
