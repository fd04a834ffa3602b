"""How many touches were made this hour, day and week, and whether one more is allowed.

Windows are the tenant's: a counter whose window is over counts from nothing, also when nobody
looked while it ended. Knows windows by their names and never reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from stoker.core.budget_windows import ResetRule, WindowKind, window_at, window_named
from stoker.core.coverage.values import PlanRule
from stoker.core.model import in_utc
from stoker.errors import ConfigError

KINDS = (WindowKind.HOUR, WindowKind.DAY, WindowKind.WEEK)
_NAMES = {
    WindowKind.HOUR: "hourly_limit",
    WindowKind.DAY: "daily_limit",
    WindowKind.WEEK: "weekly_limit",
}
OK = "ok"


@dataclass(frozen=True, slots=True)
class Count:
    """How much of one window is used."""

    window: str
    used: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What was used in the latest hour, day and week that anything was used in."""

    counts: Mapping[WindowKind, Count] = field(default_factory=dict)

    def used(self, kind: WindowKind) -> int:
        """Return what is used of a window that was brought up to date."""
        count = self.counts.get(kind)
        return count.used if count else 0


def limits(rule: PlanRule) -> dict[WindowKind, int]:
    """Return how many touches each window allows."""
    return {
        WindowKind.HOUR: rule.hourly_cap,
        WindowKind.DAY: rule.daily_cap,
        WindowKind.WEEK: rule.weekly_cap,
    }


def windows(now: datetime, *, zone: str) -> dict[WindowKind, str]:
    """Return the names of the hour, the day and the week a moment is in, in the tenant's zone."""
    reset = ResetRule(zone)
    return {kind: window_at(kind, now, reset=reset).name for kind in KINDS}


def up_to_date(counters: Counters, *, now: datetime, zone: str) -> Counters:
    """Return the counters as they stand now: what belongs to a window that is over is gone."""
    names = windows(now, zone=zone)
    return Counters({kind: _current(counters.counts.get(kind), names[kind], now) for kind in KINDS})


def consumed(counters: Counters, *, amount: int, now: datetime, zone: str) -> Counters:
    """Return the counters after so many touches were made. Raises ConfigError below 1."""
    if amount < 1:
        raise ConfigError(f"{amount} touches cannot be counted; give a number from 1 up")
    current = up_to_date(counters, now=now, zone=zone)
    return Counters(
        {kind: replace(each, used=each.used + amount) for kind, each in current.counts.items()}
    )


def verdict(counters: Counters, *, rule: PlanRule, now: datetime, zone: str) -> tuple[bool, str]:
    """Say whether one more touch is allowed, and if not, which limit is full: hour, day, week."""
    current = up_to_date(counters, now=now, zone=zone)
    for kind, limit in limits(rule).items():
        if (used := current.used(kind)) >= limit:
            return False, f"{_NAMES[kind]} ({used}/{limit})"
    return True, OK


def _current(count: Count | None, window: str, now: datetime) -> Count:
    if count is None or count.used <= 0:
        return Count(window, 0)
    # A clock that was set back must not give back what is used: a window yet to come still counts.
    if count.window == window or window_named(count.window).end > in_utc(now):
        return count
    return Count(window, 0)
