"""The best spacing of looks at a price, and the penalty it leaves: tables beside exact answers."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exact_penalties import exact_penalty
from stoker.pulls.spacing import get_spacing
from stoker.pulls.worth import Objective, compute_interval_at_rate

HARMONIC, FRESHNESS = Objective.HARMONIC, Objective.FRESHNESS


@pytest.mark.parametrize("objective", Objective)
def test_the_penalty_of_a_spacing_is_the_exact_one(objective):
    x = np.array([0.0, 1e-12, 1e-6, 0.003, 0.1, 0.5, 1, 3.3, 10, 35.9, 36, 36.1, 80, 1e4, 1e200])
    wanted = [exact_penalty(float(each), objective) for each in x]
    assert get_spacing(objective).compute_penalty(x) == pytest.approx(wanted, rel=2e-8, abs=0)


@pytest.mark.parametrize("objective", Objective)
def test_the_best_spacing_is_the_one_at_which_a_look_is_worth_its_price(objective):
    u = np.concatenate([10.0 ** np.linspace(-9, 0.9, 2000), 1 - 10.0 ** np.linspace(-1, -9, 200)])
    u = u if objective is HARMONIC else u[u < 1]
    wanted = u / compute_interval_at_rate(np.ones(len(u)), u * u, objective=objective)
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
