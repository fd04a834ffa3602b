"""Profiles, touches and weekly plans.

A touch is planned here, made by a person or program, and comes back as an outcome. All moments are
UTC, all days those of the tenant's zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum


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

_CHANNELS = {
    "linkedin.com": "linkedin",
    "xing.com": "xing",
    "facebook.com": "facebook",
    "instagram.com": "instagram",
    "github.com": "github",
    "youtube.com": "youtube",
    "twitter.com": "x",
    "x.com": "x",
}  # by the last two parts of a host's name


def derive_channel(url: str) -> str:
    """Return the channel that an address belongs to: a network's name, else `web`."""
    # Called for every touch of a plan, so no parser: the address was normalized before.
    host = url.partition("://")[2].partition("/")[0].partition(":")[0]
    return _CHANNELS.get(".".join(host.rsplit(".", 2)[-2:]), "web")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A person or company that a tenant stays in touch with. The url is its id."""

    url: str
    name: str = ""
    person: str = ""  # whom to contact; empty where only the company is known
    channel: str = ""  # how: linkedin, email, phone, web …; empty: as the url says
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
    person: str = ""  # whom to contact, as its profile says
    channel: str = ""  # and how
    pressing: bool = False  # came first because its wait nears the window, beyond the forced ones
    outcome: TouchOutcome | None = None
    handed_at: datetime | None = None  # when it left Stoker; from then on its time stays

    @property
    def status(self) -> str:
        """Return `pending`, or the outcome's name."""
        return PENDING if self.outcome is None else self.outcome.value

    @property
    def who(self) -> str:
        """Return the person with the name of its profile, or what is known of them."""
        if self.person and self.name not in (self.person, self.url):
            return f"{self.person}, {self.name}"
        return self.person or self.name or self.url

    @property
    def reason(self) -> str:
        """Return why it came before others; empty when it was drawn."""
        return "overdue" if self.forced else "pressing" if self.pressing else ""


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
class PlanNote:
    """What the rule could not be given, about one day or the whole week."""

    message: str
    day: date | None = None


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
    notes: tuple[PlanNote, ...] = ()

    @property
    def week(self) -> str:
        """Return the week's name: `2026-W07`."""
        return f"{self.iso_year:04d}-W{self.iso_week:02d}"

    @property
    def keys(self) -> frozenset[tuple[date, str]]:
        """Return the day and url of every touch."""
        return frozenset((touch.day, touch.url) for slot in self.days for touch in slot.touches)

    def slot(self, day: date) -> DaySlot | None:
        """Return the slot of a day; None when the day is not of this week."""
        return next((slot for slot in self.days if slot.day == day), None)


@dataclass(frozen=True, slots=True)
class Count:
    """A counter and its value; counters of touches are named after their windows."""

    name: str
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileCounts:
    """How profiles compared with what was known."""

    new: int = 0
    changed: int = 0
    same: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One touch that was delivered, or refused for good by the channel."""

    url: str
    day: date
    channel: str
    at: datetime
    refused: str = ""  # why it was refused; empty: it was accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBasis:
    """What a plan was last made or repaired from."""

    on: date
    profiles_version: int
    rule_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWeek:
    """A week's plan with what came of it so far.

    A new plan and every outcome change the revision; a delivery does not.
    """

    plan: WeeklyPlan
    revision: int  # 1 for the first
    deliveries: Mapping[tuple[date, str], Delivery] = field(default_factory=dict)  # by day and url
    basis: PlanBasis | None = None  # None also once there are new outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedDay:
    """One day of a week's plan with what came of it so far, without the rest of the week."""

    slot: DaySlot
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)  # by url
    basis: PlanBasis | None = None
    has_new_outcomes: bool = False  # since the plan was made from that basis
