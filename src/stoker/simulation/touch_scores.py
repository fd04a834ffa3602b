"""What scores do: who is picked after how many days, how often anybody is forced in.

Beside the product's formula stands the one it replaced, which gave a bonus for recent activity: at
equal waits it picked the active again and again, and forgot the quiet. Rehearsed in the stride of
a tenant, with the planner the product uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stoker.simulation.touch_coverage import in_its_stride, rehearsed_days
from stoker.touches.coverage import Odds
from stoker.touches.model import PlanRule
from stoker.touches.planner import budgets_of, picks_of
from stoker.touches.random import Chance, Floats, Ints, Purpose
from stoker.touches.selection import sampled, scored

BUCKETS = ((2, 4), (5, 7), (8, 10), (11, 12), (13, 14), (15, 10_000))

ACTIVE_SHARE, ACTIVE_BONUS = 0.3, 6.0  # of the old formula: who was active lately, and its worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Those who waited from so many to so many days."""

    least: int
    most: int
    seen: int = 0  # profiles times days
    picked: int = 0
    scores: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def frequency(self) -> float:
        """Return how often one of them was picked."""
        return self.picked / self.seen if self.seen else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """What one formula did."""

    name: str
    buckets: tuple[Bucket, ...]
    forced_picks: float  # share of picks that were forced
    forced_days: float  # share of days with at least one
    within: float  # share of gaps no longer than the window


def formulas(
    *, profiles: int, weeks: int, odds: Odds, rule: PlanRule, seed: int = 0, zone: str = "UTC"
) -> tuple[Formula, Formula]:
    """Return what the formula of today did, and the one before it."""
    return (
        _formula("new", profiles, weeks, odds, rule, seed, zone),
        _formula("old", profiles, weeks, odds, rule, seed, zone),
    )


def old_scored(since: Ints, active: Floats, *, rule: PlanRule, chance: Chance) -> Floats:
    """Return scores by the formula that was: the wait, some chance, a bonus for the active."""
    return scored(since, rule=rule, chance=chance) + active * ACTIVE_BONUS


def _formula(
    name: str, profiles: int, weeks: int, odds: Odds, rule: PlanRule, seed: int, zone: str
) -> Formula:
    state = in_its_stride(profiles, odds=odds, rule=rule, seed=seed)
    luck = Chance(seed, Purpose.OUTCOMES, 1)
    active = (Chance(seed, Purpose.OUTCOMES, 2).some(profiles) < ACTIVE_SHARE).astype(float)
    seen: list[Ints] = []
    waits: list[Ints] = []
    scores: list[Floats] = []
    forced = picks = forced_days = 0
    budget_of: dict[int, int] = {}
    days = rehearsed_days(weeks)
    for day in days:
        number = day.toordinal()
        if day.isoweekday() == 1:
            drawn, _ = budgets_of(day, rule=rule, seed=seed, zone=zone)
            budget_of = {number + nth: budget for nth, budget in enumerate(drawn.days)}
        since = number - state
        seen.append(since)
        if name == "new":
            found = picks_of(state, day=day, budget=budget_of[number], rule=rule, seed=seed)
            places, points = found.places, found.scores
            forced += int(found.forced.sum())
            forced_days += bool(found.forced.any())
        else:
            chance = Chance(seed, Purpose.PICKS, number)
            points = old_scored(since, active, rule=rule, chance=chance)
            free = np.flatnonzero(since > 1)
            best = free[np.argsort(-points[free])][: int(rule.pool_factor * budget_of[number])]
            drawn_places, _ = sampled(points[best], budget_of[number], chance=chance)
            places = best[drawn_places]
            points = points[places]
        picks += len(places)
        waits.append(since[places])
        scores.append(points)
        state[places[luck.some(len(places)) < odds.done]] = number
    return Formula(
        name=name,
        buckets=_buckets(np.concatenate(seen), np.concatenate(waits), np.concatenate(scores)),
        forced_picks=forced / max(picks, 1),
        forced_days=forced_days / len(days),
        within=_within(waits, rule=rule),
    )


def _within(waits: list[Ints], *, rule: PlanRule) -> float:
    every = np.concatenate(waits)
    return float((every <= rule.window.days).mean()) if len(every) else 1.0


def _buckets(seen: Ints, picked: Ints, scores: Floats) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(
            least=least,
            most=most,
            seen=int(((seen >= least) & (seen <= most)).sum()),
            picked=int(((picked >= least) & (picked <= most)).sum()),
            scores=scores[(picked >= least) & (picked <= most)],
        )
        for least, most in BUCKETS
    )
