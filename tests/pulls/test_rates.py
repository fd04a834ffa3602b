"""How often each account deserves a look, within a budget; held to slow exact answers."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exact_penalties import exact_penalty, interval_at_rate
from pull_cases import NOW, case
from stoker.base.errors import ConfigError
from stoker.pulls.columns import Decision
from stoker.pulls.rates import (
    TIMES,
    RateProblem,
    build_rate_plan,
    build_spending,
    compute_rate_plan,
    get_spacing,
    iterate_budget_points,
    to_rate_problem,
)
from stoker.pulls.settings import Objective

HARMONIC, FRESHNESS = Objective.HARMONIC, Objective.FRESHNESS
both = pytest.mark.parametrize("objective", Objective)


def people(number, *, budget, seed=1):
    chance = np.random.default_rng(seed)
    return RateProblem(
        value=chance.lognormal(0, 1.2, number),
        changes=chance.lognormal(np.log(0.05), 1.5, number),
        cost=np.where(chance.random(number) < 0.2, 4.0, 1.0),
        budget=budget,
    )


def penalty(problem, rate, objective):
    """What these rates leave, by the exact sums."""
    x = np.minimum(problem.changes / np.maximum(rate, 1e-200), 1e200)
    each = [exact_penalty(float(changes), objective) for changes in x]
    return float(problem.value @ np.array(each))


def slowly(problem, price, objective):
    """The best rates at a price, each by its own equation."""
    every = interval_at_rate(problem.changes, price * problem.cost / problem.value, objective)
    return np.minimum(1 / every, problem.rate_max)


def bisected(fits, turns=70):
    """The lowest price that fits, by halving: 60 passes for what ours takes a handful for."""
    low, high = -40.0, 40.0
    for _ in range(turns):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(np.exp(middle)) else (middle, high)
    return np.exp(high)


@both
@pytest.mark.parametrize("share", [0.02, 0.15, 0.6])
def test_rates_and_price_are_those_of_the_slow_search(objective, share):
    problem = people(40, budget=0.0)
    problem = replace(problem, budget=share * problem.cost.sum())
    price = bisected(lambda each: problem.cost @ slowly(problem, each, objective) <= problem.budget)
    plan = compute_rate_plan(problem, objective=objective)
    assert plan.price == pytest.approx(price, rel=1e-5)
    assert plan.rate == pytest.approx(slowly(problem, price, objective), rel=1e-3, abs=1e-6)
    assert plan.penalty == pytest.approx(penalty(problem, plan.rate, objective), rel=1e-7)
    assert plan.gap <= 1e-6


sane = st.floats(1e-3, 1e3)
amounts = st.floats(0, 1e3)


@st.composite
def problems(draw, numbers=sane, budgets=amounts):
    size = draw(st.integers(1, 25))
    column = st.lists(numbers, min_size=size, max_size=size).map(np.array)
    return RateProblem(
        value=draw(column),
        changes=draw(column),
        cost=np.maximum(draw(column), 1e-30),
        budget=draw(budgets | st.just(float("inf"))),
        rate_max=draw(st.sampled_from([0.5, 1.0, 24.0])),
    )


def within(problem, rate):
    """Say whether rates keep to the budget."""
    budget = min(problem.budget, 1e300) * (1 + 1e-11) + 1e-300
    fast = (rate > problem.rate_max * (1 + 1e-11)).any()
    return problem.cost @ rate <= budget and (rate >= 0).all() and not fast


@settings(max_examples=40)
@given(problems(), st.sampled_from(Objective))
def test_the_budget_is_never_exceeded_and_the_bound_is_below_what_is_left(problem, objective):
    plan = compute_rate_plan(problem, objective=objective)
    assert within(problem, plan.rate)
    assert plan.bound <= plan.penalty * (1 + 1e-12)
    assert plan.gap <= 1e-5


@settings(max_examples=40)
@given(
    problems(numbers=st.floats(0, 1e30), budgets=st.floats(0, allow_nan=False)),
    st.sampled_from(Objective),
)
@example(
    RateProblem(
        value=np.array([5e-324, 1e30]),
        changes=np.array([1e30, 0.0]),
        cost=np.array([1e-30, 1e30]),
        budget=5e-324,
    ),
    FRESHNESS,
)
def test_however_odd_the_numbers_the_budget_holds_and_everything_is_a_number(problem, objective):
    plan = compute_rate_plan(problem, objective=objective)
    assert within(problem, plan.rate)
    assert np.isfinite(plan.rate).all()
    assert np.isfinite([plan.penalty, plan.bound]).all()
    assert not np.isnan(plan.price)
    assert 0 <= plan.gap <= np.inf


@settings(max_examples=25)
@given(problems(budgets=st.floats(0.01, 100)), st.sampled_from(Objective), st.integers(0, 10**6))
def test_no_other_rates_within_the_budget_leave_less_than_the_bound(problem, objective, seed):
    plan = compute_rate_plan(problem, objective=objective)
    chance = np.random.default_rng(seed)
    for weights in (np.ones(len(problem.value)), problem.value, chance.random(len(problem.value))):
        rate = np.minimum(weights / weights.max(), 1.0) * problem.rate_max
        while not within(problem, rate):
            rate = rate * 0.8
        if (rate > 0).all():
            assert penalty(problem, rate, objective) >= plan.bound
    assert penalty(problem, plan.rate, objective) >= plan.bound


@settings(max_examples=60)
@given(st.floats(1e-3, 1e3), st.sampled_from(Objective))
def test_at_any_price_the_bound_is_below_what_the_best_plan_leaves(root, objective):
    problem = people(40, budget=9.0)
    spending = build_spending(problem, get_spacing(objective))
    found = build_rate_plan(problem, spending, root)
    assert found.bound <= compute_rate_plan(problem, objective=objective).penalty


@both
def test_without_a_budget_nothing_is_looked_at_and_with_enough_everything(objective):
    none = compute_rate_plan(people(100, budget=0.0), objective=objective)
    assert none.price == np.inf
    assert (none.rate == 0.0).all()
    plenty = compute_rate_plan(people(100, budget=1e6), objective=objective)
    assert plenty.price == 0
    assert (plenty.rate == 1.0).all()


@both
@pytest.mark.parametrize("budget", [0.0, 5.0, 20.0, 1e5])
def test_the_price_of_an_earlier_plan_changes_nothing_but_the_time_it_takes(objective, budget):
    problem = people(400, budget=budget)
    cold = compute_rate_plan(problem, objective=objective)
    for start in (cold.price, np.inf, 0.0, 1e9, 1e-9):
        warm = compute_rate_plan(problem, objective=objective, start_price=start)
        assert warm.rate == pytest.approx(cold.rate, rel=1e-5, abs=1e-9)
        assert warm.gap <= 1e-6


@both
def test_a_price_is_what_one_more_call_a_day_would_buy(objective):
    fewer, more = (
        compute_rate_plan(people(400, budget=each), objective=objective) for each in (50.0, 50.05)
    )
    bought = (fewer.penalty - more.penalty) / (more.spend - fewer.spend)
    assert bought == pytest.approx(fewer.price, rel=5e-3)


def test_freshness_gives_up_on_who_changes_too_often_and_harmonic_on_nobody():
    problem = people(300, budget=5.0)
    assert (compute_rate_plan(problem, objective=FRESHNESS).rate == 0).any()
    assert (compute_rate_plan(problem, objective=HARMONIC).rate > 0).all()


def test_a_tenant_of_one_account_spends_all_it_has():
    # Freshness stops looking at a price, all at once: the one account must not fall off it.
    one = {"value": np.array([1.0]), "changes": np.array([3.0]), "cost": np.array([2.0])}
    for budget in (1e-3, 0.1, 1.0):
        plan = compute_rate_plan(RateProblem(**one, budget=budget), objective=FRESHNESS)
        assert budget - 1e-6 <= plan.spend <= budget
        assert plan.gap <= 1e-6


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"value": np.array([float("nan"), 1.0])}, "an account's value"),
        ({"changes": np.array([-1.0, 1.0])}, "a rate of changes"),
        ({"cost": np.array([0.0, 1.0])}, "a lookup costs something"),
        ({"cost": np.array([1.0])}, "columns of equal length"),
        ({"rate_max": float("inf")}, "a highest rate"),
        ({"budget": float("nan")}, "a budget"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(wrong, said):
    right = {"value": np.ones(2), "changes": np.ones(2), "cost": np.ones(2), "budget": 1.0}
    with pytest.raises(ConfigError, match=said):
        RateProblem(**{**right, **wrong})


def budget_of(accounts, seed):
    return int(np.random.default_rng(seed).integers(0, 2 * len(accounts) + 1))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_long_run_rates_keep_the_budget_and_leave_out_whoever_is_barred(seed):
    accounts, _, rule = case(seed)
    problem = to_rate_problem(accounts, budget_of(accounts, seed), rule=rule)
    plan = compute_rate_plan(problem, objective=rule.objective)
    assert plan.rate @ problem.cost <= problem.budget * (1 + 1e-6) + 1e-9
    free = int((accounts.barred == Decision.FREE).sum())
    assert free <= len(plan.rate) <= 2 * free
    assert plan.gap <= 1e-5


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_more_money_never_buys_less_freshness_in_the_long_run(seed):
    accounts, _, rule = case(seed)
    budget = budget_of(accounts, seed)
    found = list(iterate_budget_points(accounts, budget, now=NOW, rule=rule))
    assert [each.times for each in found] == list(TIMES)
    for less, more in pairwise(found):
        assert more.units >= less.units
        assert 0.0 <= less.freshness <= more.freshness + 1e-6 <= 1.0 + 1e-5
        assert 0.0 <= more.gap <= 1.0
        assert more.price <= less.price * (1 + 1e-6)
        assert more.every_days <= less.every_days * (1 + 1e-6)


def point_of(budget, *, seed=4, rule=None, barred=None):
    accounts, _, own = case(seed)
    if barred is not None:
        accounts = replace(accounts, barred=np.full(len(accounts), barred, np.uint8))
    points = iterate_budget_points(accounts, budget, now=NOW, rule=rule or own, times=(1.0,))
    return next(points)


def test_without_a_budget_the_price_is_beyond_any_and_with_more_than_enough_it_is_nothing():
    none = point_of(0)
    assert (none.units, none.looks, none.price, none.every_days) == (0, 0, np.inf, np.inf)
    assert none.freshness == pytest.approx(0.0, abs=1e-6)
    plenty = point_of(10**15)
    assert (plenty.units, plenty.price) == (10**15, 0.0)


def test_nobody_free_is_nobody_to_look_at():
    found = point_of(9, barred=Decision.PAUSED)
    assert (found.looks, found.freshness, found.every_days) == (0, 0.0, np.inf)


def test_a_budget_is_a_days_however_often_plans_are_made():
    rule = case(4)[2]
    daily, hourly = (
        point_of(9, rule=replace(rule, tick=timedelta(hours=hours))) for hours in (24, 1)
    )
    assert daily.units == hourly.units
    # Looks may come closer together with hourly plans, but they cost what they cost.
    assert hourly.price >= daily.price * (1 - 1e-6)
