"""Decide when a schedule is due, and what becomes of missed occurrences.

A schedule is an interval, a daily window in UTC, or a cron line in a time zone. The same inputs
give the same answer: there is no jitter and no clock, callers pass the time. All moments are aware,
and those returned are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice, takewhile

from stoker.base.errors import ConfigError
from stoker.base.types import to_utc
from stoker.calendar.cron import parse_cron
from stoker.calendar.timezones import Fold, Gap, LocalTimePattern, get_zone

MAX_MISSED = 20_000  # missed instants listed one by one; older ones are only counted
_MIN_INTERVAL, _MAX_INTERVAL = timedelta(minutes=1), timedelta(days=3660)
_HOUR_MINUTE = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_TICK = timedelta.resolution


@dataclass(frozen=True, slots=True)
class Interval:
    """Due again once this much time has passed."""

    every: timedelta

    def __post_init__(self) -> None:
        if not _MIN_INTERVAL <= self.every <= _MAX_INTERVAL:
            raise ConfigError(
                f"an interval is 1 minute to {_MAX_INTERVAL.days} days, not {self.every}"
            )


@dataclass(frozen=True, slots=True)
class Window:
    """Due once a day, at this whole minute of the UTC day."""

    at: time

    def __post_init__(self) -> None:
        if self.at.tzinfo not in (None, UTC) or self.at.second or self.at.microsecond:
            raise ConfigError(f"a window is a whole minute in UTC, HH:MM, not {self.at}")

    @staticmethod
    def parse(text: str) -> Window:
        """Return the window written as HH:MM, 00:00 to 23:59."""
        if not _HOUR_MINUTE.fullmatch(text):
            raise ConfigError(f"a window is HH:MM in UTC, 00:00 to 23:59, not {text!r}")
        return Window(time.fromisoformat(text))


@dataclass(frozen=True, slots=True)
class Cron:
    """Due when the wall clock of a zone shows a minute that the cron line names.

    With fold `first` or `last` a repeated hour counts once, also for a line that runs every few
    minutes; such a line usually wants `both`.
    """

    expression: str = "0 1 * * *"
    zone: str = "Asia/Singapore"
    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST

    def __post_init__(self) -> None:
        parse_cron(self.expression)
        get_zone(self.zone)


Schedule = Interval | Window | Cron


class CatchUp(StrEnum):
    """What to do about instants that passed while nothing was running."""

    LATEST = "latest"  # the latest runs, once
    ALL = "all"  # they run one after the other, up to a maximum
    NONE = "none"  # they do not run; one that has only just passed does


@dataclass(frozen=True, slots=True, kw_only=True)
class DueOccurrences:
    """What to do now: the instants to run and those that are missed, oldest first, and why."""

    run: tuple[datetime, ...] = ()
    missed: tuple[datetime, ...] = ()
    reason: str


def compute_next_run(now_utc: datetime, schedule: Schedule) -> datetime:
    """Return the first instant strictly after now; for an interval, now plus the interval."""
    now = _validate_time(now_utc)
    if isinstance(schedule, Interval):
        return now + schedule.every
    return next(_build_pattern(schedule).iter_forward(now + _TICK))


def should_run(now_utc: datetime, last_run_at: datetime | None, schedule: Schedule) -> bool:
    """Return whether an occurrence is due since the last run; never run is always due."""
    now = _validate_time(now_utc)
    if last_run_at is None:
        return True
    last = _validate_time(last_run_at, what="the last run's time")
    if isinstance(schedule, Interval):
        return now - last >= schedule.every
    return get_latest_occurrence(now, schedule) > last


def preview(now_utc: datetime, schedule: Schedule, count: int) -> list[datetime]:
    """Return the next instants after now, as many as asked for, soonest first."""
    now = _validate_time(now_utc)
    if isinstance(schedule, Interval):
        return [now + schedule.every * step for step in range(1, count + 1)]
    return list(islice(_build_pattern(schedule).iter_forward(now + _TICK), max(count, 0)))


def list_upcoming(
    now: datetime, schedule: Schedule, count: int, *, last: datetime | None
) -> list[datetime]:
    """Return when the next runs will start, given the last decided instant (None: never)."""
    if not isinstance(schedule, Interval):
        return preview(now, schedule, count)
    moment = _validate_time(now)
    first = moment if last is None else max(moment, _validate_time(last) + schedule.every)
    return [first + schedule.every * step for step in range(count)]


def iter_occurrences(
    schedule: Window | Cron, *, after: datetime, until: datetime
) -> Iterator[datetime]:
    """Yield every instant with after < instant <= until, in order, each once."""
    first, end = _validate_time(after) + _TICK, _validate_time(until)
    return takewhile(lambda instant: instant <= end, _build_pattern(schedule).iter_forward(first))


def get_latest_occurrence(now: datetime, schedule: Schedule) -> datetime:
    """Return the latest instant at or before now.

    An interval is always due from its last run on; without one, that is now, to the second.
    """
    moment = _validate_time(now)
    if isinstance(schedule, Interval):
        return moment.replace(microsecond=0)
    return next(_build_pattern(schedule).iter_backward(moment + _TICK))


def compute_due(
    now: datetime,
    last: datetime | None,
    schedule: Schedule,
    *,
    catch_up: CatchUp = CatchUp.LATEST,
    at_most: int = 24,
    grace: timedelta = timedelta(minutes=5),
) -> DueOccurrences:
    """Decide every instant after the last decided one, up to now, as run or missed.

    Never decided (`last` is None) runs once, for the latest instant, with any `catch_up`. A `last`
    ahead of now means that the clock went back: nothing is due until it catches up. `at_most` is
    how many `CatchUp.ALL` runs; `grace` is how late an instant may be for `CatchUp.NONE` to run it.
    An interval's run answers for the moment it starts, so that the next one is a whole interval
    away. The newest `MAX_MISSED` missed instants are listed; the reason has the number of all.
    """
    if at_most < 1:
        raise ConfigError(f"catch_up all needs a maximum of at least 1, not {at_most}")
    moment = _validate_time(now)
    if last is None:
        first = get_latest_occurrence(moment, schedule)
        return DueOccurrences(run=(first,), reason="never decided before; runs once, now")
    since = _validate_time(last, what="the last decided instant")
    if since > moment:
        return DueOccurrences(
            reason=f"{since:%Y-%m-%d %H:%M} UTC is already decided, but the clock says "
            f"{moment:%Y-%m-%d %H:%M}; nothing is due until it catches up"
        )
    wanted = at_most if catch_up is CatchUp.ALL else 1
    newest, total = _list_past(schedule, since=since, now=moment, most=wanted + MAX_MISSED)
    if not newest:
        return DueOccurrences(reason="nothing is due yet")
    late = catch_up is CatchUp.NONE and moment - newest[0] > grace
    if isinstance(schedule, Interval) and not late:
        newest[0] = max(newest[0], get_latest_occurrence(moment, schedule))
    run, missed = ([], newest) if late else (newest[:wanted], newest[wanted:])
    missed = missed[:MAX_MISSED]
    return DueOccurrences(
        run=tuple(reversed(run)),
        missed=tuple(reversed(missed)),
        reason=_format_reason(
            newest[0], runs=len(run), missed=total - len(run), listed=len(missed)
        ),
    )


def _format_reason(newest: datetime, *, runs: int, missed: int, listed: int) -> str:
    if not missed:
        since = f"due since {newest:%Y-%m-%d %H:%M} UTC"
        return since if runs == 1 else f"{runs} instants passed; all of them run"
    were = f"{missed} {'earlier ' if runs else ''}instant{' was' if missed == 1 else 's were'}"
    does = {0: "catching up is off", 1: "only the latest runs"}.get(runs, f"the latest {runs} run")
    beyond = f" (the latest {listed} are listed)" if missed > listed else ""
    return f"{were} missed while nothing was running; {does}{beyond}"


def _list_past(
    schedule: Schedule, *, since: datetime, now: datetime, most: int
) -> tuple[list[datetime], int]:
    """Return the newest instants of (since, now], newest first, and how many there are in all."""
    if isinstance(schedule, Interval):
        total = (now - since) // schedule.every
        steps = range(total, max(total - most, 0), -1)
        return [since + schedule.every * step for step in steps], total
    pattern = _build_pattern(schedule)
    newest = list(
        islice(takewhile(lambda at: at > since, pattern.iter_backward(now + _TICK)), most)
    )
    if len(newest) < most:
        return newest, len(newest)
    # After years of downtime the rest is counted by the day, not walked through.
    return newest, len(newest) + pattern.count(since + _TICK, newest[-1])


@lru_cache(maxsize=1024)
def _build_pattern(schedule: Window | Cron) -> LocalTimePattern:
    if isinstance(schedule, Window):
        daily = f"{schedule.at.minute} {schedule.at.hour} * * *"
        return _build_pattern(Cron(daily, "UTC"))
    return LocalTimePattern(
        line=parse_cron(schedule.expression),
        zone=get_zone(schedule.zone),
        gap=schedule.gap,
        fold=schedule.fold,
    )


def _validate_time(moment: datetime, *, what: str = "the time") -> datetime:
    utc = to_utc(moment, what=what)
    if not 1900 <= utc.year <= 9000:
        raise ConfigError(f"{what} {utc:%Y-%m-%d} cannot be meant; set the clock and try again")
    return utc
