"""What an account is worth: without history the planner keeps the tiers' cadence and depth."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pull_cases import NOW, TODAY
from stoker.heat.beliefs import ChangeRateRule
from stoker.heat.tiers import Tier, TierRule
from stoker.pulls.columns import (
    PullRule,
    compute_account_values,
    compute_posture_factor,
    validate_accounts,
    validate_limits,
)
from stoker.pulls.offers import make_offers
from stoker.pulls.planner import DEEP, SHALLOW, plan_pulls
from stoker.pulls.worth import Objective

BELIEFS = ChangeRateRule()


def unheard(ranks, *, rule, looked, deep_looked=None, posture=0.5):
    tier = np.asarray(ranks)
    number = len(tier)
    heat, quiet = np.zeros(number), np.zeros(number)
    postures, units = np.full(number, posture), np.ones(number, np.int64)
    value, deep_value = compute_account_values(
        tier=tier,
        heat=heat,
        quiet=quiet,
        posture=postures,
        units=units,
        deep_units=3 * units,
        rule=rule,
        beliefs=BELIEFS,
    )
    return validate_accounts(
        BELIEFS.build_prior(tier),
        tier=tier,
        heat=heat,
        quiet=quiet,
        value=value,
        deep_value=deep_value,
        looked=looked,
        deep_looked=looked if deep_looked is None else deep_looked,
    )


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("tier", Tier)
def test_without_history_a_look_is_worth_its_units_exactly_when_the_tier_says(tier, objective):
    tick = timedelta(minutes=1)
    rule = PullRule(objective=objective, tick=tick)
    table = TierRule()
    every = {Tier.HOT: table.hot_every, Tier.WARM: table.warm_every, Tier.COLD: table.cold_every}
    due = every[tier] / timedelta(days=1)
    half = tick / timedelta(days=2)
    accounts = unheard([tier.rank], rule=rule, looked=TODAY - due + half, deep_looked=TODAY)
    assert make_offers(accounts, now=TODAY, rule=rule).look[0] == pytest.approx(1.0, rel=2e-3)


def test_without_history_hot_accounts_are_looked_at_deep_and_others_seldom():
    rule = PullRule()
    accounts = unheard([2, 1, 0], rule=rule, looked=TODAY - 3.0)
    plan = plan_pulls(accounts, validate_limits([5]), now=NOW, rule=rule)
    assert plan.depth.tolist() == [DEEP, SHALLOW, SHALLOW]


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_better_posture_is_worth_more_and_a_middling_one_is_the_measure(one, other):
    low, high = sorted([one, other])
    found = compute_posture_factor(np.array([0.0, low, high, 1.0, 0.5]), rule=PullRule())
    assert found[0] == 0.25 <= found[1] <= found[2] <= found[3] == 4.0
    assert found[4] == 1.0
