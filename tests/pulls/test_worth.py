"""What a look is worth by the age of its copy; the best spacing of looks, beside exact answers."""

from datetime import timedelta
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exact_penalties import exact_penalty, interval_at_rate, worth_at_rate
from pull_cases import NOW, TODAY
from stoker.base.errors import ConfigError
from stoker.heat.beliefs import ChangeRates, build_prior
from stoker.heat.model import AccountColumns
from stoker.heat.settings import ChangeRateRule
from stoker.pulls.columns import Decision, PullLimits, validate_accounts
from stoker.pulls.planner import plan_pulls
from stoker.pulls.rates import get_spacing
from stoker.pulls.settings import Objective, PullRule
from stoker.pulls.worth import (
    build_accounts,
    compute_refresh_value,
    compute_stale_share,
    make_offers,
)

HARMONIC, FRESHNESS = Objective.HARMONIC, Objective.FRESHNESS
objectives = st.sampled_from(Objective)
numbers = st.floats(0, allow_nan=False, allow_infinity=False, exclude_min=True)
sound = st.floats(1e-3, 1e4)
ages = st.floats(0, allow_nan=False)


def belief(changes, days):
    return ChangeRates(changes=np.array([changes]), days=np.array([days]))


def exact(a, b, t, objective):
    """The same from the definition, in as many digits as it takes."""
    with localcontext() as context:
        context.prec = 150
        a, b, t = Decimal(a), Decimal(b), Decimal(t)
        z = (1 + t / b).ln()
        fresh = b * z if a == 1 else b * (1 - ((1 - a) * z).exp()) / (a - 1)
        if objective is HARMONIC:
            return float(t - fresh)
        return float(fresh - t * (-a * z).exp())


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("a", [1e-6, 0.1, 0.49999, 0.5, 1 - 1e-15, 1.0, 1 + 1e-9, 3.0, 1e3, 1e12])
@pytest.mark.parametrize("b", [1e-6, 1.0, 30.0, 1e12])
def test_worth_by_belief_is_exact_to_the_last_digits_that_a_float_has(objective, a, b):
    spans = np.array([1e-9, 1e-4, 0.01, 0.3, 1.0, 7.0, 365.0, 1e5, 1e9])
    found = compute_refresh_value(belief(a, b), spans, objective=objective)
    wanted = [exact(a, b, float(span), objective) for span in spans]
    assert found == pytest.approx(wanted, rel=1e-11, abs=1e-300)


@given(numbers, numbers, ages, ages, objectives)
@example(5e-324, 1e308, 5e-324, 1e-300, HARMONIC)
@example(1e308, 5e-324, float("inf"), 0.0, FRESHNESS)
def test_worth_never_falls_while_a_copy_ages_and_is_never_more_than_its_age(a, b, one, other, how):
    younger, older = sorted((one, other))
    low, high = compute_refresh_value(belief(a, b), [younger, older], objective=how)
    assert 0 <= low <= high * (1 + 1e-9) <= min(older, 1e9) * (1 + 2e-9)


@given(sound, sound, st.floats(0, 1e6))
def test_an_account_that_may_change_often_is_worth_more_to_harmonic_than_to_freshness(a, b, age):
    harmonic, freshness = (
        compute_refresh_value(belief(a, b), [age], objective=each)[0] for each in Objective
    )
    assert harmonic >= freshness * (1 - 1e-9)


def penalty(rate, every, objective):
    """The time average of a copy's penalty, straight from the definition."""
    t = (np.arange(400_000) + 0.5) * (every / 400_000)
    if objective is FRESHNESS:
        return float(np.mean(-np.expm1(-rate * t)))
    grown = -np.expm1(-rate * t) / t
    return float(np.mean(np.cumsum(grown) * (every / 400_000)))


def test_the_share_of_stale_time_is_what_its_definition_says():
    assert compute_stale_share(np.array([0.0, 0.1, 3.0])) == pytest.approx(
        [0.0, penalty(0.1, 1.0, FRESHNESS), penalty(3.0, 1.0, FRESHNESS)], rel=1e-6
    )


@pytest.mark.parametrize("bad", [float("nan"), -1.0])
def test_what_is_no_age_is_refused_in_one_line(bad):
    prior = belief(1.0, 20.0)
    with pytest.raises(ConfigError, match="an age in days"):
        compute_refresh_value(prior, [bad], objective=HARMONIC)


def sure(rate):
    return belief(1e9, 1e9 / rate)


@pytest.mark.parametrize("objective", Objective)
def test_a_belief_on_ever_so_much_evidence_is_a_known_rate(objective):
    spans = np.array([0.01, 1.0, 10.0, 300.0])
    found = compute_refresh_value(sure(0.05), spans, objective=objective)
    assert found == pytest.approx(worth_at_rate(0.05, spans, objective), rel=1e-6)


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("rate", [0.02, 0.3, 2.0])
def test_worth_is_what_one_more_look_a_day_takes_off_the_penalty(objective, rate):
    looks, more = 0.2, 0.2001
    less = penalty(rate, 1 / looks, objective) - penalty(rate, 1 / more, objective)
    found = compute_refresh_value(sure(rate), [1 / 0.20005], objective=objective)[0]
    assert found == pytest.approx(less / 0.0001, rel=1e-3)


@pytest.mark.parametrize("objective", Objective)
def test_the_penalty_of_a_spacing_is_the_exact_one(objective):
    x = np.array([0.0, 1e-12, 1e-6, 0.003, 0.1, 0.5, 1, 3.3, 10, 35.9, 36, 36.1, 80, 1e4, 1e200])
    wanted = [exact_penalty(float(each), objective) for each in x]
    assert get_spacing(objective).compute_penalty(x) == pytest.approx(wanted, rel=2e-8, abs=0)


