"""Accounts as a plan weighs them: what is believed by now, and what a first look costs."""

from datetime import timedelta

import numpy as np

from stoker.heat.beliefs import ChangeRateRule
from stoker.pulls.columns import Decision, PullRule, build_accounts

NOW = 20_000.0
BELIEFS = ChangeRateRule(half_life=timedelta(days=90))


def known(*, seen, deep_seen, changes):
    size = len(seen)
    return build_accounts(
        heat=np.full(size, 0.5),
        posture=np.full(size, 0.5),
        tier=np.zeros(size, np.int8),
        tier_since=np.full(size, NOW - 3),
        surface_at=np.array(seen),
        surface_changes=np.array(changes),
        surface_days=np.full(size, 10.0),
        deep_at=np.array(deep_seen),
        deep_changes=np.full(size, np.nan),
        deep_days=np.full(size, np.nan),
        signals=np.zeros(size),
        now=NOW,
        units=1,
        deep_units=3,
        barred=Decision.FREE,
        rule=PullRule(),
        beliefs=BELIEFS,
    )


def test_the_first_look_is_deep_and_later_ones_may_be_shallow():
    never = -np.inf
    accounts = known(seen=[never, NOW - 5], deep_seen=[never, NOW - 5], changes=[np.nan, 2.0])
    assert accounts.units.tolist() == [3, 1]
    assert accounts.deep_units.tolist() == [3, 3]
    assert (accounts.deep_value > 0).all()


def test_what_looks_taught_fades_toward_the_tier_and_nothing_taught_is_the_tier():
    cold = BELIEFS.build_prior(np.zeros(1, np.int64))
    accounts = known(seen=[NOW, NOW - 90, -np.inf], deep_seen=[NOW] * 3, changes=[2.0, 2.0, np.nan])
    half_way = (2.0 + cold.changes[0]) / 2
    assert np.allclose(accounts.surface.changes, [2.0, half_way, cold.changes[0]])
    assert np.allclose(accounts.deep.days, cold.days[0])
    assert accounts.quiet.tolist() == [3.0] * 3
