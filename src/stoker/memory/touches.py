"""Profiles, plans and counters in dictionaries: the model the other stores are held to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from stoker.touches.book import TouchBook
from stoker.touches.model import (
    HandOver,
    KeptDay,
    KeptPlan,
    Marked,
    Profile,
    ProfilesPut,
    Settled,
    Touch,
    WeeklyPlan,
)


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

    async def some_profiles(self, urls: Sequence[str]) -> list[Profile]:
        return self._book.some_profiles(urls)

    async def roster(self) -> int:
        return self._book.roster()

    async def day(self, week: str, day: date) -> KeptDay | None:
        return self._book.day(week, day)

    async def touches_of(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        return self._book.touches_of(url, weeks=weeks)

    async def put_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: Settled | None = None
    ) -> bool:
        return self._book.put_plan(plan, seen=seen, settled=settled)

    async def mark(self, week: str, marked: Marked, *, counters: Sequence[str]) -> bool:
        return self._book.mark(week, marked, counters=counters)

    async def hand_over(self, week: str, handed: HandOver) -> bool:
        return self._book.hand_over(week, handed)

    async def still_out(self, *, since: datetime) -> int:
        return self._book.still_out(since=since)

    async def marks(self, *, since: date) -> list[Marked]:
        return self._book.marks(since=since)

    async def count(self, counters: Sequence[str], amount: int) -> None:
        self._book.count(counters, amount)

    async def counted(self, counters: Sequence[str]) -> dict[str, int]:
        return self._book.counted(counters)
