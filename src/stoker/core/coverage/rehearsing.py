"""Weeks of touches on a make-believe tenant, to learn how long anybody waits.

The days are planned by the production planner; only the outcomes are drawn. Whoever chooses is
told what really happened so far, and may look away from it: that is how policies are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from stoker.core.coverage.chance import Chance, Floats, Ints, Purpose
from stoker.core.coverage.picking import NEVER
from stoker.core.coverage.planning import budgets_of, picks_of
from stoker.core.coverage.values import Outcome, PlanRule
from stoker.errors import ConfigError

LONGEST = 400  # days; longer gaps are counted with these


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How often a touch ends otherwise than done."""

    failed: float = 0.0
    already_reacted: float = 0.0
    no_posts: float = 0.0

    def __post_init__(self) -> None:
        parts = (self.failed, self.already_reacted, self.no_posts)
        if not all(0 <= part <= 1 for part in parts) or sum(parts) >= 1:
            raise ConfigError(
                "the shares of touches that come to nothing are each from 0 to 1 and together "
                "below 1, or nothing would ever be done"
            )

    @property
    def done(self) -> float:
        """Return how often a touch is made."""
        return 1 - self.failed - self.already_reacted - self.no_posts


# Told the day each was last really done, a day and its budget; returns the places it picks.
Chooser = Callable[[Ints, date, int], Ints]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What came of some weeks."""

    gaps: Ints  # how many gaps of 0, 1, 2 … days; waits not over count once they are too long
    too_long: Ints  # places of those who waited longer than the window, at least once
    outcomes: dict[Outcome, int]


def repairing_daily(*, rule: PlanRule, seed: int, appeal: Floats | None = None) -> Chooser:
    """Return the production policy: every morning picks from what really happened."""

    def choose(last_done: Ints, day: date, budget: int) -> Ints:
        return picks_of(
            last_done, day=day, budget=budget, rule=rule, seed=seed, appeal=appeal
        ).places

    return choose


def rehearsed(
    last_done: Ints,
    *,
    monday: date,
    weeks: int,
    rule: PlanRule,
    seed: int,
    zone: str,
    odds: Odds,
    choose: Chooser,
) -> Rehearsal:
    """Return what came of so many weeks from a Monday on.

    Whoever was never touched waits from that Monday on; nobody else's past is forgotten.
    """
    first = monday.toordinal()
    state = last_done.copy()
    waiting_since = np.where(state == NEVER, first, state)
    gaps = np.zeros(LONGEST + 1, np.int64)
    late = np.zeros(len(state), bool)
    ends = np.zeros(4, np.int64)
    chance = Chance(seed, Purpose.OUTCOMES, first)
    edges = np.cumsum([odds.done, odds.failed, odds.already_reacted])
    for week in range(weeks):
        begins = monday + timedelta(weeks=week)
        budgets, _ = budgets_of(begins, rule=rule, seed=seed, zone=zone)
        for place, budget in enumerate(budgets.days):
            day = begins + timedelta(days=place)
            picked = choose(state, day, budget)
            kinds = np.searchsorted(edges, chance.some(len(picked)), side="right")
            ends += np.bincount(kinds, minlength=4)
            done = picked[kinds == 0]
            waited = day.toordinal() - waiting_since[done]
            known = waited[state[done] != NEVER]
            gaps += np.bincount(np.minimum(known, LONGEST), minlength=LONGEST + 1)
            late[done[waited > rule.window.days]] = True
            state[done] = waiting_since[done] = day.toordinal()
    open_waits = first + 7 * weeks - waiting_since
    overdue = open_waits > rule.window.days
    gaps += np.bincount(np.minimum(open_waits[overdue], LONGEST), minlength=LONGEST + 1)
    kinds_of_end = (Outcome.DONE, Outcome.FAILED, Outcome.ALREADY_REACTED, Outcome.NO_POSTS)
    return Rehearsal(
        gaps=gaps,
        too_long=np.flatnonzero(late | overdue),
        outcomes=dict(zip(kinds_of_end, ends.tolist(), strict=True)),
    )
