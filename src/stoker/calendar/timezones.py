"""Find the moments of a cron line in a time zone, and show a moment in one.

A local time that clocks skip is a gap, one that comes twice a fold; a schedule has a rule for
either. All moments are UTC.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

from stoker.base.errors import ConfigError
from stoker.base.types import to_utc
from stoker.calendar.cron import CronSpec

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_RESOLUTION = timedelta.resolution
_ZERO = timedelta(0)
_MIDNIGHT = time()


class Gap(StrEnum):
    """What becomes of wall times that a clock set forward jumps over."""

    SHIFT = "shift"  # they run once, together, at the first moment after the gap
    SKIP = "skip"  # they do not run that day


class Fold(StrEnum):
    """Which of the two runs, when a clock set back shows a wall time twice."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTimePattern:
    """A cron line on the walls of one zone, with its rules for gaps and folds."""

    line: CronSpec
    zone: ZoneInfo
    gap: Gap
    fold: Fold

    def iter_forward(self, start: datetime) -> Iterator[datetime]:
        """Yield every instant from start on, in order, for as long as it is asked for more."""
        while True:
            # A wall time runs within two days of the same date in UTC, a shift over a lost day
            # included, so stretches far from any day of the line are stepped over.
            day = self.line.get_next_day(start.date() - 2 * _DAY)
            start = max(start, datetime.combine(day - _DAY, _MIDNIGHT, UTC))
            yield from self.iter_between(start, start + _DAY)
            start += _DAY

    def iter_backward(self, end: datetime) -> Iterator[datetime]:
        """Yield every instant before end, the latest first, for as long as it is asked for more."""
        while True:
            day = self.line.get_previous_day(end.date() + 2 * _DAY)
            end = min(end, datetime.combine(day + 3 * _DAY, _MIDNIGHT, UTC))
            yield from reversed(list(self.iter_between(end - _DAY, end)))
            end -= _DAY

    def iter_between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the instants with start <= instant < end, in order, each once.

        Start and end are at most a day apart.
        """
        offset, changes = _find_changes_around(self.zone, start.date())
        opening = start
        for change in changes:
            overlap = max(change.before - change.after, _ZERO)
            closing = change.at - overlap if self.fold is Fold.LAST else change.at
            yield from self._iter_plain(opening, min(end, closing), offset)
            opening, offset = max(start, change.at), change.after
            if self.fold is Fold.FIRST:
                opening = max(start, change.at + overlap)
            if change.after > change.before and self.gap is Gap.SHIFT:
                # The moment after the gap answers for itself and all that was jumped over.
                lost_from = change.at - (change.after - change.before)
                lost = self._iter_plain(lost_from, change.at + _RESOLUTION, change.after)
                if start <= change.at < end and any(True for _ in lost):
                    yield change.at
                opening = max(start, change.at + _RESOLUTION)
        yield from self._iter_plain(opening, end, offset)

    def count(self, start: datetime, end: datetime) -> int:
        """Return how many instants there are with start <= instant < end."""
        total = 0
        while start < end:
            stop = min(end, start + _DAY)
            offset, changes = _find_changes_around(self.zone, start.date())
            if changes:
                total += sum(1 for _ in self.iter_between(start, stop))
            else:
                total += sum(
                    last - first for _, first, last in self._iter_days(start, stop, offset)
                )
            start = stop
        return total

    def _iter_plain(self, start: datetime, end: datetime, offset: timedelta) -> Iterator[datetime]:
        times = self.line.times
        for midnight, first, last in self._iter_days(start, end, offset):
            for place in range(first, last):
                yield midnight + times[place]

    def _iter_days(
        self, start: datetime, end: datetime, offset: timedelta
    ) -> Iterator[tuple[datetime, int, int]]:
        """Yield each day's midnight, and which of its times fall between start and end.

        As if the zone had never had another offset.
        """
        day = (start + offset).date()
        midnight = datetime.combine(day, _MIDNIGHT, UTC) - offset
        while midnight < end and start < end:
            if self.line.runs_on(day):
                first = bisect_left(self.line.times, start - midnight)
                yield midnight, first, bisect_left(self.line.times, end - midnight, lo=first)
            day += _DAY
            midnight += _DAY


@cache
def get_zone(name: str) -> ZoneInfo:
    """Return the IANA zone of this name; ConfigError suggests a similar one."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = _suggest_zone(name)
        hint = f"did you mean {near}?" if near else "use a name such as Europe/Paris or UTC"
        raise ConfigError(f"there is no time zone {name!r}; {hint}") from None


def _suggest_zone(name: str) -> str:
    wanted = name.strip().replace(" ", "_").casefold()
    known = {known.casefold(): known for known in sorted(available_timezones())}
    by_city = {folded.rpartition("/")[2]: known[folded] for folded in sorted(known, reverse=True)}
    for names in (known, by_city):
        for match in get_close_matches(wanted, names, n=1, cutoff=0.75):
            return names[match]
    return ""


@dataclass(frozen=True, slots=True)
class _OffsetChange:
    at: datetime
    before: timedelta
    after: timedelta


def _get_offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or _ZERO


@lru_cache(maxsize=4096)
def _find_changes_around(zone: ZoneInfo, day: date) -> tuple[timedelta, tuple[_OffsetChange, ...]]:
    """Return the offset a day before this UTC day, and the changes from there to two days after it.

    That is all that can matter to the day and the one after it: a fold reaches back before the
    moment a clock is set, and on after it, by a day at the most.
    """
    start = datetime.combine(day, _MIDNIGHT, UTC) - _DAY
    return _get_offset(zone, start), tuple(_find_changes(zone, start, start + 4 * _DAY))


def _find_changes(zone: ZoneInfo, start: datetime, end: datetime) -> list[_OffsetChange]:
    """Return where the offset changes between two whole seconds, in order.

    Ends that agree are taken to have no change between them. Asked about a few days at a time,
    that holds: no zone has changed and changed back within them since 1939.
    """
    before, after = _get_offset(zone, start), _get_offset(zone, end)
    if before == after:
        return []
    seconds = (end - start) // _SECOND
    if seconds == 1:
        return [_OffsetChange(end, before, after)]
    middle = start + seconds // 2 * _SECOND
    return _find_changes(zone, start, middle) + _find_changes(zone, middle, end)


def format_local_time(moment: datetime, zone: str) -> str:
    """Return the moment as that zone's wall shows it, with the zone's name for its time."""
    return f"{to_utc(moment).astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M %Z}"


def compute_clock_change(moment: datetime, zone: str) -> timedelta:
    """Return by how much that zone's clocks are moved on the moment's local day; zero is usual."""
    here = to_utc(moment).astimezone(ZoneInfo(zone))
    morning = here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    next_day = (morning.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=here.tzinfo)
    before, after = morning.utcoffset(), next_day.utcoffset()
    return (after or timedelta(0)) - (before or timedelta(0))


def format_clock_note(moment: datetime, zone: str) -> str:
    """Return what is unusual about clocks on the moment's local day; empty on a usual one."""
    moved = compute_clock_change(moment, zone)
    return f"clocks change by {moved.total_seconds() / 3600:+g} h this day" if moved else ""
