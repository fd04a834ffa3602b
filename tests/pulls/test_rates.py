"""How often each account deserves a look, given what may be spent; held to slow exact answers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exact_penalties import exact_penalty
from stoker.base.errors import ConfigError
from stoker.pulls.rate_problem import RateDemand, RateLimits
from stoker.pulls.rates import compute_rate_plan
from stoker.pulls.worth import Objective, compute_interval_at_rate

HARMONIC, FRESHNESS = Objective.HARMONIC, Objective.FRESHNESS
both = pytest.mark.parametrize("objective", Objective)


def people(number, *, tenants=1, seed=1, **more):
    chance = np.random.default_rng(seed)
    return RateDemand(
        value=chance.lognormal(0, 1.2, number),
        changes=chance.lognormal(np.log(0.05), 1.5, number),
        cost=np.where(chance.random(number) < 0.2, 4.0, 1.0),
        tenant=chance.integers(0, tenants, number),
        **more,
    )


def penalty(demand, rate, objective):
    """What these rates leave, by the exact sums."""
    x = np.minimum(demand.changes / np.maximum(rate, 1e-200), 1e200)
    each = [exact_penalty(float(changes), objective) for changes in x]
    return float(demand.value @ np.array(each))


def spent(demand, rate, by=None, count=1):
    by = np.zeros(len(rate), np.int64) if by is None else by
    return np.bincount(by, demand.cost * rate, count)


def slowly(demand, price, objective):
    """The best rates at prices by account, each by its own equation."""
    need = price * demand.cost / demand.value
    every = compute_interval_at_rate(demand.changes, need, objective=objective)
    with np.errstate(divide="ignore"):
        return np.clip(1 / every, demand.rate_min, demand.rate_max)


def bisected(fits, turns=70):
    """The lowest price that fits, by halving: 60 passes for what ours takes a handful for."""
    low, high = -40.0, 40.0
    for _ in range(turns):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(np.exp(middle)) else (middle, high)
    return np.exp(high)


@both
@pytest.mark.parametrize("share", [0.02, 0.15, 0.6])
@pytest.mark.parametrize("least", [0.0, 1 / 90])
def test_rates_and_price_are_those_of_the_slow_search(objective, share, least):
    demand = people(40, rate_min=least)
    budget = share * demand.cost.sum()
    price = bisected(lambda each: spent(demand, slowly(demand, each, objective)) <= budget)
    plan = compute_rate_plan(demand, RateLimits(budget=np.array([budget])), objective=objective)
    assert plan.price[0] == pytest.approx(price, rel=1e-5)
    assert plan.rate == pytest.approx(slowly(demand, price, objective), rel=1e-3, abs=1e-6)
    assert plan.penalty[0] == pytest.approx(penalty(demand, plan.rate, objective), rel=1e-7)


@both
def test_caps_of_a_tenant_with_a_connector_are_those_of_the_slow_search(objective):
    chance = np.random.default_rng(2)
    demand = people(60, connector=chance.integers(0, 3, 60))
    cap = np.array([[2.0, np.inf, 5.0]])
    budget = np.array([12.0])

    def took(price, k):
        return spent(demand, slowly(demand, price, objective), demand.connector, 3)[k]

    held = [bisected(lambda each, k=k: took(each, k) <= cap[0, k], turns=45) for k in range(3)]

    def rates(price):
        return slowly(demand, np.maximum(price, np.array(held)[demand.connector]), objective)

    price = bisected(lambda each: spent(demand, rates(each)) <= budget, turns=40)
    plan = compute_rate_plan(
        demand, RateLimits(budget=budget, connector_cap=cap), objective=objective
    )
    assert plan.price[0] == pytest.approx(price, rel=1e-4)
    assert plan.rate == pytest.approx(rates(price), rel=1e-3, abs=1e-4)
    assert (spent(demand, plan.rate, demand.connector, 3) <= cap[0]).all()
    assert plan.connector_price[0, 1] == 0 < plan.connector_price[0, 0]
    assert plan.gap <= 1e-6


def test_prices_of_what_tenants_share_add_to_their_own():
    demand = people(40, tenants=2, shared=np.zeros(40, np.int64))
    budget, cap = np.array([2.0, 6.0]), np.array([4.0])

    def rates(beside):
        def took(own, t):
            return spent(demand, slowly(demand, own + beside, HARMONIC), demand.tenant, 2)[t]

        own = [bisected(lambda each, t=t: took(each, t) <= budget[t], turns=35) for t in range(2)]
        return slowly(demand, np.array(own)[demand.tenant] + beside, HARMONIC)

    beside = bisected(lambda each: spent(demand, rates(each)) <= cap, turns=22)
    plan = compute_rate_plan(demand, RateLimits(budget=budget, shared_cap=cap))
    assert plan.shared_price[0] == pytest.approx(beside, rel=1e-2)
    assert plan.rate == pytest.approx(rates(beside), rel=2e-2, abs=1e-6)
    assert plan.rate @ demand.cost <= cap[0]
    assert plan.gap <= 2e-6


sane = st.floats(1e-3, 1e3)
amounts = st.floats(0, 1e3)
sizes = st.integers(1, 25)


@st.composite
def asked(draw, numbers=sane, limits=amounts):
    size, tenants = draw(sizes), draw(st.integers(1, 3))
    column = st.lists(numbers, min_size=size, max_size=size).map(np.array)

    def places(count):
        return st.lists(st.integers(0, count - 1), min_size=size, max_size=size).map(np.array)

    def caps(count):
        some = st.one_of(limits, st.just(float("inf")))
        return st.lists(some, min_size=count, max_size=count).map(np.array)

    capped, shared = draw(st.booleans()), draw(st.booleans())
    demand = RateDemand(
        value=draw(column),
        changes=draw(column),
        cost=np.maximum(draw(column), 1e-30),
        tenant=draw(places(tenants)),
        connector=draw(places(2)) if capped else None,
        shared=draw(places(2)) if shared else None,
        rate_min=draw(st.sampled_from([0.0, 0.01, 0.5])),
        rate_max=draw(st.sampled_from([0.5, 1.0, 24.0])),
    )
    return demand, RateLimits(
        budget=draw(caps(tenants)),
        connector_cap=draw(caps(2 * tenants)).reshape(tenants, 2) if capped else None,
        shared_cap=draw(caps(2)) if shared else None,
    )


def fits(took, limit):
    return (took <= np.minimum(limit, 1e300) * (1 + 1e-11) + 1e-300).all()


def within(demand, limits, rate):
    """Say whether rates keep to every limit."""
    tenants = len(limits.budget)
    good = fits(spent(demand, rate, demand.tenant, tenants), limits.budget)
    good &= (rate >= 0).all() and fits(rate, demand.rate_max)
    if limits.connector_cap is not None:
        leaf = demand.tenant * 2 + demand.connector
        good &= fits(spent(demand, rate, leaf, 2 * tenants), limits.connector_cap.ravel())
    if limits.shared_cap is not None:
        good &= fits(spent(demand, rate, demand.shared, 2), limits.shared_cap)
    return good


@settings(max_examples=40)
@given(asked(), st.sampled_from(Objective))
def test_no_limit_is_ever_exceeded_and_the_bound_is_below_what_is_left(both_asked, objective):
    demand, limits = both_asked
    plan = compute_rate_plan(demand, limits, objective=objective)
    assert within(demand, limits, plan.rate)
    assert plan.least_penalty <= plan.penalty.sum() * (1 + 1e-12)
    whole = plan.met_share[demand.tenant] == 1
    assert (plan.rate[whole] >= np.minimum(demand.rate_min, demand.rate_max) * (1 - 1e-9)).all()
    if limits.shared_cap is None:
        assert plan.gap <= 1e-5
        assert (plan.tenant_gap <= 1e-5).all()


odd = st.floats(0, 1e30)


@settings(max_examples=40)
@given(asked(numbers=odd, limits=st.floats(0, allow_nan=False)), st.sampled_from(Objective))
@example(
    (
        RateDemand(
            value=np.array([5e-324, 1e30]),
            changes=np.array([1e30, 0.0]),
            cost=np.array([1e-30, 1e30]),
            tenant=np.array([0, 0]),
        ),
        RateLimits(budget=np.array([5e-324])),
    ),
    FRESHNESS,
)
def test_however_odd_the_numbers_limits_hold_and_everything_is_a_number(both_asked, objective):
    demand, limits = both_asked
    plan = compute_rate_plan(demand, limits, objective=objective)
    assert within(demand, limits, plan.rate)
    assert np.isfinite(plan.rate).all()
    assert np.isfinite(plan.penalty).all()
    assert np.isfinite(plan.bound).all()
    assert not np.isnan(plan.price).any()
    assert 0 <= plan.gap <= np.inf


@settings(max_examples=25)
@given(asked(limits=st.floats(0.01, 100)), st.sampled_from(Objective), st.integers(0, 10**6))
def test_no_other_rates_within_the_limits_leave_less_than_the_bound(both_asked, objective, seed):
    demand, limits = both_asked
    demand = replace(demand, rate_min=0.0)
    plan = compute_rate_plan(demand, limits, objective=objective)
    chance = np.random.default_rng(seed)
    for weights in (np.ones(len(demand.value)), demand.value, chance.random(len(demand.value))):
        rate = np.minimum(weights / weights.max(), 1.0) * demand.rate_max
        while not within(demand, limits, rate):
            rate = rate * 0.8
        if (rate > 0).all():
            assert penalty(demand, rate, objective) >= plan.least_penalty
    assert penalty(demand, plan.rate, objective) >= plan.least_penalty


def test_looking_as_often_as_accounts_change_is_caught_by_the_bound():
    demand, budget = people(300), np.array([40.0])
    plan = compute_rate_plan(demand, RateLimits(budget=budget), objective=FRESHNESS)
    often = demand.changes / (demand.cost @ demand.changes) * budget[0]
    naive = penalty(demand, np.minimum(often, 1.0), FRESHNESS)
    assert plan.gap <= 1e-6
    assert naive - plan.least_penalty > 0.2 * naive


@both
def test_one_tenant_is_planned_for_as_if_there_were_no_other(objective):
    demand = people(500, tenants=5)
    budget = np.array([0.0, 3.0, 10.0, 30.0, 1e6])
    together = compute_rate_plan(demand, RateLimits(budget=budget), objective=objective)
    for tenant in range(5):
        mine = demand.tenant == tenant
        alone = compute_rate_plan(
            RateDemand(
                value=demand.value[mine],
                changes=demand.changes[mine],
                cost=demand.cost[mine],
                tenant=np.zeros(mine.sum(), np.int64),
            ),
            RateLimits(budget=budget[[tenant]]),
            objective=objective,
        )
        assert together.rate[mine] == pytest.approx(alone.rate, rel=1e-6, abs=1e-9)
    assert together.price[0] == np.inf
    assert together.price[4] == 0
    assert (together.rate[demand.tenant == 4] == 1.0).all()
    assert (together.rate[demand.tenant == 0] == 0.0).all()


@both
def test_prices_of_an_earlier_plan_change_nothing_but_the_time_it_takes(objective):
    demand, limits = people(400, tenants=4), RateLimits(budget=np.array([0.0, 5.0, 20.0, 1e5]))
    cold = compute_rate_plan(demand, limits, objective=objective)
    again = compute_rate_plan(demand, limits, objective=objective, price0=cold.price)
    wild = compute_rate_plan(
        demand, limits, objective=objective, price0=np.array([np.inf, 0, 1e9, 1e-9])
    )
    for other in (again, wild):
        assert other.rate == pytest.approx(cold.rate, rel=1e-5, abs=1e-9)
        assert other.gap <= 1e-6


@both
def test_a_price_is_what_one_more_call_a_day_would_buy(objective):
    demand = people(400)
    fewer, more = (
        compute_rate_plan(demand, RateLimits(budget=np.array([each])), objective=objective)
        for each in (50.0, 50.05)
    )
    bought = (fewer.penalty - more.penalty).sum() / (more.spend - fewer.spend).sum()
    assert bought == pytest.approx(float(fewer.price[0]), rel=5e-3)


@both
def test_more_budget_leaves_less_and_every_further_call_buys_less(objective):
    points = [
        compute_rate_plan(
            people(300), RateLimits(budget=np.array([30.0 * times])), objective=objective
        )
        for times in (0.5, 0.9, 1.0, 1.1, 2.0)
    ]
    left, price = [p.penalty.sum() for p in points], [float(p.price[0]) for p in points]
    assert left == sorted(left, reverse=True)
    assert price == sorted(price, reverse=True)
    assert all(point.least_penalty <= point.penalty.sum() for point in points)


def test_freshness_gives_up_on_who_changes_too_often_and_harmonic_on_nobody():
    demand, limits = people(300), RateLimits(budget=np.array([5.0]))
    assert (compute_rate_plan(demand, limits, objective=FRESHNESS).rate == 0).any()
    assert (compute_rate_plan(demand, limits, objective=HARMONIC).rate > 0).all()


def test_least_rates_that_do_not_fit_are_cut_alike_and_said():
    demand = replace(people(50, tenants=2), rate_min=0.5)
    need = spent(demand, np.full(50, 0.5), demand.tenant, 2)
    plan = compute_rate_plan(demand, RateLimits(budget=np.array([need[0] / 4, need[1] * 2])))
    assert plan.met_share == pytest.approx([0.25, 1.0])
    assert plan.rate[demand.tenant == 0] == pytest.approx(0.125)
    assert (plan.rate[demand.tenant == 1] >= 0.5).all()
    assert plan.spend[0] <= need[0] / 4


def test_a_tenant_of_one_account_spends_all_it_has():
    # Freshness stops looking at a price, all at once: the one account must not fall off it.
    one = RateDemand(
        value=np.array([1.0]),
        changes=np.array([3.0]),
        cost=np.array([2.0]),
        tenant=np.array([0]),
    )
    for budget in (1e-3, 0.1, 1.0):
        plan = compute_rate_plan(one, RateLimits(budget=np.array([budget])), objective=FRESHNESS)
        assert budget - 1e-6 <= plan.spend[0] <= budget
        assert plan.gap <= 1e-6


def test_the_order_of_accounts_makes_no_difference():
    demand, limits = people(300, tenants=3), RateLimits(budget=np.array([3.0, 9.0, 20.0]))
    order = np.random.default_rng(4).permutation(300)
    mixed = RateDemand(
        value=demand.value[order],
        changes=demand.changes[order],
        cost=demand.cost[order],
        tenant=demand.tenant[order],
    )
    one, other = compute_rate_plan(demand, limits), compute_rate_plan(mixed, limits)
    assert other.rate == pytest.approx(one.rate[order], rel=1e-6)


def test_no_accounts_and_no_tenants_are_no_trouble():
    none = np.zeros(0)
    nobody = RateDemand(value=none, changes=none, cost=none, tenant=none.astype(np.int64))
    assert compute_rate_plan(nobody, RateLimits(budget=np.array([1.0, 0.0]))).spend.tolist() == [
        0.0,
        0.0,
    ]
    assert compute_rate_plan(nobody, RateLimits(budget=none)).gap == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"value": np.array([float("nan"), 1.0])}, "an account's value"),
        ({"changes": np.array([-1.0, 1.0])}, "a rate of changes"),
        ({"cost": np.array([0.0, 1.0])}, "costs more than nothing"),
        ({"cost": np.array([1.0])}, "columns of equal length"),
        ({"tenant": np.array([0, 1])}, "limits for 1 of tenant"),
        ({"tenant": np.array([0.0, 0.0])}, "one tenant, by its number"),
        ({"rate_max": float("inf")}, "a highest rate"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(wrong, said):
    demand = RateDemand(
        value=np.ones(2), changes=np.ones(2), cost=np.ones(2), tenant=np.zeros(2, np.int64)
    )
    with pytest.raises(ConfigError, match=said):
        compute_rate_plan(replace(demand, **wrong), RateLimits(budget=np.array([1.0])))
    with pytest.raises(ConfigError, match="a budget"):
        compute_rate_plan(demand, RateLimits(budget=np.array([float("nan")])))
