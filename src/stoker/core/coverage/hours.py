"""When a day is open for touches: stretches of real time, from operating hours on the wall.

Follows the tenant's zone through clock changes: an hour the wall skips is not there, one it shows
twice is there twice, and a day no calendar has is empty. Everything else counts in ticks,
microseconds since 1970 in UTC, so that no sum is ever off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise

from stoker.core.budget_windows import ResetRule, WindowKind, window_at
from stoker.core.coverage.values import PlanRule, ends_after
from stoker.core.wallclock import zone_named

SECOND = 1_000_000  # ticks
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_HOUR = timedelta(hours=1)
_WIDEST = timedelta(hours=26)  # no wall is further from UTC


@dataclass(frozen=True, slots=True)
class Stretch:
    """Real time from start until end, in ticks, with one rate, within one hour of counting."""

    start: int
    end: int
    rate: float
    hour: int  # same number, same hour


def ticks(moment: datetime) -> int:
    """Return a moment in ticks."""
    return (moment - _EPOCH) // _TICK


def moment(at: int) -> datetime:
    """Return the moment of so many ticks, in UTC."""
    return _EPOCH + timedelta(0, 0, at)


def open_stretches(day: date, *, rule: PlanRule, zone: str) -> tuple[Stretch, ...]:
    """Return when touches may be made that day, in order; none when it has no such time."""
    if day.isoweekday() not in rule.weekdays:
        return ()
    midnight = datetime.combine(day, time(), UTC)
    pieces = _pieces(day, zone)
    found = []
    for begins, ends, rate in _rated(rule):
        for starts_at, ends_at, offset in pieces:
            start = max(midnight + begins - offset, starts_at)
            end = min(midnight + ends - offset, ends_at)
            if start < end:
                # An hour that clocks are set in may be longer or come twice; counters know.
                usual = len(pieces) == 1
                hour = begins // _HOUR if usual else ticks(_counted_from(start, zone))
                found.append(Stretch(ticks(start), ticks(end), rate, hour))
    return tuple(sorted(found, key=lambda stretch: stretch.start))


def room(
    stretches: Sequence[Stretch], *, gap: int, cap: int, taken: Mapping[int, int], grain: int
) -> int:
    """Return how many touches fit, so far apart and at most so many an hour.

    `taken` is how many an hour has already; no two moments are nearer than the grain.
    """
    free_from, fitting = 0, 0
    used = dict(taken)
    for stretch in stretches:
        start = max(stretch.start, free_from)
        if start >= stretch.end:
            continue
        left = max(cap - used.get(stretch.hour, 0), 0)
        here = min(left, (stretch.end - grain - start) // gap + 1) if gap else left
        used[stretch.hour] = used.get(stretch.hour, 0) + here
        fitting += here
        free_from = start + here * gap
    return fitting


def cut(
    stretches: Iterable[Stretch], *, not_before: int, kept: Sequence[int], gap: int, grain: int
) -> tuple[Stretch, ...]:
    """Return what is left of stretches from a moment on, the gap around kept times taken out.

    Kept times are in order.
    """
    apart, left = max(gap, grain), []
    for stretch in stretches:
        start = max(stretch.start, not_before)
        for at in kept[bisect_right(kept, start - apart) :]:
            # Exactly one gap before it is still far enough, so the end is one grain further.
            end = min(at - apart + grain, stretch.end)
            if start < end:
                left.append(replace(stretch, start=start, end=end))
            start = max(start, at + apart)
            if start >= stretch.end or end == stretch.end:
                start = max(start, stretch.end)
                break
        if start < stretch.end:
            left.append(replace(stretch, start=start))
    return tuple(left)


def _rated(rule: PlanRule) -> list[tuple[timedelta, timedelta, float]]:
    opens, closes = ends_after(rule.opens, opening=True), ends_after(rule.closes)
    rates = [
        (ends_after(each.begins, opening=True), ends_after(each.ends), each.rate)
        for each in rule.rates
    ]
    edges = {opens, closes, *(hour * _HOUR for hour in range(25))}
    edges |= {edge for begins, ends, _ in rates for edge in (begins, ends)}
    inside = sorted(edge for edge in edges if opens <= edge <= closes)
    found = []
    for begins, ends in pairwise(inside):
        # Where nothing is said about an open hour, it is like any other.
        rate = next((rate for start, end, rate in rates if start <= begins < end), 1.0)
        if rate > 0:
            found.append((begins, ends, rate))
    return found


@lru_cache(maxsize=512)
def _pieces(day: date, zone: str) -> tuple[tuple[datetime, datetime, timedelta], ...]:
    """Return the day as real time in pieces with one offset each: from, until, wall minus UTC."""
    wall = zone_named(zone)

    def offset(at: datetime) -> timedelta:
        return at.astimezone(wall).utcoffset() or timedelta(0)

    first = datetime.combine(day, time(), UTC)
    looks = [first + _HOUR * hour for hour in range(-26, 51)]
    changes = [
        _change(before, after, offset)
        for before, after in pairwise(looks)
        if offset(before) != offset(after)
    ]
    edges = [first - _WIDEST, *changes, first + 2 * _WIDEST]
    pieces = []
    for start, end in pairwise(edges):
        apart = offset(start)
        begins = max(start, first - apart)
        ends = min(end, first + timedelta(days=1) - apart)
        if begins < ends:
            pieces.append((begins, ends, apart))
    return tuple(pieces)


def _change(before: datetime, after: datetime, offset: Callable[[datetime], timedelta]) -> datetime:
    """Return the first whole second with the later offset."""
    old = offset(before)
    span = int((after - before).total_seconds())
    low, high = 0, span
    while high - low > 1:
        middle = (low + high) // 2
        if offset(before + timedelta(seconds=middle)) == old:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def _counted_from(at: datetime, zone: str) -> datetime:
    return window_at(WindowKind.HOUR, at, reset=ResetRule(zone)).start
