"""What staying in touch needs remembered: profiles, weekly plans, what came of them, counters.

Verbs of a store, as in `ports`: each atomic, each wholly or not at all. Everything is one tenant's
own, behind its door. Who is touched when is decided in `core.coverage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Protocol

from stoker.core.coverage.values import DaySlot, Marked, Profile, Touch, WeeklyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesPut:
    """How profiles compared with what was known."""

    new: int = 0
    changed: int = 0
    same: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """That one touch left Stoker for who makes it, or was refused there for good."""

    url: str
    day: date
    way: str
    at: datetime
    refused: str = ""  # why nobody took it; empty: it was taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """On which day a plan was last brought in line with what was known, and with what."""

    on: date
    roster: int  # as `TouchStore.roster` told
    rule: str = ""  # the same for the same rule, and another for another


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan:
    """A week's plan with what came of it so far.

    A new plan and every outcome change the revision; that a touch left does not.
    """

    plan: WeeklyPlan
    revision: int  # 1 for the first
    handed: Mapping[tuple[date, str], HandOver] = field(default_factory=dict)  # by day and url
    settled: Settled | None = None  # None also once something came of it since


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDay:
    """One day of a week's plan with what came of it so far, without the rest of the week."""

    slot: DaySlot
    handed: Mapping[str, HandOver] = field(default_factory=dict)  # by url
    settled: Settled | None = None  # also when something came of the plan since
    marked_since: bool = False  # something did


class TouchStore(Protocol):
    """One tenant's profiles, plans and counters."""

    async def put_profiles(self, profiles: Sequence[Profile]) -> ProfilesPut:
        """Put profiles in place of what was known of their urls, if they differ.

        As `core.profiles.merged_profile`: a wait never begins earlier than it did. Atomic.
        """
        ...

    async def profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        """Return one page of profiles, in url order."""
        ...

    async def some_profiles(self, urls: Sequence[str]) -> list[Profile]:
        """Return the profiles of these urls that are known, in url order."""
        ...

    async def roster(self) -> int:
        """Return a number that is another one after profiles were put that were new or differed."""
        ...

    async def plan(self, week: str) -> KeptPlan | None:
        """Return the plan of a week (`2026-W07`), each touch with what came of it."""
        ...

    async def day(self, week: str, day: date) -> KeptDay | None:
        """Return one day of a week's plan; None when there is no plan, or no such day in it."""
        ...

    async def touches_of(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        """Return the touches of one url in the plans of some weeks, in the order of their days."""
        ...

    async def put_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: Settled | None = None
    ) -> bool:
        """Keep a plan in place of the one of its week, if that is still the revision seen.

        0 means that there was none. Atomic: of two who saw the same, one is told yes. Outcomes
        are not taken from the plan given, and none is ever lost to another plan.
        """
        ...

    async def mark(self, week: str, marked: Marked, *, counters: Sequence[str]) -> bool:
        """Write down what came of a planned touch; say whether that was news.

        As `core.marking.is_news`. When it was made, the counters grow by one and its profile's
        wait begins anew: all of it is there afterwards, or none. Raises PermanentError, with
        nothing written, when the plan of that week has no such touch.
        """
        ...

    async def hand_over(self, week: str, handed: HandOver) -> bool:
        """Write down that a planned touch left; False when it had, or was marked, before.

        Raises PermanentError, with nothing written, when the plan of that week has no such touch.
        """
        ...

    async def still_out(self, *, since: datetime) -> int:
        """Return how many touches were taken from a moment on that nobody has spoken of yet.

        Only touches planned for that moment's day, two days before it, or later, are counted.
        """
        ...

    async def marks(self, *, since: date) -> list[Marked]:
        """Return what came of touches from that day on, by day, then url."""
        ...

    async def count(self, counters: Sequence[str], amount: int) -> None:
        """Let counters grow by so much, together. Atomic: nobody's count is lost to another's."""
        ...

    async def counted(self, counters: Sequence[str]) -> dict[str, int]:
        """Return how far counters have got, by name; 0 for one that nobody counted on."""
        ...
