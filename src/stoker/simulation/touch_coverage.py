"""Compare how long profiles wait under three policies, with the same budgets and random numbers.

The production planner replanned every morning, the same planner run on Mondays only, and always the
longest waiting first, which is the best possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import numpy as np

from stoker.base.errors import ConfigError
from stoker.touches.model import TouchOutcome
from stoker.touches.planning.coverage import (
    MAX_GAP_DAYS,
    ChooseProfiles,
    OutcomeOdds,
    build_production_policy,
    simulate_weeks,
)
from stoker.touches.planning.planner import pick_for_day
from stoker.touches.planning.random import Ints, Purpose, RandomStream
from stoker.touches.settings import PlanRule

FIRST_MONDAY = date(2026, 1, 5)

REPLANNED_DAILY, WEEKLY, MAX_WAIT_FIRST = "repaired daily", "planned weekly", "longest wait first"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageResult:
    """The result of one policy, over all runs."""

    policy: str
    within: float  # share of gaps no longer than the window
    gaps: tuple[int, ...]  # how many gaps of 0, 1, 2 … days
    runs_too_long: float  # share of runs in which a profile waited longer
    profiles_too_long: float  # share of profiles that ever did
    longest_days: int
    outcomes: dict[TouchOutcome, int]


def compare_coverage(
    *,
    profiles: int,
    weeks: int,
    runs: int,
    odds: OutcomeOdds,
    rule: PlanRule,
    seed: int = 0,
) -> tuple[CoverageResult, ...]:
    """Return how each policy did, the product's own first. Raises ConfigError."""
    if profiles < 1 or weeks < 1 or runs < 1:
        raise ConfigError("a simulation needs at least a profile, a week and a run")
    policies: dict[str, Callable[[int], ChooseProfiles]] = {
        REPLANNED_DAILY: lambda nth: build_production_policy(rule=rule, seed=nth),
        WEEKLY: lambda nth: _build_weekly_policy(rule=rule, seed=nth),
        MAX_WAIT_FIRST: lambda nth: pick_longest_waits,
    }
    return tuple(
        _run_policy(name, policy, profiles, weeks, runs, odds, rule, seed)
        for name, policy in policies.items()
    )


def build_steady_state(number: int, *, odds: OutcomeOdds, rule: PlanRule, seed: int) -> Ints:
    """Return last-done days as after a long time of touches: evenly spread."""
    turn = 7 * number / max(rule.target * odds.done, 1)
    days = max(min(round(turn), rule.window.days), 1)
    chance = RandomStream(seed, Purpose.OUTCOMES, 0)
    return FIRST_MONDAY.toordinal() - 1 - (chance.draw(number) * days).astype(np.int64)


def pick_longest_waits(last_done: Ints, day: date, budget: int) -> Ints:
    """Pick the longest waiting profiles, except those done yesterday."""
    oldest = np.argsort(last_done, kind="stable")
    return oldest[day.toordinal() - last_done[oldest] > 1][:budget].astype(np.int64, copy=False)


def _build_weekly_policy(*, rule: PlanRule, seed: int) -> ChooseProfiles:
    projected: list[Ints] = []

    def choose(last_done: Ints, day: date, budget: int) -> Ints:
        if day.isoweekday() == 1:
            projected[:] = [last_done.copy()]
        picks = pick_for_day(projected[0], day=day, budget=budget, rule=rule, seed=seed)
        projected[0][picks.indexes] = day.toordinal()
        return picks.indexes

    return choose


def _run_policy(
    name: str,
    policy: Callable[[int], ChooseProfiles],
    profiles: int,
    weeks: int,
    runs: int,
    odds: OutcomeOdds,
    rule: PlanRule,
    seed: int,
) -> CoverageResult:
    gaps = np.zeros(MAX_GAP_DAYS + 1, np.int64)
    outcomes = dict.fromkeys(TouchOutcome, 0)
    late_runs = late_profiles = 0
    for run in range(seed, seed + runs):
        seen = simulate_weeks(
            build_steady_state(profiles, odds=odds, rule=rule, seed=run),
            monday=FIRST_MONDAY,
            weeks=weeks,
            rule=rule,
            seed=run,
            zone="UTC",
            odds=odds,
            choose=policy(run),
        )
        gaps += seen.gaps
        late_runs += bool(len(seen.overdue))
        late_profiles += len(seen.overdue)
        for outcome, number in seen.outcomes.items():
            outcomes[outcome] += number
    there = np.flatnonzero(gaps)
    longest = int(there[-1]) if len(there) else 0
    return CoverageResult(
        policy=name,
        gaps=tuple(gaps[: longest + 1].tolist()),
        within=float(gaps[: rule.window.days + 1].sum() / max(gaps.sum(), 1)),
        runs_too_long=late_runs / runs,
        profiles_too_long=late_profiles / (runs * profiles),
        longest_days=longest,
        outcomes=outcomes,
    )
