"""Profiles, plans and counters in dictionaries: the model the other stores are held to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from stoker.touches.book import TouchState
from stoker.touches.model import (
    Delivery,
    OutcomeMark,
    PlanBasis,
    Profile,
    ProfileCounts,
    SavedDay,
    SavedWeek,
    Touch,
    WeeklyPlan,
)


class MemoryTouches:
    """A `TouchStore` that is gone when the process ends."""

    def __init__(self) -> None:
        self._book = TouchState()

    async def save_profiles(self, profiles: Sequence[Profile]) -> ProfileCounts:
        return self._book.save_profiles(profiles)

    async def list_profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        return self._book.list_profiles(after=after, limit=limit)

    async def find_plan(self, week: str) -> SavedWeek | None:
        return self._book.find_plan(week)

    async def find_profiles(self, urls: Sequence[str]) -> list[Profile]:
        return self._book.find_profiles(urls)

    async def get_profiles_version(self) -> int:
        return self._book.get_profiles_version()

    async def find_day(self, week: str, day: date) -> SavedDay | None:
        return self._book.find_day(week, day)

    async def list_touches(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        return self._book.list_touches(url, weeks=weeks)

    async def save_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: PlanBasis | None = None
    ) -> bool:
        return self._book.save_plan(plan, seen=seen, settled=settled)

    async def record_outcome(
        self, week: str, marked: OutcomeMark, *, counters: Sequence[str]
    ) -> bool:
        return self._book.record_outcome(week, marked, counters=counters)

    async def record_delivery(self, week: str, handed: Delivery) -> bool:
        return self._book.record_delivery(week, handed)

    async def count_awaiting_outcome(self, *, since: datetime) -> int:
        return self._book.count_awaiting_outcome(since=since)

    async def list_outcomes(self, *, since: date) -> list[OutcomeMark]:
        return self._book.list_outcomes(since=since)

    async def add_to_counters(self, counters: Sequence[str], amount: int) -> None:
        self._book.add_to_counters(counters, amount)

    async def read_counters(self, counters: Sequence[str]) -> dict[str, int]:
        return self._book.read_counters(counters)