@pytest.mark.parametrize("objective", Objective)
def test_the_best_spacing_is_the_one_at_which_a_look_is_worth_its_price(objective):
    u = np.concatenate([10.0 ** np.linspace(-9, 0.9, 2000), 1 - 10.0 ** np.linspace(-1, -9, 200)])
    u = u if objective is HARMONIC else u[u < 1]
    wanted = u / interval_at_rate(1.0, u * u, objective)
    share, _ = get_spacing(objective).compute_frequency(u)
    assert share == pytest.approx(wanted, rel=3e-6)


@pytest.mark.parametrize("objective", Objective)
def test_looks_never_grow_with_the_price_and_end_where_nothing_is_worth_it(objective):
    u = np.concatenate([np.linspace(0, 10, 200_001), 1 + np.linspace(-2e-9, 0, 1000)])
    u.sort()
    share, slope = get_spacing(objective).compute_frequency(u)
    rates = share[1:] / u[1:]
    assert (np.diff(rates) <= 1e-15 * rates[:-1]).all()
    assert (slope <= 0).all()
    assert share[0] == pytest.approx(np.sqrt(0.5))
    assert ((share > 0) == ((u < 1) | (objective is HARMONIC))).all()


@given(st.floats(0, 1e150), st.sampled_from(Objective))
@example(1.0, FRESHNESS)
@example(1 - 2**-53, FRESHNESS)
@example(0.995, FRESHNESS)
@example(6.0, HARMONIC)
@example(5e-324, HARMONIC)
@example(1e150, HARMONIC)
def test_there_is_an_answer_for_every_price(u, objective):
    share, slope = get_spacing(objective).compute_frequency(np.array([u]))
    assert 0 <= share[0] <= np.sqrt(0.5) + 1e-12
    assert np.isfinite(slope[0])
    assert np.isfinite(get_spacing(objective).compute_penalty(np.array([u]))[0])


BELIEFS = ChangeRateRule(half_life=timedelta(days=90))


def known(*, seen, deep_seen, changes, failed_at=-np.inf, rest_days=0.0):
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
        tried=np.full(size, np.nan),
        good=np.full(size, np.nan),
        failed_at=np.broadcast_to(failed_at, size),
        rest_days=np.broadcast_to(rest_days, size),
        yield_looks=np.zeros(size),
        yield_sum=np.zeros(size),
        yield_squares=np.zeros(size),
        stated_value=np.full(size, np.nan),
        known_at=np.full(size, TODAY - 3),
        signals=np.zeros(size),
        recovery=1.0,
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


def test_an_account_whose_site_was_never_seen_gets_deep_looks_only():
    accounts = known(seen=[-np.inf], deep_seen=[TODAY - 5], changes=[np.nan])
    assert accounts.units.tolist() == [3]


def test_a_site_that_was_gone_is_not_looked_at_before_its_rest_is_over():
    accounts = known(
        seen=[TODAY - 90.0] * 4,
        deep_seen=[TODAY - 90.0] * 4,
        changes=[1.0] * 4,
        failed_at=TODAY - np.array([29.0, 31.0, 1.0, np.inf]),
        rest_days=[30.0, 30.0, 0.0, 0.0],
    )
    barred = [Decision.COOLING_DOWN, Decision.FREE, Decision.FREE, Decision.FREE]
    assert accounts.barred.tolist() == barred


def test_after_a_failure_a_look_is_worth_less_until_the_site_may_be_back():
    accounts = known(
        seen=[TODAY - 90.0] * 3,
        deep_seen=[TODAY - 90.0] * 3,
        changes=[1.0] * 3,
        failed_at=TODAY - np.array([0.1, 3.0, np.inf]),
        rest_days=0.0,
    )
    assert accounts.chance.tolist() == pytest.approx([0.0856, 0.8552, 0.9], abs=1e-4)
    offers = make_offers(accounts, now=TODAY, rule=PullRule())
    assert offers.look[0] < offers.look[1] < offers.look[2]


def test_an_account_never_seen_is_as_old_as_it_is_known_and_not_overdue():
    accounts = known(seen=[-np.inf, TODAY - 3.0], deep_seen=[-np.inf, TODAY], changes=[np.nan] * 2)
    assert accounts.compute_ages(TODAY)[0].tolist() == [3.0, 3.0]
    older = accounts.make_older(100.0)
    offers = make_offers(older, now=TODAY, rule=PullRule())
    assert (offers.waited > 0).tolist() == [False, True]


def test_what_looks_taught_fades_toward_the_tier_and_nothing_taught_is_the_tier():
    cold = build_prior(BELIEFS, np.zeros(1, np.int64))
    accounts = known(
        seen=[TODAY, TODAY - 90, -np.inf], deep_seen=[TODAY] * 3, changes=[2.0, 2.0, np.nan]
    )
    half_way = (2.0 + cold.changes[0]) / 2
    assert np.allclose(accounts.surface.changes, [2.0, half_way, cold.changes[0]])
    assert np.allclose(accounts.deep.days, cold.days[0])
    assert accounts.quiet.tolist() == [3.0] * 3


@pytest.mark.parametrize("budget", [1, 2, 4, 8])
def test_without_history_hot_comes_before_warm_before_cold_at_equal_posture(budget):
    tier = np.repeat([2, 1, 0], 3)
    accounts = validate_accounts(
        build_prior(BELIEFS, tier), tier=tier, value=1.0, looked=TODAY - 5.0, deep_looked=TODAY
    )
    plan = plan_pulls(accounts, PullLimits(budget=budget), now=NOW, rule=PullRule())
    assert plan.chosen.tolist() == list(range(budget))
