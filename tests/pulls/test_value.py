"""What an account is worth: its place by posture, what people state, what lookups brought."""

import ast
import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.pulls import value
from stoker.pulls.settings import PullRule
from stoker.pulls.value import (
    add_yields,
    compute_guess,
    compute_values,
    estimate_credibility,
    replace_by_stated,
)

postures = st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=1, max_size=40)


def column(numbers):
    return np.array(numbers, np.float32)


def test_the_value_module_knows_neither_tiers_nor_heat():
    tree = ast.parse(inspect.getsource(value))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in names if name.startswith("stoker.heat")]


def test_the_84th_of_100_is_worth_the_spread_and_the_50th_is_the_measure():
    guess = compute_guess(column(np.arange(1001) / 1000), spread=3.0)
    assert guess[500] == pytest.approx(1.0)
    assert guess[841] == pytest.approx(3.0, rel=0.01)
    assert guess[159] == pytest.approx(1 / 3, rel=0.01)


@given(postures, st.data())
def test_a_higher_posture_never_lowers_its_value_and_equal_ones_are_worth_the_same(some, data):
    row = data.draw(st.integers(0, len(some) - 1))
    higher = list(some)
    higher[row] = data.draw(st.sampled_from([p / 20 for p in range(round(some[row] * 20), 21)]))
    before, after = (compute_guess(column(each), spread=3.0) for each in (some, higher))
    assert after[row] >= before[row]
    for worth in before[np.array(some) == some[row]]:
        assert worth == before[row]
    assert np.isfinite(before).all()


def test_a_hundredth_of_posture_changes_a_value_a_little():
    posture = np.arange(1000) / 1000
    guess = compute_guess(column(posture), spread=3.0)
    middle = slice(50, 940)
    assert (guess[10:][middle] / guess[:-10][middle]).max() <= 1.2


def test_no_accounts_and_equal_postures_have_values():
    assert compute_guess(column([]), spread=3.0).tolist() == []
    assert compute_guess(column([0.88] * 5), spread=3.0).tolist() == [1.0] * 5
    surface, deep = compute_values(column([0.0]), rule=PullRule())
    assert (surface.tolist(), deep.tolist()) == ([0.6], [0.4])


def test_a_stated_value_replaces_the_guess_on_the_same_scale():
    guess = np.array([1.0, 2.0, 3.0, 4.0])
    assert replace_by_stated(guess, np.full(4, np.nan)) is guess
    found = replace_by_stated(guess, np.array([np.nan, 100.0, 300.0, np.nan]))
    assert found.tolist() == [1.0, 1.25, 3.75, 4.0]


def yields_of(means, looks, luck):
    drawn = [
        luck.gamma(0.51, mean / 0.51, number) for mean, number in zip(means, looks, strict=True)
    ]
    return (
        np.array(looks, np.float64),
        np.array([each.sum() for each in drawn]),
        np.array([(each**2).sum() for each in drawn]),
    )


def test_what_lookups_bring_moves_values_toward_what_accounts_are_worth():
    luck = np.random.default_rng(0)
    worth = np.exp(luck.normal(0, 1, 500))
    found = add_yields(np.ones(500), *yields_of(worth, np.full(500, 20), luck))
    assert np.corrcoef(np.log(found), np.log(worth))[0, 1] > 0.85


def test_yields_that_say_nothing_of_accounts_leave_their_values():
    luck = np.random.default_rng(1)
    guess = np.ones(500)
    found = add_yields(guess, *yields_of(guess, np.full(500, 6), luck))
    assert np.abs(np.log(found)).max() < 0.7


def test_too_few_yields_say_nothing():
    luck = np.random.default_rng(2)
    looks, total, squares = yields_of(np.ones(29), np.full(29, 9), luck)
    assert estimate_credibility(np.ones(29), looks, total, squares) == float("inf")
    nothing = np.zeros(5)
    assert add_yields(np.ones(5), nothing, nothing, nothing).tolist() == [1.0] * 5


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1e3)), max_size=60))
def test_values_are_numbers_whatever_lookups_brought(some):
    looks = np.array([float(m) for m, _ in some])
    each = np.array([y for _, y in some])
    found = add_yields(np.ones(len(some)), looks, looks * each, looks * each**2)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
