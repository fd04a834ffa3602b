"""Profiles, touches and weekly plans; and the store of touches.

A touch is planned here, made by a person or program, and comes back as an outcome. All moments are
UTC, all days those of the tenant's zone. Each store verb is atomic and belongs to one tenant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Protocol


class ProfileStatus(StrEnum):
    """Whether a profile may be touched; only an active one is."""

    ACTIVE = "active"
    PAUSED = "paused"
    PRIVATE = "private"
    DELETED = "deleted"


class TouchOutcome(StrEnum):
    """What came of a touch. Each uses up its slot; only DONE counts and resets the wait."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    ALREADY_REACTED = "already_reacted"
    NO_POSTS = "no_posts"

    @property
    def is_counted(self) -> bool:
        """Return whether the touch was made: it counts, and the wait begins again."""
        return self is TouchOutcome.DONE


PENDING = "pending"  # the status of a touch without an outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A person or company that a tenant stays in touch with. The url is its id."""

    url: str
    name: str = ""
    last_done_at: datetime | None = None  # never touched: first in line
    status: ProfileStatus = ProfileStatus.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One planned contact. `url` and `day` together name it: at most one a day."""

    url: str
    name: str
    day: date  # in the tenant's zone
    at: datetime
    score: float
    days_since: int | None  # on that day, by what was known or projected; None: never touched
    forced: bool
    probability: float  # of being picked that day, given the day's scores; 1 for a forced one
    outcome: TouchOutcome | None = None
    handed_at: datetime | None = None  # when it left Stoker; from then on its time stays

    @property
    def status(self) -> str:
        """Return `pending`, or the outcome's name."""
        return PENDING if self.outcome is None else self.outcome.value


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMark:
    """The recorded outcome of one touch."""

    url: str
    day: date
    outcome: TouchOutcome
    marked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySlot:
    """One day of a plan: how many touches it has room for, and those planned, in time order."""

    day: date
    budget: int
    touches: tuple[Touch, ...] = ()
    burst: bool = False

    @property
    def completed(self) -> int:
        """Return how many of its touches were made."""
        return sum(touch.outcome is TouchOutcome.DONE for touch in self.touches)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyPlan:
    """Seven day slots from Monday on, and what they were drawn from."""

    iso_year: int
    iso_week: int
    monday: date
    total: int  # the seven budgets together
    days: tuple[DaySlot, ...]
    seed: int
    zone: str
    created_at: datetime
    notes: tuple[str, ...] = ()  # what the rules could not be given, in sentences

    @property
    def week(self) -> str:
        """Return the week's name: `2026-W07`."""
        return f"{self.iso_year:04d}-W{self.iso_week:02d}"

    def slot(self, day: date) -> DaySlot | None:
        """Return the slot of a day; None when the day is not of this week."""
        return next((slot for slot in self.days if slot.day == day), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileCounts:
    """How profiles compared with what was known."""

    new: int = 0
    changed: int = 0
    same: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """That one touch left Stoker for who makes it, or was refused there for good."""

    url: str
    day: date
    channel: str
    at: datetime
    refused: str = ""  # why it was refused; empty: it was accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBasis:
    """On which day a plan was last brought in line with what was known, and with what."""

    on: date
    profiles_version: int  # as `TouchStore.get_profiles_version` returned
    rule_digest: str = ""  # the same for the same rule, and another for another


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWeek:
    """A week's plan with what came of it so far.

    A new plan and every outcome change the revision; that a touch left does not.
    """

    plan: WeeklyPlan
    revision: int  # 1 for the first
    deliveries: Mapping[tuple[date, str], Delivery] = field(default_factory=dict)  # by day and url
    basis: PlanBasis | None = None  # None also once something came of it since


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedDay:
    """One day of a week's plan with what came of it so far, without the rest of the week."""

    slot: DaySlot
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)  # by url
    basis: PlanBasis | None = None  # also when something came of the plan since
    has_new_outcomes: bool = False  # something did


class TouchStore(Protocol):
    """One tenant's profiles, plans and counters."""

    async def save_profiles(self, profiles: Sequence[Profile]) -> ProfileCounts:
        """Put profiles in place of what was known of their urls, if they differ.

        As `core.profiles.merged_profile`: a wait never begins earlier than it did. Atomic.
        """
        ...

    async def list_profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        """Return one page of profiles, in url order."""
        ...

    async def find_profiles(self, urls: Sequence[str]) -> list[Profile]:
        """Return the profiles of these urls that are known, in url order."""
        ...

    async def get_profiles_version(self) -> int:
        """Return a number that is another one after profiles were put that were new or differed."""
        ...

    async def find_plan(self, week: str) -> SavedWeek | None:
        """Return the plan of a week (`2026-W07`), each touch with what came of it."""
        ...

    async def find_day(self, week: str, day: date) -> SavedDay | None:
        """Return one day of a week's plan; None when there is no plan, or no such day in it."""
        ...

    async def list_touches(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        """Return the touches of one url in the plans of some weeks, in the order of their days."""
        ...

    async def save_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: PlanBasis | None = None
    ) -> bool:
        """Keep a plan in place of the one of its week, if that is still the revision seen.

        0 means that there was none. Atomic: of two that saw the same, one gets True. Outcomes
        are not taken from the plan given, and none is ever lost to another plan.
        """
        ...

    async def record_outcome(
        self, week: str, marked: OutcomeMark, *, counters: Sequence[str]
    ) -> bool:
        """Write down what came of a planned touch; say whether that was news.

        As `core.marking.is_news`. When it was made, the counters grow by one and its profile's
        wait begins again: all of it is there afterwards, or none. Raises PermanentError, with
        nothing written, when the plan of that week has no such touch.
        """
        ...

    async def record_delivery(self, week: str, handed: Delivery) -> bool:
        """Write down that a planned touch left; False when it had, or was marked, before.

        Raises PermanentError, with nothing written, when the plan of that week has no such touch.
        """
        ...

    async def count_awaiting_outcome(self, *, since: datetime) -> int:
        """Return how many touches delivered since a moment have no outcome yet.

        Only touches planned for that moment's day, two days before it, or later, are counted.
        """
        ...

    async def list_outcomes(self, *, since: date) -> list[OutcomeMark]:
        """Return what came of touches from that day on, by day, then url."""
        ...

    async def add_to_counters(self, counters: Sequence[str], amount: int) -> None:
        """Add an amount to counters, together. Atomic: no concurrent count is lost."""
        ...

    async def read_counters(self, counters: Sequence[str]) -> dict[str, int]:
        """Return counter values by name; 0 for one that was never counted."""
        ...
