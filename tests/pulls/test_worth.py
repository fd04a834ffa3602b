"""What a look is worth, by the age of the copy it would replace."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import ChangeRateRule, ChangeRates
from stoker.pulls.worth import (
    Objective,
    compute_account_value,
    compute_interval,
    compute_interval_at_rate,
    compute_refresh_value,
    compute_stale_share,
    compute_value_at_rate,
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


def plain(rate, age):
    """Freshness as the formula has it: the naive twin."""
    x = rate * age
    return (1 - np.exp(-x) * (1 + x)) / rate


def test_worth_keeps_its_digits_where_the_plain_formula_has_lost_them():
    found = compute_value_at_rate([1e-9], [1.0], objective=FRESHNESS)[0]
    assert found == pytest.approx(0.5e-9, rel=1e-8)
    assert abs(plain(1e-9, 1.0) / 0.5e-9 - 1) > 0.01


@given(numbers, numbers, ages, ages, objectives)
@example(5e-324, 1e308, 5e-324, 1e-300, HARMONIC)
@example(1e308, 5e-324, float("inf"), 0.0, FRESHNESS)
def test_worth_never_falls_while_a_copy_ages_and_is_never_more_than_its_age(a, b, one, other, how):
    younger, older = sorted((one, other))
    low, high = compute_refresh_value(belief(a, b), [younger, older], objective=how)
    assert 0 <= low <= high * (1 + 1e-9) <= min(older, 1e9) * (1 + 2e-9)


@given(numbers, ages, ages, objectives)
@example(5e-324, 1.0, 2.0, HARMONIC)
@example(1e308, 1e-300, float("inf"), FRESHNESS)
def test_the_same_holds_where_the_rate_is_known(rate, one, other, how):
    younger, older = sorted((one, other))
    low, high = compute_value_at_rate([rate, rate], [younger, older], objective=how)
    assert 0 <= low <= high * (1 + 1e-9) <= min(older, 1e9) * (1 + 2e-9)


@given(sound, sound, st.floats(0, 1e6))
def test_an_account_that_may_change_often_is_worth_more_to_harmonic_than_to_freshness(a, b, age):
    harmonic, freshness = (
        compute_refresh_value(belief(a, b), [age], objective=each)[0] for each in Objective
    )
    assert harmonic >= freshness * (1 - 1e-9)


@given(sound, sound, st.floats(1e-6, 1e5), objectives)
def test_an_interval_is_the_age_at_which_a_look_is_worth_the_price(a, b, age, objective):
    believed = belief(a, b)
    price = compute_refresh_value(believed, [age], objective=objective)
    found = compute_interval(believed, price, objective=objective)
    assert compute_refresh_value(believed, found, objective=objective) == pytest.approx(
        price, rel=1e-9
    )


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e5), objectives)
def test_so_it_is_where_the_rate_is_known(rate, age, objective):
    price = compute_value_at_rate([rate], [age], objective=objective)
    found = compute_interval_at_rate([rate], price, objective=objective)
    assert compute_value_at_rate([rate], found, objective=objective) == pytest.approx(
        price, rel=1e-9
    )


@given(numbers, numbers, st.floats(0, allow_nan=False, allow_infinity=False), objectives)
@example(5e-324, 5e-324, 5e-324, HARMONIC)
def test_whatever_the_price_an_interval_is_an_age_or_never(a, b, price, objective):
    found = compute_interval(belief(a, b), [price], objective=objective)[0]
    known = compute_interval_at_rate([a], [price], objective=objective)[0]
    assert found >= 0
    assert known >= 0
    assert (found == 0) == (price == 0) == (known == 0)


def test_freshness_gives_up_on_what_changes_too_often_and_harmonic_does_not():
    # At most 1/rate days of freshness can be bought, however long one waits.
    assert compute_interval_at_rate([2.0], [0.51], objective=FRESHNESS)[0] == np.inf
    assert np.isfinite(compute_interval_at_rate([2.0], [0.49], objective=FRESHNESS)[0])
    assert compute_interval_at_rate([2.0], [1000.0], objective=HARMONIC)[0] == pytest.approx(1000.5)
    # A belief leaves room for being wrong: nobody is given up as long as little is known.
    assert np.isfinite(compute_interval(belief(1.0, 0.5), [0.51], objective=FRESHNESS)[0])


@pytest.mark.parametrize("objective", Objective)
def test_a_belief_on_ever_so_much_evidence_is_a_known_rate(objective):
    spans = np.array([0.01, 1.0, 10.0, 300.0])
    sure = compute_refresh_value(belief(1e9, 2e10), spans, objective=objective)
    known = compute_value_at_rate(np.full(4, 0.05), spans, objective=objective)
    assert sure == pytest.approx(known, rel=1e-6)


def penalty(rate, every, objective):
    """The time average of a copy's penalty, straight from the definition."""
    t = (np.arange(400_000) + 0.5) * (every / 400_000)
    if objective is FRESHNESS:
        return float(np.mean(-np.expm1(-rate * t)))
    grown = -np.expm1(-rate * t) / t
    return float(np.mean(np.cumsum(grown) * (every / 400_000)))


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("rate", [0.02, 0.3, 2.0])
def test_worth_is_what_one_more_look_a_day_takes_off_the_penalty(objective, rate):
    looks, more = 0.2, 0.2001
    less = penalty(rate, 1 / looks, objective) - penalty(rate, 1 / more, objective)
    assert compute_value_at_rate([rate], [1 / 0.20005], objective=objective)[0] == pytest.approx(
        less / 0.0001, rel=1e-3
    )


