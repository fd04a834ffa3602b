"""Compute the windows budgets are counted in, in the tenant's time zone.

A window is [start, end) in UTC, from an IANA zone and a reset time. A day has 23, 24 or 25 hours;
under one rule windows of a kind never overlap or leave a gap. Windows of two rules may overlap, so
a name says when its window starts, and ends if that is unusual.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache

from stoker.base.clock import CLOCK_TOLERANCE
from stoker.base.errors import ConfigError
from stoker.base.formats import format_duration
from stoker.base.types import to_utc
from stoker.calendar.recurrence import Cron, compute_next_run, get_latest_occurrence
from stoker.calendar.timezones import Fold, Gap, get_zone

FAR_FUTURE = datetime(9000, 1, 1, tzinfo=UTC)

# How long closed reservations and old windows stay. A cached record names its reservation for at
# most this long (`vendors.email_batches.MARK_TTL`); weeks, runs and pulls are shorter.
RETENTION = timedelta(days=400)

_RUN_START_FORMAT = "run %Y%m%d_%H%M%S"

_NAME_SEPARATOR = " to "


class WindowKind(StrEnum):
    """How long a cap counts before it starts again."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"  # from Monday on
    RUN = "run"  # from a run's first reservation on; a run's budget does not start again


_USUAL_LENGTHS = {
    WindowKind.HOUR: timedelta(hours=1),
    WindowKind.DAY: timedelta(days=1),
    WindowKind.WEEK: timedelta(weeks=1),
}

_MAX_LENGTHS = {  # that any zone makes them
    WindowKind.HOUR: timedelta(hours=2),
    WindowKind.DAY: timedelta(hours=26),
    WindowKind.WEEK: timedelta(days=7, hours=2),
}


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """One stretch of time a cap counts over. `name` is unlike any other of the same cap."""

    name: str
    start: datetime
    end: datetime

    def overlaps(self, other: BudgetWindow) -> bool:
        """Return whether some time lies in both."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class ResetRule:
    """Where a tenant's days begin: in which zone, at what time on the wall."""

    zone: str = "UTC"
    at: time = time(0, 0)

    def __post_init__(self) -> None:
        get_zone(self.zone)
        if self.at.tzinfo is not None or self.at.second or self.at.microsecond:
            raise ConfigError(
                f"a budget resets at a whole minute on the wall, HH:MM, not {self.at}; "
                "the zone is a setting of its own"
            )


def compute_window(
    kind: WindowKind, now: datetime, *, reset: ResetRule, run: str | None = None
) -> BudgetWindow:
    """Return the window a time falls into. A run's window needs the run's name.

    Moments in [start, end) have this window and no others do.
    """
    moment = to_utc(now)
    if kind is WindowKind.RUN:
        if not run:
            raise ConfigError("a cap per run is in force; name the run of the reservation")
        return BudgetWindow(f"run {run}", datetime(1970, 1, 1, tzinfo=UTC), FAR_FUTURE)
    return _compute_timed_window(kind, moment.replace(microsecond=0), reset)


@lru_cache(maxsize=4096)
def parse_window(name: str) -> BudgetWindow:
    """Return the hour, day or week of this name, whatever rule it began under.

    Raises ConfigError when it is no such name.
    """
    kind, _, span = name.partition(" ")
    start, _, end = span.partition(_NAME_SEPARATOR)
    try:
        begins = _parse_time(start)
        return BudgetWindow(
            name, begins, _parse_time(end) if end else begins + _USUAL_LENGTHS[WindowKind(kind)]
        )
    except (ValueError, LookupError, OverflowError) as error:
        raise ConfigError(f"{name[:80]!r} is not a time window") from error


def find_window_start(name: str) -> datetime | None:
    """Return when a window of any kind began, by its name; None for a run not named by its time."""
    try:
        if name.startswith("run "):
            return datetime.strptime(name, _RUN_START_FORMAT).replace(tzinfo=UTC)
        return parse_window(name).start
    except (ConfigError, ValueError):
        return None


def is_old_window(name: str, *, now: datetime) -> bool:
    """Return whether nothing can be charged to a window any more, so that its total may go."""
    start = find_window_start(name)
    return start is not None and start < now - RETENTION


def compute_name_range(kind: WindowKind, now: datetime) -> tuple[str, str]:
    """Return two names between which, as text, lie all windows that can matter at a time.

    These are the windows it may fall into, under any rule and any clock within tolerance, and all
    that overlap one of them. The second name is not among them.
    """
    return _compute_name_range(kind, to_utc(now).replace(microsecond=0))


def format_reset(window: BudgetWindow, *, now: datetime, reset: ResetRule) -> str:
    """Say when a window ends, as tenants read it: `resets in 3 h 12 m (00:00 SGT)`."""
    if window.end == FAR_FUTURE:
        return "does not reset; the next run has its own"
    wall = window.end.astimezone(get_zone(reset.zone))
    left = max(window.end - to_utc(now), timedelta(0))
    return f"resets in {format_duration(left)} ({wall:%H:%M %Z})"


# Windows begin at whole seconds, so all that is asked within one second has one answer.
@lru_cache(maxsize=4096)
def _compute_timed_window(kind: WindowKind, second: datetime, reset: ResetRule) -> BudgetWindow:
    boundaries = _build_boundaries(kind, reset)
    start, end = get_latest_occurrence(second, boundaries), compute_next_run(second, boundaries)
    # The end is in the name only where clocks change: elsewhere it follows from the start.
    odd = "" if end - start == _USUAL_LENGTHS[kind] else f"{_NAME_SEPARATOR}{end.isoformat()}"
    return BudgetWindow(f"{kind} {start.isoformat()}{odd}", start, end)


@lru_cache(maxsize=4096)
def _compute_name_range(kind: WindowKind, second: datetime) -> tuple[str, str]:
    longest = _MAX_LENGTHS[kind]
    since, until = second - 2 * longest, second + longest + 2 * CLOCK_TOLERANCE
    return f"{kind} {since.isoformat()}", f"{kind} {until.isoformat()}"


def _parse_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.isoformat() != text or moment.tzinfo is not UTC:
        raise ValueError(text)
    return moment


def _build_boundaries(kind: WindowKind, reset: ResetRule) -> Cron:
    minute, hour = reset.at.minute, reset.at.hour
    if kind is WindowKind.HOUR:
        # An hour that the wall shows twice is two hours, and one it never shows is none: so an
        # hour takes an hour, where clocks are set by whole ones.
        return Cron(f"{minute} * * * *", reset.zone, Gap.SKIP, Fold.BOTH)
    weekday = "1" if kind is WindowKind.WEEK else "*"
    return Cron(f"{minute} {hour} * * {weekday}", reset.zone, Gap.SHIFT, Fold.FIRST)
