"""Open hours of a day as time spans, and the times of its touches within them.

Spans follow the tenant's zone through clock changes: an hour the clock skips is missing, one it
repeats is there twice. Times come from a Poisson process whose rate changes with the hour, by
thinning; then they are jittered, sorted and moved apart, inside open hours and hourly caps. What
fits is known first, so every step is bounded. Counts in ticks, microseconds since 1970 in UTC, so
that no sum is ever off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise

import numpy as np

from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.calendar.timezones import get_zone
from stoker.touches.planning.random import Floats, Ints, RandomStream
from stoker.touches.settings import PlanRule

TICKS_PER_SECOND = 1_000_000  # ticks

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ONE_TICK = timedelta(microseconds=1)

_HOUR = timedelta(hours=1)

_MAX_UTC_OFFSET = timedelta(hours=26)  # no wall is further from UTC


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Real time from start until end, in ticks, with one rate, within one hour of counting."""

    start: int
    end: int
    rate: float
    hour: int  # same number, same hour


def to_ticks(moment: datetime) -> int:
    """Return a moment in ticks."""
    return (moment - _EPOCH) // _ONE_TICK


def from_ticks(at: int) -> datetime:
    """Return the moment of so many ticks, in UTC."""
    return _EPOCH + timedelta(0, 0, at)


def list_open_spans(day: date, *, rule: PlanRule, zone: str) -> tuple[TimeSpan, ...]:
    """Return when touches may be made that day, in order; none when it has no such time."""
    if day.isoweekday() not in rule.weekdays:
        return ()
    midnight = datetime.combine(day, time(), UTC)
    pieces = _split_by_offset(day, zone)
    found = []
    for begins, ends, rate in _list_rated_hours(rule):
        for starts_at, ends_at, offset in pieces:
            start = max(midnight + begins - offset, starts_at)
            end = min(midnight + ends - offset, ends_at)
            if start < end:
                # An hour that clocks are set in may be longer or come twice; counters know.
                usual = len(pieces) == 1
                hour = begins // _HOUR if usual else to_ticks(_find_counting_hour(start, zone))
                found.append(TimeSpan(to_ticks(start), to_ticks(end), rate, hour))
    return tuple(sorted(found, key=lambda stretch: stretch.start))