def test_the_share_of_stale_time_is_what_its_definition_says():
    assert compute_stale_share(np.array([0.0, 0.1, 3.0])) == pytest.approx(
        [0.0, penalty(0.1, 1.0, FRESHNESS), penalty(3.0, 1.0, FRESHNESS)], rel=1e-6
    )


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("every", [(1.0, 3.0, 7.0), (1 / 24, 0.25, 5.0)])
def test_without_history_the_tiers_cadence_comes_out_and_it_stretches_with_the_price(
    objective, every
):
    prior = ChangeRateRule().build_prior(np.array([2, 1, 0]))
    value = compute_account_value(np.array(every), prior, objective=objective)
    assert compute_interval(prior, 1.0 / value, objective=objective) == pytest.approx(
        every, rel=1e-9
    )
    dearer = compute_interval(prior, 4.0 / value, objective=objective) / np.array(every)
    cheaper = compute_interval(prior, 0.25 / value, objective=objective) / np.array(every)
    assert ((dearer > 1.9) & (dearer < 3.0)).all()
    assert ((cheaper > 0.4) & (cheaper < 0.52)).all()


@pytest.mark.parametrize("bad", [float("nan"), -1.0])
def test_what_is_no_age_rate_or_price_is_refused_in_one_line(bad):
    prior = belief(1.0, 20.0)
    with pytest.raises(ConfigError, match="an age in days"):
        compute_refresh_value(prior, [bad], objective=HARMONIC)
    with pytest.raises(ConfigError, match="a rate of changes"):
        compute_value_at_rate([bad], [1.0], objective=HARMONIC)
    with pytest.raises(ConfigError, match="the worth of a look"):
        compute_interval(prior, [bad], objective=HARMONIC)
    with pytest.raises(ConfigError, match="more than 0 days apart"):
        compute_account_value([0.0], prior, objective=HARMONIC)


@pytest.mark.parametrize("objective", Objective)
def test_no_accounts_and_a_single_one_are_no_trouble(objective):
    none = ChangeRates(changes=np.zeros(0), days=np.zeros(0))
    assert compute_refresh_value(none, np.zeros(0), objective=objective).shape == (0,)
    assert compute_interval(none, np.zeros(0), objective=objective).shape == (0,)
    one = ChangeRates(changes=np.asarray(1.0), days=np.asarray(20.0))
    assert compute_interval(
        one, compute_refresh_value(one, 3.0, objective=objective), objective=objective
    ) == (pytest.approx(3.0))
