"""How many touches each day of a week has room for.

Budgets are drawn from a normal distribution that is truncated, not clamped, then balanced so that
the week adds up to its target and no day leaves its bounds. One day may be a burst: it has a busy
day's budget and some more, up to the most a day may have, and no other day has as many. One day is
light.
Knows numbers only: what bounds a day is worked out from hours and gaps elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from stoker.touches.planning.random import RandomStream
from stoker.touches.settings import PlanRule

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class DayBounds:
    """The least and the most touches of one day."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekBudgets:
    """What each day of a week may have, and which day, if any, is the burst."""

    days: tuple[int, ...]
    burst: int | None = None


def draw_week_budgets(
    bounds: Sequence[DayBounds], *, rule: PlanRule, chance: RandomStream
) -> WeekBudgets:
    """Return budgets inside their bounds that add up to the target, or to all that fits below it.

    The least of all days together must not be above the target: a PlanRule sees to that.
    """
    drawn = [
        draw_truncated_normal(chance.draw_one(), rule.daily_mean, rule.daily_std, each)
        for each in bounds
    ]
    working = [place for place, each in enumerate(bounds) if each.maximum]
    bursts = [place for place in working if chance.draw_one() < rule.burst_chance]
    burst = bursts[0] if bursts else None
    others = [place for place in working if place != burst]
    light = others[int(chance.draw_one() * len(others))] if others else None
    extra = rule.burst_least + int(chance.draw_one() * (rule.burst_most - rule.burst_least + 1))
    if light is not None:
        drawn[light] -= rule.light_by
    target = min(rule.target, sum(each.maximum for each in bounds))
    limits = list(bounds)
    if burst is not None:
        drawn[burst] = _choose_burst_budget(
            bounds, burst, wanted=_compute_burst(rule, extra), target=target
        )
        limits = _limit_others(bounds, burst, budget=drawn[burst], target=target)
    within = [
        min(max(number, each.minimum), each.maximum)
        for number, each in zip(drawn, limits, strict=True)
    ]
    # The two odd days come last: the others make up the difference as long as they can.
    odd = [place for place in (light, burst) if place is not None]
    plain = [place for place in working if place not in odd]
    for places in (plain, *([place] for place in odd)):
        _balance_days(within, places, limits, target=target, chance=chance)
    others_most = max((within[place] for place in others), default=0)
    is_largest = burst is not None and within[burst] > others_most
    return WeekBudgets(days=tuple(within), burst=burst if is_largest else None)


def _compute_burst(rule: PlanRule, extra: int) -> int:
    """Return a burst day's budget: a busy day's and the extra, counted back from the maximum.

    A busy day is one standard deviation above the mean: 15 to 16, so a burst has 18 to 20.
    """
    most = min(rule.max_per_day, round(rule.daily_mean + rule.daily_std) + rule.burst_most)
    return most - rule.burst_most + extra


def _choose_burst_budget(
    bounds: Sequence[DayBounds], burst: int, *, wanted: int, target: int
) -> int:
    """Return the budget nearest to the wanted one with which the week still adds up."""
    others = [each for place, each in enumerate(bounds) if place != burst]
    least = max(wanted, bounds[burst].minimum)
    most = min(bounds[burst].maximum, target - sum(each.minimum for each in others))
    # The others have less than the burst, so a full week makes the burst larger.
    larger = bisect_left(
        range(least, most),
        target,
        key=lambda budget: budget + sum(min(each.maximum, budget - 1) for each in others),
    )
    return min(least + larger, most)


def _limit_others(
    bounds: Sequence[DayBounds], burst: int, *, budget: int, target: int
) -> list[DayBounds]:
    """Return the bounds under which the burst is the largest day; as they were if it cannot be."""
    limits = [
        DayBounds(each.minimum, max(each.minimum, min(each.maximum, budget - 1))) for each in bounds
    ]
    limits[burst] = DayBounds(budget, budget)
    fits = sum(each.minimum for each in limits) <= target <= sum(each.maximum for each in limits)
    return limits if fits else list(bounds)


def draw_truncated_normal(chance: float, mean: float, std: float, bounds: DayBounds) -> int:
    """Return the whole number at this chance (0 up to 1) of a normal truncated to the bounds.

    What lies outside is shared out over all that is inside, in proportion: no heap at either end.
    """
    low, high = bounds.minimum - _HALF, bounds.maximum + _HALF
    if bounds.minimum == bounds.maximum or std <= 0:
        return min(max(round(mean), bounds.minimum), bounds.maximum)
    normal = NormalDist(mean, std)
    below, above = normal.cdf(low), normal.cdf(high)
    share = below + chance * (above - below)
    if not 0 < share < 1:  # the mean is so far outside that no number can tell
        return bounds.minimum if mean < low else bounds.maximum
    return min(max(round(normal.inv_cdf(share)), bounds.minimum), bounds.maximum)


def _balance_days(
    days: list[int],
    places: Sequence[int],
    bounds: Sequence[DayBounds],
    *,
    target: int,
    chance: RandomStream,
) -> None:
    missing = target - sum(days)
    step = 1 if missing > 0 else -1
    capacities = {
        place: bounds[place].maximum - days[place]
        if step > 0
        else days[place] - bounds[place].minimum
        for place in places
    }
    whole = sum(capacities.values())
    share = min(abs(missing), whole)
    if not share:
        return
    left = share
    for place, room in capacities.items():
        part = share * room // whole
        days[place] += step * part
        capacities[place] -= part
        left -= part
    # Fewer are left than there are days, so one turn each is enough.
    for nth in chance.shuffle(len(places)):
        place = places[nth]
        if left and capacities[place]:
            days[place] += step
            left -= 1
