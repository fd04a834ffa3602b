"""The long run: rates within every cap, close to what no plan can beat."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import case
from stoker.pulls.columns import Decision, validate_limits
from stoker.pulls.price_curve import to_rate_problem
from stoker.pulls.rates import compute_rate_plan


def plan_steady_state(accounts, limits, *, rule):
    return compute_rate_plan(
        *to_rate_problem(accounts, limits, rule=rule), objective=rule.objective
    )


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_rates_keep_every_cap_and_leave_out_whoever_is_barred(seed):
    accounts, limits, rule = case(seed)
    demand, _ = to_rate_problem(accounts, limits, rule=rule)
    plan = plan_steady_state(accounts, limits, rule=rule)
    units = plan.rate * demand.cost
    budget = np.maximum(limits.budget, 0)
    by_tenant = np.bincount(demand.tenant, weights=units, minlength=limits.tenants)
    assert (by_tenant <= budget * (1 + 1e-6) + 1e-9).all()
    if demand.connector is not None:
        wide = limits.connector_cap.shape[1]
        leaf = demand.tenant * wide + demand.connector
        spent = np.bincount(leaf, weights=units, minlength=limits.connector_cap.size)
        assert (spent <= limits.connector_cap.ravel() * (1 + 1e-6) + 1e-9).all()
    if demand.shared is not None:
        spent = np.bincount(demand.shared, weights=units, minlength=len(limits.domain_cap) + 1)
        assert (spent[:-1] <= limits.domain_cap * (1 + 1e-6) + 1e-9).all()
    free = int((accounts.barred == Decision.FREE).sum())
    assert free <= len(plan.rate) <= 2 * free
    assert 0.0 <= plan.gap <= 1.0


def test_with_one_budget_the_rates_are_proven_as_good_as_any():
    accounts, limits, rule = case(5, most=4000, tenants=1, tight=0.3)
    limits = validate_limits(limits.budget)
    assert plan_steady_state(accounts, limits, rule=rule).gap <= 1e-5
