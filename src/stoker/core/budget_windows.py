"""From when until when a budget counts, in the tenant's own time.

A window is [start, end) in UTC, worked out from an IANA zone and a reset time. A day is as long
as the zone makes it: 23, 24 or 25 hours, and two windows of a kind never overlap or leave a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache

from stoker.core.cadence import Cron, Fold, Gap, compute_next_run, latest_instant
from stoker.core.localtime import duration_text
from stoker.core.model import in_utc
from stoker.core.wallclock import zone_named
from stoker.errors import ConfigError

FOR_EVER = datetime(9000, 1, 1, tzinfo=UTC)


class WindowKind(StrEnum):
    """How long a cap counts before it starts anew."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"  # from Monday on
    RUN = "run"  # from a run's first reservation on; a run's budget does not start anew


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """One stretch of time a cap counts over. `name` is unlike any other of the same cap."""

    name: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ResetRule:
    """Where a tenant's days begin: in which zone, at what time on the wall."""

    zone: str = "UTC"
    at: time = time(0, 0)

    def __post_init__(self) -> None:
        zone_named(self.zone)
        if self.at.tzinfo is not None or self.at.second or self.at.microsecond:
            raise ConfigError(
                f"a budget resets at a whole minute on the wall, HH:MM, not {self.at}; "
                "the zone is a setting of its own"
            )


def window_at(
    kind: WindowKind, now: datetime, *, reset: ResetRule, run: str | None = None
) -> BudgetWindow:
    """Return the window a moment falls into. A run's window needs the run's name.

    Moments in [start, end) have this window and no others do.
    """
    moment = in_utc(now)
    if kind is WindowKind.RUN:
        if not run:
            raise ConfigError("a cap per run is in force; say which run the reservation is for")
        return BudgetWindow(f"run {run}", datetime(1970, 1, 1, tzinfo=UTC), FOR_EVER)
    return _timed_window(kind, moment.replace(microsecond=0), reset)


def resets_text(window: BudgetWindow, *, now: datetime, reset: ResetRule) -> str:
    """Say when a window ends, as tenants read it: `resets in 3 h 12 m (00:00 SGT)`."""
    if window.end == FOR_EVER:
        return "does not reset; the next run has its own"
    wall = window.end.astimezone(zone_named(reset.zone))
    left = max(window.end - in_utc(now), timedelta(0))
    return f"resets in {duration_text(left)} ({wall:%H:%M %Z})"


# Windows begin at whole seconds, so all that is asked within one second has one answer.
@lru_cache(maxsize=4096)
def _timed_window(kind: WindowKind, second: datetime, reset: ResetRule) -> BudgetWindow:
    boundaries = _boundaries(kind, reset)
    start = latest_instant(second, boundaries)
    return BudgetWindow(f"{kind} {start.isoformat()}", start, compute_next_run(second, boundaries))


def _boundaries(kind: WindowKind, reset: ResetRule) -> Cron:
    minute, hour = reset.at.minute, reset.at.hour
    if kind is WindowKind.HOUR:
        # An hour that the wall shows twice is two hours, and one it never shows is none: so an
        # hour takes an hour, where clocks are set by whole ones.
        return Cron(f"{minute} * * * *", reset.zone, Gap.SKIP, Fold.BOTH)
    weekday = "1" if kind is WindowKind.WEEK else "*"
    return Cron(f"{minute} {hour} * * {weekday}", reset.zone, Gap.SHIFT, Fold.FIRST)
