"""What more budget buys: never less of anything, and nothing that cannot be had."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, case
from stoker.pulls.columns import Decision, validate_limits
from stoker.pulls.plan_record import PlanSnapshot
from stoker.pulls.price_curve import TIMES, iterate_budget_points


def inputs_of(seed, **given):
    accounts, _, rule = case(seed, tenants=1, **given)
    ids = [f"A{row:05}" for row in range(len(accounts))]
    budget = int(np.random.default_rng(seed).integers(0, 2 * len(ids) + 1))
    return PlanSnapshot(ids=ids, accounts=accounts, limits=validate_limits([budget]), rule=rule)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_more_money_never_buys_less_freshness_in_the_long_run(seed):
    found = list(iterate_budget_points(inputs_of(seed), now=NOW))
    assert [each.times for each in found] == list(TIMES)
    for less, more in pairwise(found):
        assert more.units >= less.units
        assert 0.0 <= less.freshness <= more.freshness + 1e-6 <= 1.0 + 1e-5
        assert 0.0 <= more.gap <= 1.0
        assert more.price <= less.price * (1 + 1e-6)
        assert more.every <= less.every * (1 + 1e-6)


def test_without_a_budget_nothing_is_looked_at_and_the_price_is_beyond_any():
    inputs = replace(inputs_of(4), limits=validate_limits([0]))
    (found,) = iterate_budget_points(inputs, now=NOW, times=(1.0,))
    assert (found.units, found.looks) == (0, 0)
    assert found.price == np.inf
    assert found.every == np.inf
    assert found.freshness == pytest.approx(0.0, abs=1e-6)


def test_with_more_than_enough_the_price_is_nothing():
    inputs = replace(inputs_of(4), limits=validate_limits([10**15]))
    found = list(iterate_budget_points(inputs, now=NOW, times=(1.0, 4.0)))
    assert [each.price for each in found] == [0.0, 0.0]
    assert [each.units for each in found] == [10**15, 10**15]


def test_nobody_free_is_nobody_to_look_at():
    inputs = inputs_of(4)
    barred = np.full(len(inputs.accounts), Decision.PAUSED, np.uint8)
    inputs = replace(inputs, accounts=replace(inputs.accounts, barred=barred))
    (found,) = iterate_budget_points(inputs, now=NOW, times=(1.0,))
    assert (found.looks, found.freshness, found.every) == (0, 0.0, np.inf)


def test_a_budget_is_a_days_however_often_plans_are_made():
    daily = inputs_of(4)
    hourly = replace(daily, rule=replace(daily.rule, tick=timedelta(hours=1)))
    (one,), (other,) = (
        iterate_budget_points(each, now=NOW, times=(1.0,)) for each in (daily, hourly)
    )
    assert one.units == other.units
    # Looks may come closer together with hourly plans, but they cost what they cost.
    assert other.price >= one.price * (1 - 1e-6)
