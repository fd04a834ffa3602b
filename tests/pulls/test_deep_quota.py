"""Few looks may be deep: never more than that, the best of them, and everybody told why."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, SHORT_OF_DEPTH, TODAY, case
from pull_trials import Trial
from stoker.heat.beliefs import ChangeRates
from stoker.pulls.columns import NO_CAP, Decision, PullLimits, validate_accounts
from stoker.pulls.explain import explain
from stoker.pulls.planner import DEEP, NOT, SHALLOW, apply_deep_quota, find_deep_only, plan_pulls
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.worth import compute_worth, make_offers

seeds = st.integers(0, 2**32 - 1)
policies = st.sampled_from(Policy)
RULE = PullRule()


def accounts(size, **columns):
    return validate_accounts(
        ChangeRates(changes=np.ones(size), days=np.full(size, 10.0)),
        **{"looked": TODAY - 5.0, "deep_looked": TODAY - 50.0, "deep_value": 9.0, **columns},
    )


@settings(max_examples=60)
@given(seeds, policies)
def test_depth_is_withheld_for_the_reason_given_and_only_from_those_who_wanted_it(seed, policy):
    some, limits, rule = case(seed, policy=policy, deep_caps=True)
    plan = plan_pulls(some, limits, now=NOW, rule=rule)
    offers = make_offers(some, now=TODAY, rule=rule)
    wanted = offers.deeper > 0
    withheld = apply_deep_quota(some, limits, offers, share=rule.share).refused
    short = plan.depth_refusal != Decision.FREE
    assert not (short & ~withheld).any()
    assert (plan.depth_refusal[short] == limits.deep_why).all()
    assert plan.price > 0 or not (withheld & ~short).any()
    assert (offers.deeper >= plan.price)[short & (plan.depth != NOT)].all()
    assert (wanted & ~withheld).sum() == min(wanted.sum(), limits.deep_cap)
    needed = find_deep_only(some, offers)
    assert (plan.depth[withheld & needed] == NOT).all()
    if limits.connector_cap == NO_CAP:
        told = np.isin(plan.why, [each for each in SHORT_OF_DEPTH if each is not Decision.PAUSED])
        assert not (told & ~withheld).any()
        if limits.deep_cap == 0:
            alone = withheld & needed & (some.units <= limits.budget)
            assert (plan.why[alone] == plan.depth_refusal[alone]).all()


@settings(max_examples=60)
@given(seeds, st.booleans())
def test_no_plan_under_the_same_caps_is_worth_more_than_the_bound(seed, deep_caps):
    some, limits, rule = case(seed, most=5, floor=None, deep_caps=deep_caps)
    deep_cap = NO_CAP if limits.deep_cap is None else limits.deep_cap
    plan = plan_pulls(some, limits, now=NOW, rule=rule)
    offers = make_offers(some, now=TODAY, rule=rule)
    surface, deep = compute_worth(some, *some.compute_ages(TODAY), rule=rule)
    able, whole = offers.look > 0, find_deep_only(some, offers)
    best = 0.0
    for depths in product(range(3), repeat=len(some)):
        depth = np.array(depths)
        units = np.select([depth == SHALLOW, depth == DEEP], [some.units, some.deep_units], 0)
        if (
            units.sum() > min(limits.budget, limits.connector_cap)
            or ((depth == DEEP) & (offers.deeper > 0)).sum() > deep_cap
            or (depth > 0)[~able].any()
            or (deep_caps and (depth == SHALLOW)[whole].any())
        ):
            continue
        best = max(best, float((surface * (depth > 0) + deep * (depth == DEEP)).sum()))
    assert plan.value <= best * (1 + 1e-9) + 1e-12
    assert best <= plan.bound * (1 + 1e-9) + 1e-12
    assert 0.0 <= plan.gap <= 1.0


def test_what_has_no_room_for_depth_is_looked_at_without_it_for_what_that_alone_is_worth():
    some = accounts(3, value=[1.0, 3.0, 2.0], deep_value=[50.0, 40.0, 30.0])
    plan = plan_pulls(some, PullLimits(budget=9, deep_cap=1), now=NOW, rule=RULE)
    assert plan.depth.tolist() == [DEEP, SHALLOW, SHALLOW]
    free = plan_pulls(some, PullLimits(budget=9), now=NOW, rule=RULE)
    assert free.depth.tolist() == [DEEP] * 3
    assert plan.chosen.tolist() == [0, 1, 2]
    scarce = plan_pulls(some, PullLimits(budget=4, deep_cap=1), now=NOW, rule=RULE)
    assert scarce.depth.tolist() == [DEEP, SHALLOW, NOT]  # the better shallow look, not depth
    assert Decision(scarce.why[2]) is Decision.LOWER_VALUE
    assert [Decision(each) for each in plan.depth_refusal[1:]] == [Decision.CAP_CONNECTOR_DAY] * 2
    assert plan.gap < 0.01


@pytest.mark.parametrize("why", SHORT_OF_DEPTH)
def test_whoever_needs_depth_is_refused_with_the_reason_there_is_none(why):
    some = accounts(4, units=[3, 3, 1, 3], value=[4.0, 3.0, 2.0, 1.0])
    limits = PullLimits(budget=9, deep_cap=0, deep_why=why)
    plan = plan_pulls(some, limits, now=NOW, rule=RULE)
    assert plan.depth.tolist() == [NOT, NOT, SHALLOW, NOT]
    assert [Decision(each) for each in plan.why] == [why, why, Decision.WORTH, why]
    assert [Decision(each) for each in plan.depth_refusal] == [why] * 4
    assert plan.gap < 1e-5
    found = explain(2, some, limits, now=NOW, rule=RULE, plan=plan)
    assert (found.depth_refusal, found.depth) == (why, SHALLOW)


def test_who_loses_to_better_offers_has_less_value_whatever_else_was_short():
    some = accounts(4, units=3, value=[9.0, 8.0, 7.0, 6.0])
    plan = plan_pulls(some, PullLimits(budget=6, deep_cap=3), now=NOW, rule=RULE)
    assert [Decision(each) for each in plan.why] == [Decision.WORTH] * 2 + [
        Decision.LOWER_VALUE
    ] * 2
    assert not plan.depth_refusal.any()
    short = plan_pulls(some, PullLimits(budget=99, deep_cap=3), now=NOW, rule=RULE)
    assert Decision(short.why[3]) is Decision.CAP_CONNECTOR_DAY
    alike = replace(some, value=np.ones(4))
    plan = plan_pulls(alike, PullLimits(budget=6, deep_cap=3), now=NOW, rule=RULE)
    assert [Decision(each) for each in plan.why] == [Decision.WORTH] * 2 + [
        Decision.LOWER_VALUE
    ] * 2


def test_depth_that_was_not_worth_its_units_is_not_what_a_look_lacks():
    some = accounts(2, value=9.0, deep_value=[5.0, 1e-6])
    plan = plan_pulls(some, PullLimits(budget=2, deep_cap=0), now=NOW, rule=RULE)
    assert plan.depth.tolist() == [SHALLOW, SHALLOW]
    more = accounts(3, value=[9.0, 9.0, 1.0], deep_value=[5.0, 1e-6, 0.0])
    plan = plan_pulls(more, PullLimits(budget=2, deep_cap=0), now=NOW, rule=RULE)
    assert plan.depth.tolist() == [SHALLOW, SHALLOW, NOT]
    assert [Decision(each) for each in plan.depth_refusal] == [
        Decision.CAP_CONNECTOR_DAY,
        Decision.FREE,
        Decision.FREE,
    ]


def test_who_waited_too_long_has_its_share_of_the_deep_looks():
    ages = np.array([5.0] * 10 + [90.0])
    some = accounts(11, units=3, looked=TODAY - ages, value=[100.0] * 10 + [1e-6], deep_value=1e-6)
    plan = plan_pulls(some, PullLimits(budget=15, deep_cap=5), now=NOW, rule=RULE)
    assert Decision(plan.why[10]) is Decision.FLOOR
    none = plan_pulls(some, PullLimits(budget=15, deep_cap=4), now=NOW, rule=RULE)
    assert none.depth[10] == NOT
    assert none.floor_missed.tolist() == [10]
    assert none.overdue == 1


def test_the_bound_counts_deep_looks_that_better_offers_per_unit_took():
    some = accounts(2, units=1, deep_units=[1, 9], value=[1.0, 0.5], deep_value=[1.0, 6.0])
    limits = PullLimits(budget=99, deep_cap=1)
    plan = plan_pulls(some, limits, now=NOW, rule=RULE)
    assert plan.depth.tolist() == [DEEP, SHALLOW]
    surface, deep = compute_worth(some, *some.compute_ages(TODAY), rule=RULE)
    assert plan.value < surface[1] + deep[1] <= plan.bound


def test_signals_are_the_reason_of_a_look_without_depth_by_what_that_alone_is_worth():
    some = accounts(2, value=[1.0, 1.1], signals=[2.0, 0.0], deep_value=50.0)
    limits = PullLimits(budget=1, deep_cap=0)
    plan = plan_pulls(some, limits, now=NOW, rule=RULE)
    assert [Decision(each) for each in plan.why] == [Decision.SIGNAL, Decision.LOWER_VALUE]
    found = explain(0, some, limits, now=NOW, rule=RULE, plan=plan)
    assert found.worth_over_price == pytest.approx(plan.score[0] / plan.price, rel=1e-5)
    assert "Not deep: today's cap of the connector is used up" in found.message


@pytest.mark.parametrize("why", [Decision.PAUSED, Decision.COOLING_DOWN])
def test_whoever_is_stopped_or_left_alone_is_flipped_by_no_number(why):
    some = accounts(2, units=3)
    limits = PullLimits(budget=9, deep_cap=0, deep_why=why)
    trial = Trial(0, some, limits, RULE, plan_pulls(some, limits, now=NOW, rule=RULE))
    assert trial.counterfactual.message.startswith("No change")
