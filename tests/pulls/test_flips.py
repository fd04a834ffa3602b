"""Flips: the change that is stated works, and a smaller one on its axis does not."""

from dataclasses import replace
from datetime import timedelta
from itertools import islice

import numpy as np
import pytest

from pull_cases import NOW, case
from pull_trials import Trial, counted, refusals
from stoker.budgets.caps import Scope
from stoker.pulls.columns import Decision, PullLimits
from stoker.pulls.flips import STEP, CapIncrease, Counterfactual, find_counterfactual, format_span
from stoker.pulls.planner import NOT, plan_pulls

_LATEST = timedelta(days=3660)


def test_refusals_are_flipped_by_what_is_stated_and_by_nothing_smaller():
    seen = counted(60)  # a thousand of them: python -m proof pulls
    assert (seen["tried"], seen["failed"], seen["smaller"]) == (60, 0, 0)
    assert min(seen["units"], seen["posture"], seen["wait"]) >= 5


@pytest.mark.parametrize("seed", [2, 3, 5, 7, 12, 15, 17, 20])
def test_more_deep_looks_flip_a_refusal_and_one_fewer_does_not(seed):
    accounts, limits, rule = case(seed, most=16, tight=0.5, deep_caps=True)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    rows = np.flatnonzero(plan.depth == NOT).tolist()
    trials = [Trial(row, accounts, limits, rule, plan) for row in rows]
    short = [each for each in trials if any(cap.deep for cap in each.counterfactual.raises or ())]
    assert short
    for trial in short:
        raises = list(trial.counterfactual.raises)
        assert trial.chosen_with_raises(raises)
        for nth, each in enumerate(raises):
            fewer = [*raises[:nth], replace(each, units=each.units - 1), *raises[nth + 1 :]]
            assert not trial.chosen_with_raises(fewer)


@pytest.mark.parametrize(("seed", "row"), [(1107, 4), (2223, 3), (2665, 1)])
def test_who_waited_comes_out_of_turn_at_the_budget_only_if_its_connector_let_it(seed, row):
    accounts, limits, rule = case(seed, most=16, floor=timedelta(days=10), tight=1.0)
    trial = Trial(row, accounts, limits, rule, plan_pulls(accounts, limits, now=NOW, rule=rule))
    *others, last = trial.counterfactual.raises
    assert last.scope is Scope.TENANT
    assert trial.chosen_with_raises(trial.counterfactual.raises)
    assert not trial.chosen_with_raises((*others, replace(last, units=last.units - 1)))


def test_where_no_flip_is_stated_the_largest_change_on_that_axis_does_nothing():
    for trial in islice(refusals(), 25):
        if trial.counterfactual.raises is None:
            every = [
                CapIncrease(scope=scope, units=10**6)
                for scope in (Scope.TENANT, Scope.TENANT_CONNECTOR)
            ]
            assert not trial.chosen_with_raises(tuple(every))
        if trial.counterfactual.wait is None:
            assert not trial.chosen_with_wait(_LATEST)
        if trial.counterfactual.posture is None:
            assert not trial.chosen_with_posture(1.0 - STEP)


def test_whoever_is_barred_or_whose_budget_cannot_be_read_is_flipped_by_nothing():
    accounts, limits, rule = case(11)
    barred = replace(accounts, barred=np.full(len(accounts), int(Decision.PAUSED), np.uint8))
    plan = plan_pulls(barred, limits, now=NOW, rule=rule)
    assert find_counterfactual(0, barred, limits, now=NOW, rule=rule, plan=plan) == Counterfactual()
    unreadable = PullLimits(budget=-1)
    plan = plan_pulls(accounts, unreadable, now=NOW, rule=rule)
    assert (
        find_counterfactual(0, accounts, unreadable, now=NOW, rule=rule, plan=plan)
        == Counterfactual()
    )
    assert Counterfactual().message.startswith("No change")


def test_a_flip_is_said_in_one_sentence():
    stated = Counterfactual(
        raises=(
            CapIncrease(scope=Scope.TENANT_CONNECTOR, units=1),
            CapIncrease(scope=Scope.TENANT, units=3),
        ),
        posture=0.61,
        wait=timedelta(days=2, hours=3),
    )
    assert stated.message == (
        "It would be selected with 1 more unit in the connector's day cap and 3 more units in the "
        "tenant's day cap, or with a posture of 0.610, or in 2 d 3 h, everything else unchanged."
    )


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(0), "0 m"),
        (timedelta(seconds=1), "1 m"),
        (timedelta(days=1, minutes=5), "1 d 5 m"),
        (timedelta(hours=25), "1 d 1 h"),
    ],
)
def test_a_span_is_said_in_whole_minutes(span, words):
    assert format_span(span) == words
