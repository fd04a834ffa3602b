"""Measure how touches lie in their days: by hour, the gaps between them, and the minimum gap.

The times are the product's own, before and after they are moved apart. Pearson's chi-square tests
whether they follow the hourly weights, before anything is moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

import numpy as np

from stoker.base.errors import ConfigError
from stoker.simulation.touch_coverage import FIRST_MONDAY
from stoker.touches.planning.random import Floats, Ints, Purpose, RandomStream
from stoker.touches.planning.times import (
    TICKS_PER_SECOND,
    TimeSpan,
    draw_day_times,
    draw_thinned,
    from_ticks,
    get_gap,
    list_open_spans,
)
from stoker.touches.settings import PlanRule


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingResult:
    """What was seen in so many days."""

    days: int
    hours: tuple[int, ...]  # those of the wall that are open
    drawn: tuple[int, ...]  # moments in each, as the process gave them
    planned: tuple[int, ...]  # after jitter and gap
    expected: tuple[float, ...]  # by the table of rates
    chi_square: float
    p: float
    shortest_seconds: float | None  # between two touches of a day
    median_seconds: float | None
    longest_seconds: float | None
    gap_violations: int
    outside_hours: int


def simulate_timing(
    *, days: int, per_day: int, rule: PlanRule, seed: int = 0, zone: str = "UTC"
) -> TimingResult:
    """Return how so many touches a day lie, over so many days. Raises ConfigError."""
    if days < 1 or per_day < 1:
        raise ConfigError("a simulation of times needs at least a day and a touch a day")
    drawn, planned, apart, outside = [], [], [], 0
    weights: dict[int, float] = {}
    for nth in range(days):
        day = FIRST_MONDAY + timedelta(days=nth)
        stretches = list_open_spans(day, rule=rule, zone=zone)
        if not stretches:
            continue
        raw = draw_thinned(per_day, stretches, chance=RandomStream(seed, Purpose.TIMES, nth, 1))
        times = draw_day_times(
            per_day, stretches, rule=rule, chance=RandomStream(seed, Purpose.TIMES, nth)
        )
        hours = _list_local_hours(stretches, zone)
        for hour, stretch in zip(hours, stretches, strict=True):
            weights[hour] = weights.get(hour, 0.0) + stretch.rate * (stretch.end - stretch.start)
        drawn.append(_to_local_hours(raw, stretches, hours))
        planned.append(_to_local_hours(times, stretches, hours))
        outside += int((planned[-1] < 0).sum())
        apart.append(np.diff(times))
    seen, moved = _concatenate(drawn), _concatenate(planned)
    known = sorted(weights)
    whole = sum(weights.values())
    expected = tuple(len(seen) * weights[hour] / whole for hour in known)
    counts = tuple(int((seen == hour).sum()) for hour in known)
    statistic = compute_chi_square(counts, expected)
    gaps = _concatenate(apart)
    return TimingResult(
        days=days,
        hours=tuple(known),
        drawn=counts,
        planned=tuple(int((moved == hour).sum()) for hour in known),
        expected=expected,
        chi_square=statistic,
        p=compute_chi_square_p(statistic, freedom=len(known) - 1),
        shortest_seconds=_to_seconds(gaps.min()) if len(gaps) else None,
        median_seconds=_to_seconds(np.median(gaps)) if len(gaps) else None,
        longest_seconds=_to_seconds(gaps.max()) if len(gaps) else None,
        gap_violations=int((gaps < get_gap(rule)).sum()),
        outside_hours=outside,
    )


def compute_chi_square(seen: Sequence[int], expected: Sequence[float]) -> float:
    """Return Pearson's statistic of counts against what was expected."""
    return sum(
        (count - wanted) ** 2 / wanted
        for count, wanted in zip(seen, expected, strict=True)
        if wanted > 0
    )


def compute_chi_square_p(statistic: float, *, freedom: int) -> float:
    """Return how likely a statistic at least as large is, if only chance is at work."""
    if freedom < 1:
        return 1.0
    half = statistic / 2
    # From one or two degrees on, each further two add one term.
    at, tail = (1.0, math.exp(-half)) if freedom % 2 == 0 else (0.5, math.erfc(math.sqrt(half)))
    while at < freedom / 2:
        if half > 0:
            tail += math.exp(at * math.log(half) - half - math.lgamma(at + 1))
        at += 1
    return min(tail, 1.0)


def _list_local_hours(stretches: Sequence[TimeSpan], zone: str) -> list[int]:
    wall = ZoneInfo(zone)
    return [from_ticks(stretch.start).astimezone(wall).hour for stretch in stretches]


def _to_local_hours(at: Ints, stretches: Sequence[TimeSpan], hours: Sequence[int]) -> Ints:
    """Return each moment's hour on the wall, or -1 when it is in none of the stretches."""
    starts = np.array([stretch.start for stretch in stretches])
    ends = np.array([stretch.end for stretch in stretches])
    where = np.searchsorted(starts, at, side="right") - 1
    inside = (where >= 0) & (at < ends[where])
    return np.where(inside, np.array(hours)[where], -1)


def _concatenate(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _to_seconds(ticks: float | np.int64 | Floats) -> float:
    return float(ticks) / TICKS_PER_SECOND
