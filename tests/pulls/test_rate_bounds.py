"""The bound of a plan of rates: it holds at any prices, and is close at the right ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.pulls.rate_problem import RateDemand, RateLimits, validate_problem
from stoker.pulls.rates import build_rate_plan, compute_rate_plan
from stoker.pulls.spacing import get_spacing
from stoker.pulls.worth import Objective

CHANCE = np.random.default_rng(8)
DEMAND = RateDemand(
    value=CHANCE.lognormal(0, 1, 40),
    changes=CHANCE.lognormal(-2, 1.5, 40),
    cost=CHANCE.choice([1.0, 4.0], 40),
    tenant=CHANCE.integers(0, 2, 40),
    connector=CHANCE.integers(0, 2, 40),
    shared=CHANCE.integers(0, 2, 40),
    rate_min=0.005,
)
LIMITS = RateLimits(
    budget=np.array([4.0, 9.0]),
    connector_cap=np.array([[1.5, 3.5], [np.inf, 4.0]]),
    shared_cap=np.array([5.0, np.inf]),
)
BEST = {each: compute_rate_plan(DEMAND, LIMITS, objective=each) for each in Objective}
roots = st.floats(1e-3, 1e3)


def pairs(of, count=2):
    return st.lists(of, min_size=count, max_size=count).map(np.array)


@settings(max_examples=60)
@given(pairs(roots), pairs(roots, 4), st.floats(0, 1e3), st.sampled_from(Objective))
def test_at_any_prices_the_bound_is_below_what_the_best_plan_leaves(own, leaves, beside, objective):
    asked = validate_problem(DEMAND, LIMITS)
    # A price on what has no cap would bound another question.
    leaves[2] = 1e-100
    rows = replace(
        asked.rows,
        leaf=asked.connector_groups.leaf,
        at_least=leaves,
        other=asked.shared,
        beside=np.array([beside, 0.0]),
    )
    found = build_rate_plan(asked, rows, own, spacing=get_spacing(objective))
    assert found.least_penalty <= BEST[objective].penalty.sum()


@pytest.mark.parametrize("objective", Objective)
def test_at_the_right_prices_it_is_close(objective):
    assert BEST[objective].gap <= 2e-5
    assert BEST[objective].least_penalty <= BEST[objective].penalty.sum()


def test_a_bound_that_forgets_what_is_left_unspent_would_be_above_the_best_plan():
    asked = validate_problem(replace(DEMAND, connector=None, shared=None), LIMITS)
    best = compute_rate_plan(replace(DEMAND, connector=None, shared=None), LIMITS)
    dear = build_rate_plan(
        asked, asked.rows, np.full(2, 30.0), spacing=get_spacing(Objective.HARMONIC)
    )
    assert dear.bound.sum() < best.penalty.sum() < dear.penalty.sum()
    assert (dear.spend < asked.budget / 2).all()