def count_fitting(
    stretches: Sequence[TimeSpan], *, gap: int, cap: int, taken: Mapping[int, int], grain: int
) -> int:
    """Return how many touches fit, so far apart and at most so many an hour.

    `taken` is how many an hour has already; no two moments are nearer than the grain.
    """
    free_from, fitting = 0, 0
    used = dict(taken)
    for span in stretches:
        start = max(span.start, free_from)
        if start >= span.end:
            continue
        left = max(cap - used.get(span.hour, 0), 0)
        here = min(left, (span.end - grain - start) // gap + 1) if gap else left
        used[span.hour] = used.get(span.hour, 0) + here
        fitting += here
        free_from = start + here * gap
    return fitting


def cut_spans(
    stretches: Iterable[TimeSpan], *, not_before: int, fixed: Sequence[int], gap: int, grain: int
) -> tuple[TimeSpan, ...]:
    """Return what is left of stretches from a moment on, without the gap around fixed times.

    Fixed times are in order.
    """
    apart, left = max(gap, grain), []
    for span in stretches:
        start = max(span.start, not_before)
        for at in fixed[bisect_right(fixed, start - apart) :]:
            # Exactly one gap before it is still far enough, so the end is one grain further.
            end = min(at - apart + grain, span.end)
            if start < end:
                left.append(replace(span, start=start, end=end))
            start = max(start, at + apart)
            if start >= span.end or end == span.end:
                start = max(start, span.end)
                break
        if start < span.end:
            left.append(replace(span, start=start))
    return tuple(left)


def _list_rated_hours(rule: PlanRule) -> list[tuple[timedelta, timedelta, float]]:
    opens, closes, rates = rule.opens_after, rule.closes_after, rule.hourly_rates
    edges = {opens, closes, *(hour * _HOUR for hour in range(25))}
    edges |= {edge for begins, ends, _ in rates for edge in (begins, ends)}
    inside = sorted(edge for edge in edges if opens <= edge <= closes)
    found = []
    for begins, ends in pairwise(inside):
        # An open hour without a rate is like any other.
        rate = next((rate for start, end, rate in rates if start <= begins < end), 1.0)
        if rate > 0:
            found.append((begins, ends, rate))
    return found


@lru_cache(maxsize=512)
def _split_by_offset(day: date, zone: str) -> tuple[tuple[datetime, datetime, timedelta], ...]:
    """Return the day as real time in pieces with one offset each: from, until, wall minus UTC."""
    wall = get_zone(zone)

    def offset(at: datetime) -> timedelta:
        return at.astimezone(wall).utcoffset() or timedelta(0)

    first = datetime.combine(day, time(), UTC)
    lookups = [first + _HOUR * hour for hour in range(-26, 51)]
    changes = [
        _find_clock_change(before, after, offset)
        for before, after in pairwise(lookups)
        if offset(before) != offset(after)
    ]
    edges = [first - _MAX_UTC_OFFSET, *changes, first + 2 * _MAX_UTC_OFFSET]
    pieces = []
    for start, end in pairwise(edges):
        apart = offset(start)
        begins = max(start, first - apart)
        ends = min(end, first + timedelta(days=1) - apart)
        if begins < ends:
            pieces.append((begins, ends, apart))
    return tuple(pieces)


def _find_clock_change(
    before: datetime, after: datetime, offset: Callable[[datetime], timedelta]
) -> datetime:
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


def _find_counting_hour(at: datetime, zone: str) -> datetime:
    return compute_window(WindowKind.HOUR, at, reset=ResetRule(zone)).start


_TICK_SECONDS = 1e-6  # seconds

_MAX_ROUNDS = 40  # of thinning; each accepts a part of what it drew, so one or two are usual


def get_grain(rule: PlanRule) -> int:
    """Return the ticks between moments we tell apart: a second, if gaps are whole seconds."""
    return 1 if get_gap(rule) % TICKS_PER_SECOND else TICKS_PER_SECOND


def get_gap(rule: PlanRule) -> int:
    """Return the minimum gap in ticks."""
    return round(rule.gap.total_seconds() / _TICK_SECONDS)


def draw_day_times(
    number: int,
    stretches: Sequence[TimeSpan],
    *,
    rule: PlanRule,
    chance: RandomStream,
    taken: Mapping[int, int] | None = None,
) -> Ints:
    """Return so many times in order, or as many as fit; at least the gap apart, all of them open.

    `taken` is how many touches an hour already has.
    """
    gap, grain, used = get_gap(rule), get_grain(rule), taken or {}
    fitting = count_fitting(stretches, gap=gap, cap=rule.hourly_cap, taken=used, grain=grain)
    number = min(number, fitting)
    if number <= 0:
        return np.zeros(0, np.int64)
    wished = add_jitter(
        draw_thinned(number, stretches, chance=chance), stretches, rule, chance=chance
    )
    wished = np.sort(wished // grain * grain)
    if (quick := _spread_apart(wished, stretches, gap=gap, grain=grain)) is not None and not used:
        starts = np.array([span.start for span in stretches])
        hours = np.array([span.hour for span in stretches])
        where = np.searchsorted(starts, quick, side="right") - 1
        each = np.unique(hours[where], return_counts=True)[1]
        if each.max() <= rule.hourly_cap:
            return quick
    capacities = {span.hour: rule.hourly_cap - used.get(span.hour, 0) for span in stretches}
    early = _place_earliest(wished.tolist(), stretches, capacities, gap=gap)
    late = _place_latest(number, stretches, capacities, gap=gap, grain=grain)
    # Both keep gaps, hours and caps; so does the smaller of the two, place by place.
    return np.minimum(early, late)


def draw_thinned(number: int, stretches: Sequence[TimeSpan], *, chance: RandomStream) -> Ints:
    """Return so many moments of the process, in no order, before anything is moved.

    Given how many there are, the moments of such a process are independent of each other, each
    with the rate as its density; so candidates are spread evenly and accepted by their rate.
    """
    starts, ends, rates = _to_columns(stretches)
    busiest = float(rates.max())
    share = float(((ends - starts) * rates).sum()) / (float(ends[-1] - starts[0]) * busiest)
    batches: list[Ints] = []
    missing = number
    for _ in range(_MAX_ROUNDS):
        tries = int(missing / share * 1.1) + 8
        at = starts[0] + (chance.draw(tries) * (ends[-1] - starts[0])).astype(np.int64)
        where = np.searchsorted(starts, at, side="right") - 1
        rate = np.where(at < ends[where], rates[where], 0.0)
        accepted = at[chance.draw(tries) * busiest < rate][:missing]
        batches.append(accepted)
        missing -= len(accepted)
        if not missing:
            return np.concatenate(batches)
    # Hours nearly all closed: the same density, without drawing what would be thrown away.
    weight = np.cumsum((ends - starts) * rates)
    where = np.searchsorted(weight, chance.draw(missing) * weight[-1], side="right")
    inside = starts[where] + (chance.draw(missing) * (ends - starts)[where]).astype(np.int64)
    return np.concatenate([*batches, inside])


def add_jitter(
    at: Ints, stretches: Sequence[TimeSpan], rule: PlanRule, *, chance: RandomStream
) -> Ints:
    """Return moments moved by up to the jitter, turned back at the ends of the day."""
    reach = rule.jitter.total_seconds() / _TICK_SECONDS
    first, last = stretches[0].start, stretches[-1].end - 1
    moved = at + ((2 * chance.draw(len(at)) - 1) * reach).astype(np.int64)
    # Turned back, not stopped: at an end where all are stopped they would stand in a heap.
    moved = np.where(moved < first, 2 * first - moved, moved)
    moved = np.where(moved > last, 2 * last - moved, moved)
    return np.clip(moved, first, last)


def _spread_apart(at: Ints, spans: Sequence[TimeSpan], *, gap: int, grain: int) -> Ints | None:
    """Return the moments moved apart, when the day is one unbroken stretch; otherwise None."""
    pairs = pairwise(spans)
    if any(one.end != other.start for one, other in pairs):
        return None
    steps = np.arange(len(at)) * gap
    later = np.maximum.accumulate(np.maximum(at, spans[0].start) - steps) + steps
    return np.minimum(later, spans[-1].end - grain - steps[::-1])


def _place_earliest(
    wished: Sequence[int], spans: Sequence[TimeSpan], capacities: Mapping[int, int], *, gap: int
) -> Ints:
    """Return each moment as early as it may be, not before it is wished; too late is for ever."""
    found = np.full(len(wished), np.iinfo(np.int64).max)
    left = dict(capacities)
    here, free_from = 0, 0
    for place, wish in enumerate(wished):
        at = max(wish, free_from)
        while here < len(spans) and (at >= spans[here].end or left[spans[here].hour] <= 0):
            here += 1
        if here == len(spans):
            break
        at = max(at, spans[here].start)
        left[spans[here].hour] -= 1
        found[place] = at
        free_from = at + gap
    return found


def _place_latest(
    number: int,
    spans: Sequence[TimeSpan],
    capacities: Mapping[int, int],
    *,
    gap: int,
    grain: int,
) -> Ints:
    """Return so many moments, each as late as it may be."""
    found = np.zeros(number, np.int64)
    left = dict(capacities)
    here = len(spans) - 1
    free_until = spans[here].end - grain
    for place in range(number - 1, -1, -1):
        while free_until < spans[here].start or left[spans[here].hour] <= 0:
            here -= 1
        at = min(free_until, spans[here].end - grain)
        left[spans[here].hour] -= 1
        found[place] = at
        free_until = at - gap
    return found


def _to_columns(spans: Sequence[TimeSpan]) -> tuple[Ints, Ints, Floats]:
    starts = np.array([span.start for span in spans], np.int64)
    ends = np.array([span.end for span in spans], np.int64)
    return starts, ends, np.array([span.rate for span in spans])
