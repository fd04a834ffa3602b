"""Rehearsed weeks: counted whole, on the production planner, with the odds that were asked for."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from stoker.base.errors import ConfigError
from stoker.touches.model import TouchOutcome
from stoker.touches.planning.coverage import OutcomeOdds, build_production_policy, simulate_weeks
from stoker.touches.planning.selection import NEVER_DONE
from stoker.touches.settings import PlanRule

RULE = PlanRule()
MONDAY = date(2026, 1, 5)
USUAL = OutcomeOdds(failed=0.1, already_reacted=0.05, no_posts=0.05)


def run(last_done, *, weeks=4, odds=USUAL, choose=None, seed=1):
    return simulate_weeks(
        np.array(last_done, np.int64),
        monday=MONDAY,
        weeks=weeks,
        rule=RULE,
        seed=seed,
        zone="UTC",
        odds=odds,
        choose=choose or build_production_policy(rule=RULE, seed=seed),
    )


YESTERDAY = MONDAY.toordinal() - 1


def test_every_touch_has_an_outcome_and_every_gap_an_end():
    found = run([YESTERDAY - nth % 10 for nth in range(100)], weeks=30)
    total = sum(found.outcomes.values())
    assert total == 30 * 80
    assert abs(found.outcomes[TouchOutcome.DONE] / total - 0.8) < 0.04
    assert found.gaps.sum() >= found.outcomes[TouchOutcome.DONE]
    assert found.gaps[:2].sum() == 0


def test_coverage_stays_first_whatever_the_appeal_of_some_profiles():
    appeal = np.array([nth % 2 for nth in range(100)], np.float64)
    start = [YESTERDAY - nth % 10 for nth in range(100)]
    rule = replace(RULE, appeal_factor=50.0)
    runs = [
        run(
            start,
            weeks=12,
            seed=seed,
            choose=build_production_policy(rule=rule, seed=seed, appeal=appeal),
        )
        for seed in range(10)
    ]
    gaps = sum(each.gaps for each in runs)
    assert gaps[: RULE.window.days + 1].sum() / gaps.sum() >= 0.995


def test_when_nobody_is_ever_picked_everybody_waits_too_long():
    found = run([YESTERDAY] * 10, choose=lambda last, day, budget: np.zeros(0, np.int64))
    assert len(found.overdue) == 10
    assert found.gaps[29] == 10


def test_the_first_touch_of_somebody_ends_no_gap():
    found = run([NEVER_DONE] * 20, weeks=1, odds=OutcomeOdds())
    assert found.outcomes[TouchOutcome.DONE] == 80 - found_empty(20)
    assert found.gaps.sum() == found.outcomes[TouchOutcome.DONE] - 20
    assert len(found.overdue) == 0


def found_empty(number):
    """Count the places that stay empty where so many may be touched every other day only."""
    last = np.array([NEVER_DONE] * number, np.int64)
    picked = []

    def noting(state, day, budget):
        found = build_production_policy(rule=RULE, seed=1)(state, day, budget)
        picked.append(len(found))
        return found

    run(last, weeks=1, odds=OutcomeOdds(), choose=noting)
    return 80 - sum(picked)


@pytest.mark.parametrize("odds", [{"failed": 1.0}, {"failed": -0.1}, {"no_posts": float("nan")}])
def test_odds_that_leave_nothing_to_be_done_are_refused(odds):
    with pytest.raises(ConfigError, match="together below 1"):
        OutcomeOdds(**odds)
