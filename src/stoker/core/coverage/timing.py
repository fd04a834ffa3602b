"""At what times of a day its touches are made.

Moments come from a Poisson process whose rate changes with the hour, by thinning; then they are
jittered, sorted and moved apart, inside open hours and hourly caps. Nothing here draws again until
something fits: what fits is known first, and every step is bounded. Counts in ticks, see hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from stoker.core.coverage.chance import Chance, Floats, Ints
from stoker.core.coverage.hours import SECOND, Stretch, room
from stoker.core.coverage.values import PlanRule

_TICK = 1e-6  # seconds
_ROUNDS = 40  # of thinning; each accepts a part of what it drew, so one or two are usual


def grain_of(rule: PlanRule) -> int:
    """Return the ticks between moments we tell apart: a second, if gaps are whole seconds."""
    return 1 if gap_of(rule) % SECOND else SECOND


def gap_of(rule: PlanRule) -> int:
    """Return the minimum gap in ticks."""
    return round(rule.gap.total_seconds() / _TICK)


def day_times(
    number: int,
    stretches: Sequence[Stretch],
    *,
    rule: PlanRule,
    chance: Chance,
    taken: Mapping[int, int] | None = None,
) -> Ints:
    """Return so many times in order, or as many as fit; at least the gap apart, all of them open.

    `taken` is how many touches an hour already has.
    """
    gap, grain, used = gap_of(rule), grain_of(rule), taken or {}
    fitting = room(stretches, gap=gap, cap=rule.hourly_cap, taken=used, grain=grain)
    number = min(number, fitting)
    if number <= 0:
        return np.zeros(0, np.int64)
    wished = jittered(thinned(number, stretches, chance=chance), stretches, rule, chance=chance)
    wished = np.sort(wished // grain * grain)
    if (quick := _apart(wished, stretches, gap=gap, grain=grain)) is not None and not used:
        starts = np.array([stretch.start for stretch in stretches])
        hours = np.array([stretch.hour for stretch in stretches])
        where = np.searchsorted(starts, quick, side="right") - 1
        each = np.unique(hours[where], return_counts=True)[1]
        if each.max() <= rule.hourly_cap:
            return quick
    rooms = {stretch.hour: rule.hourly_cap - used.get(stretch.hour, 0) for stretch in stretches}
    early = _earliest(wished.tolist(), stretches, rooms, gap=gap)
    late = _latest(number, stretches, rooms, gap=gap, grain=grain)
    # Both keep gaps, hours and caps; so does the smaller of the two, place by place.
    return np.minimum(early, late)


def thinned(number: int, stretches: Sequence[Stretch], *, chance: Chance) -> Ints:
    """Return so many moments of the process, in no order, before anything is moved.

    Given how many there are, the moments of such a process are independent of each other, each
    with the rate as its density; so candidates are spread evenly and kept by their rate.
    """
    starts, ends, rates = _columns(stretches)
    busiest = float(rates.max())
    share = float(((ends - starts) * rates).sum()) / (float(ends[-1] - starts[0]) * busiest)
    kept: list[Ints] = []
    missing = number
    for _ in range(_ROUNDS):
        tries = int(missing / share * 1.1) + 8
        at = starts[0] + (chance.some(tries) * (ends[-1] - starts[0])).astype(np.int64)
        where = np.searchsorted(starts, at, side="right") - 1
        rate = np.where(at < ends[where], rates[where], 0.0)
        accepted = at[chance.some(tries) * busiest < rate][:missing]
        kept.append(accepted)
        missing -= len(accepted)
        if not missing:
            return np.concatenate(kept)
    # Hours nearly all closed: the same density, without drawing what would be thrown away.
    weight = np.cumsum((ends - starts) * rates)
    where = np.searchsorted(weight, chance.some(missing) * weight[-1], side="right")
    inside = starts[where] + (chance.some(missing) * (ends - starts)[where]).astype(np.int64)
    return np.concatenate([*kept, inside])


def jittered(at: Ints, stretches: Sequence[Stretch], rule: PlanRule, *, chance: Chance) -> Ints:
    """Return moments moved by up to the jitter, turned back at the ends of the day."""
    reach = rule.jitter.total_seconds() / _TICK
    first, last = stretches[0].start, stretches[-1].end - 1
    moved = at + ((2 * chance.some(len(at)) - 1) * reach).astype(np.int64)
    # Turned back, not stopped: at an end where all are stopped they would stand in a heap.
    moved = np.where(moved < first, 2 * first - moved, moved)
    moved = np.where(moved > last, 2 * last - moved, moved)
    return np.clip(moved, first, last)


def _apart(at: Ints, stretches: Sequence[Stretch], *, gap: int, grain: int) -> Ints | None:
    """Return the moments moved apart, when the day is one unbroken stretch; otherwise None."""
    pairs = pairwise(stretches)
    if any(one.end != other.start for one, other in pairs):
        return None
    steps = np.arange(len(at)) * gap
    later = np.maximum.accumulate(np.maximum(at, stretches[0].start) - steps) + steps
    return np.minimum(later, stretches[-1].end - grain - steps[::-1])


def _earliest(
    wished: Sequence[int], stretches: Sequence[Stretch], rooms: Mapping[int, int], *, gap: int
) -> Ints:
    """Return each moment as early as it may be, not before it is wished; too late is for ever."""
    found = np.full(len(wished), np.iinfo(np.int64).max)
    left = dict(rooms)
    here, free_from = 0, 0
    for place, wish in enumerate(wished):
        at = max(wish, free_from)
        while here < len(stretches) and (
            at >= stretches[here].end or left[stretches[here].hour] <= 0
        ):
            here += 1
        if here == len(stretches):
            break
        at = max(at, stretches[here].start)
        left[stretches[here].hour] -= 1
        found[place] = at
        free_from = at + gap
    return found


def _latest(
    number: int,
    stretches: Sequence[Stretch],
    rooms: Mapping[int, int],
    *,
    gap: int,
    grain: int,
) -> Ints:
    """Return so many moments, each as late as it may be."""
    found = np.zeros(number, np.int64)
    left = dict(rooms)
    here = len(stretches) - 1
    free_until = stretches[here].end - grain
    for place in range(number - 1, -1, -1):
        while free_until < stretches[here].start or left[stretches[here].hour] <= 0:
            here -= 1
        at = min(free_until, stretches[here].end - grain)
        left[stretches[here].hour] -= 1
        found[place] = at
        free_until = at - gap
    return found


def _columns(stretches: Sequence[Stretch]) -> tuple[Ints, Ints, Floats]:
    starts = np.array([stretch.start for stretch in stretches], np.int64)
    ends = np.array([stretch.end for stretch in stretches], np.int64)
    return starts, ends, np.array([stretch.rate for stretch in stretches])
