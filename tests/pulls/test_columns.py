"""Accounts as a plan weighs them: what is believed by now, and what a first look costs."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pull_cases import NOW, TODAY
from stoker.heat.beliefs import build_prior
from stoker.heat.model import AccountColumns, Tier
from stoker.heat.settings import ChangeRateRule, TierRule
from stoker.pulls.columns import Decision, PullLimits, validate_accounts
from stoker.pulls.planner import DEEP, SHALLOW, plan_pulls
from stoker.pulls.settings import Objective, PullRule
from stoker.pulls.worth import (
    build_accounts,
    compute_account_values,
    compute_posture_factor,
    make_offers,
)

BELIEFS = ChangeRateRule(half_life=timedelta(days=90))


def known(*, seen, deep_seen, changes):
    size = len(seen)
    stored = AccountColumns(
        accounts=[f"A{row}" for row in range(size)],
        heat=np.full(size, 0.5),
        posture=np.full(size, 0.5),
        tier=np.zeros(size, np.int8),
        tier_since=np.full(size, TODAY - 3),
        surface_at=np.array(seen),
        surface_changes=np.array(changes),
        surface_days=np.full(size, 10.0),
        deep_at=np.array(deep_seen),
        deep_changes=np.full(size, np.nan),
        deep_days=np.full(size, np.nan),
        signals=np.zeros(size),
    )
    return build_accounts(
        stored,
        now=TODAY,
        units=1,
        deep_units=3,
        barred=Decision.FREE,
        rule=PullRule(),
        beliefs=BELIEFS,
    )


def test_the_first_look_is_deep_and_later_ones_may_be_shallow():
    never = -np.inf
    accounts = known(seen=[never, TODAY - 5], deep_seen=[never, TODAY - 5], changes=[np.nan, 2.0])
    assert accounts.units.tolist() == [3, 1]
    assert accounts.deep_units.tolist() == [3, 3]
    assert (accounts.deep_value > 0).all()


def test_what_looks_taught_fades_toward_the_tier_and_nothing_taught_is_the_tier():
    cold = build_prior(BELIEFS, np.zeros(1, np.int64))
    accounts = known(
        seen=[TODAY, TODAY - 90, -np.inf], deep_seen=[TODAY] * 3, changes=[2.0, 2.0, np.nan]
    )
    half_way = (2.0 + cold.changes[0]) / 2
    assert np.allclose(accounts.surface.changes, [2.0, half_way, cold.changes[0]])
    assert np.allclose(accounts.deep.days, cold.days[0])
    assert accounts.quiet.tolist() == [3.0] * 3


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
        build_prior(BELIEFS, tier),
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
    tick = timedelta(minutes=2)
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
    plan = plan_pulls(accounts, PullLimits(budget=5), now=NOW, rule=rule)
    assert plan.depth.tolist() == [DEEP, SHALLOW, SHALLOW]


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_better_posture_is_worth_more_and_a_middling_one_is_the_measure(one, other):
    low, high = sorted([one, other])
    found = compute_posture_factor(np.array([0.0, low, high, 1.0, 0.5]), rule=PullRule())
    assert found[0] == 0.25 <= found[1] <= found[2] <= found[3] == 4.0
    assert found[4] == 1.0
