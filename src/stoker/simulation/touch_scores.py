"""Compare two score formulas: after how many days profiles are picked, how often by force.

The old formula gave a bonus for recent activity: at equal waits it picked active profiles again and
again, and forgot quiet ones. Both run with the production planner from a steady state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

from stoker.simulation.touch_coverage import FIRST_MONDAY, build_steady_state
from stoker.touches.planning.coverage import OutcomeOdds
from stoker.touches.planning.planner import compute_week_budgets, pick_for_day
from stoker.touches.planning.random import Floats, Ints, Purpose, RandomStream
from stoker.touches.planning.selection import compute_scores, draw_sample
from stoker.touches.settings import PlanRule

BUCKETS = ((2, 4), (5, 7), (8, 10), (11, 12), (13, 14), (15, 10_000))

ACTIVE_SHARE, ACTIVE_BONUS = 0.3, 6.0  # of the old formula: who was active lately, and its worth


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitBucket:
    """Those who waited from so many to so many days."""

    min_days: int
    max_days: int
    seen: int = 0  # profiles times days
    picked: int = 0
    scores: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def frequency(self) -> float:
        """Return how often one of them was picked."""
        return self.picked / self.seen if self.seen else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaResult:
    """What one formula did."""

    name: str
    buckets: tuple[WaitBucket, ...]
    forced_picks: float  # share of picks that were forced
    forced_days: float  # share of days with at least one
    within: float  # share of gaps no longer than the window


def compare_formulas(
    *, profiles: int, weeks: int, odds: OutcomeOdds, rule: PlanRule, seed: int = 0
) -> tuple[FormulaResult, FormulaResult]:
    """Return what the formula of today did, and the one before it."""
    return (
        _run_formula("new", profiles, weeks, odds, rule, seed),
        _run_formula("old", profiles, weeks, odds, rule, seed),
    )


def _run_formula(
    name: str, profiles: int, weeks: int, odds: OutcomeOdds, rule: PlanRule, seed: int
) -> FormulaResult:
    state = build_steady_state(profiles, odds=odds, rule=rule, seed=seed)
    luck = RandomStream(seed, Purpose.OUTCOMES, 1)
    active = (RandomStream(seed, Purpose.OUTCOMES, 2).draw(profiles) < ACTIVE_SHARE).astype(float)
    seen: list[Ints] = []
    waits: list[Ints] = []
    scores: list[Floats] = []
    forced = picks = forced_days = 0
    budget_of: dict[int, int] = {}
    days = [FIRST_MONDAY + timedelta(days=nth) for nth in range(7 * weeks)]
    for day in days:
        number = day.toordinal()
        if day.isoweekday() == 1:
            drawn, _ = compute_week_budgets(day, rule=rule, seed=seed, zone="UTC")
            budget_of = {number + nth: budget for nth, budget in enumerate(drawn.days)}
        since = number - state
        seen.append(since)
        if name == "new":
            found = pick_for_day(state, day=day, budget=budget_of[number], rule=rule, seed=seed)
            places, points = found.indexes, found.scores
            forced += int(found.forced.sum())
            forced_days += bool(found.forced.any())
        else:
            chance = RandomStream(seed, Purpose.PICKS, number)
            points = compute_scores(since, rule=rule, chance=chance) + active * ACTIVE_BONUS
            free = np.flatnonzero(since > 1)
            best = free[np.argsort(-points[free])][: int(rule.pool_factor * budget_of[number])]
            drawn_places, _ = draw_sample(points[best], budget_of[number], chance=chance)
            places = best[drawn_places]
            points = points[places]
        picks += len(places)
        waits.append(since[places])
        scores.append(points)
        state[places[luck.draw(len(places)) < odds.done]] = number
    return FormulaResult(
        name=name,
        buckets=_to_buckets(np.concatenate(seen), np.concatenate(waits), np.concatenate(scores)),
        forced_picks=forced / max(picks, 1),
        forced_days=forced_days / len(days),
        within=_compute_within(waits, rule=rule),
    )


def _compute_within(waits: list[Ints], *, rule: PlanRule) -> float:
    every = np.concatenate(waits)
    return float((every <= rule.window.days).mean()) if len(every) else 1.0


def _to_buckets(seen: Ints, picked: Ints, scores: Floats) -> tuple[WaitBucket, ...]:
    return tuple(
        WaitBucket(
            min_days=least,
            max_days=most,
            seen=int(((seen >= least) & (seen <= most)).sum()),
            picked=int(((picked >= least) & (picked <= most)).sum()),
            scores=scores[(picked >= least) & (picked <= most)],
        )
        for least, most in BUCKETS
    )
