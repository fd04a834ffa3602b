"""Who is picked: the overdue, then the best by weight, with probabilities that hold."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stoker.touches.planning.random import Purpose, RandomStream
from stoker.touches.planning.selection import (
    NEVER_DONE,
    compute_inclusion,
    compute_scores,
    draw_sample,
    pick_profiles,
)
from stoker.touches.settings import PlanRule

RULE = PlanRule()
TODAY = 740_000
waits = st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=60)


def state(since):
    return np.array([NEVER_DONE if each is None else TODAY - each for each in since], np.int64)


def picked(since, budget, *, seed=1, rule=RULE, **more):
    day = date.fromordinal(TODAY)
    return pick_profiles(state(since), day=day, budget=budget, rule=rule, seed=seed, **more)


@given(waits, st.integers(0, 30), st.integers(0, 1000), st.integers(1, 9))
def test_no_profile_within_its_rest_is_picked_and_none_twice(since, budget, seed, rest):
    rule = replace(RULE, min_rest=timedelta(days=rest))
    found = picked(since, budget, seed=seed, rule=rule)
    may = [place for place, each in enumerate(since) if each is None or each >= rest]
    assert len(set(found.indexes.tolist())) == len(found.indexes) == min(budget, len(may))
    assert set(found.indexes.tolist()) <= set(may)
    assert ((found.probability > 0) & (found.probability <= 1)).all()
    assert (found.probability[found.forced | found.pressing] == 1).all()


force_rules = st.builds(
    lambda after, most, pressing: replace(
        RULE,
        force_after=timedelta(days=after),
        force_limit=most,
        pressing=timedelta(days=pressing),
    ),
    st.integers(3, 20),
    st.integers(0, 8),
    st.integers(0, 6),
)


@given(waits, st.integers(1, 30), st.integers(0, 1000), force_rules)
def test_the_force_numbers_do_what_their_names_say(since, budget, seed, rule):
    found = picked(since, budget, seed=seed, rule=rule)
    known = [each if each is not None else -1 for each in since]  # never touched: after the others
    overdue = sorted(
        (each for each, wait in zip(known, since, strict=True) if _is_over(wait, rule)),
        reverse=True,
    )
    forced = [known[place] for place in found.indexes[found.forced].tolist()]
    assert forced == overdue[: min(rule.force_limit, budget)]
    pressing = [known[place] for place in found.indexes[found.pressing].tolist()]
    left = sorted([each for each in known if each >= 0], reverse=True)
    for each in forced:
        if each >= 0:
            left.remove(each)
    begins = 14 - rule.pressing.days if rule.pressing else 10**6
    near = [each for each in left if each >= max(begins, 2)]
    assert pressing == near[: budget - len(forced)]


def _is_over(wait, rule):
    return wait is None or wait > rule.force_after.days


@given(
    st.lists(st.integers(13, 40), min_size=1, max_size=20),
    st.integers(0, 200),
    st.integers(1, 25),
    st.integers(0, 1000),
)
def test_an_import_pushes_out_no_profile_that_is_overdue(overdue, new, budget, seed):
    before = picked([*overdue, *[6] * 20], budget, seed=seed)
    after = picked([*overdue, *[6] * 20, *[None] * new], budget, seed=seed)
    reached = [
        sorted(found.since[found.since < 10**6], reverse=True)[: len(overdue)]
        for found in (before, after)
    ]
    late = [[each for each in found if each > 12] for found in reached]
    assert late[0] == late[1] == sorted(overdue, reverse=True)[:budget]


@given(waits, st.integers(1, 30), st.integers(0, 1000), st.data())
def test_appeal_forces_nobody_in_or_out_and_lets_nobody_pass_the_pool(since, budget, seed, data):
    share = st.floats(0, 1)
    appeal = np.array(data.draw(st.lists(share, min_size=len(since), max_size=len(since))))
    factor = data.draw(st.floats(0, 1000))
    plain = picked(since, budget, seed=seed)
    found = picked(
        since, budget, seed=seed, appeal=appeal, rule=replace(RULE, appeal_factor=factor)
    )
    forced = found.indexes[found.forced | found.pressing].tolist()
    assert forced == plain.indexes[plain.forced | plain.pressing].tolist()
    assert len(found.indexes) == len(plain.indexes) == len(set(found.indexes.tolist()))
    days = TODAY - state(since)
    scores = compute_scores(days, rule=RULE, chance=RandomStream(seed, Purpose.PICKS, TODAY))
    others = [n for n in range(len(since)) if n not in forced and days[n] >= 2]
    pool = sorted(scores[others].tolist(), reverse=True)[: 2 * budget]
    assert all(score >= pool[-1] for score in found.scores[~found.forced & ~found.pressing])


@given(st.lists(st.floats(0, 1), min_size=12, max_size=30), st.floats(0, 50), st.integers(0, 99))
def test_who_appeals_more_is_likelier_in_proportion(appeals, factor, seed):
    rule = replace(RULE, appeal_factor=factor)
    found = picked([5] * len(appeals), 6, seed=seed, rule=rule, appeal=np.array(appeals))
    weight = found.scores * (1 + factor * np.array(appeals)[found.indexes])
    open_ones = found.probability < 1
    ratios = found.probability[open_ones] / weight[open_ones]
    assert np.allclose(ratios, ratios[:1], rtol=1e-9)


def test_a_profile_never_touched_comes_before_all_but_the_overdue():
    found = picked([30, None, 40, 5], 3)
    assert found.indexes.tolist() == [2, 0, 1]
    assert found.forced.all()
    assert picked([12, None, 11], 1).indexes.tolist() == [1]


def test_five_a_day_are_forced_and_more_come_first_only_where_the_window_ends():
    early = replace(RULE, window=timedelta(days=40))
    for since, forced, pressing in ((20, 5, 0), (38, 5, 7), (37, 5, 7), (36, 5, 0), (12, 0, 0)):
        found = picked([since] * 30, 12, rule=early)
        assert (found.forced.sum(), found.pressing.sum()) == (forced, pressing)
    assert picked([20] * 30, 12, rule=early, forced_already=3).forced.sum() == 2
    usual = picked([11] * 30, 12)
    assert (usual.forced.sum(), usual.pressing.sum()) == (0, 12)
    alone = picked([14] * 30, 12, rule=replace(RULE, pressing=timedelta(0)))
    assert (alone.forced.sum(), alone.pressing.sum()) == (5, 0)


def test_whoever_has_a_touch_already_is_not_picked_again():
    assert set(picked([9, 9, 9], 3, barred=np.array([1])).indexes.tolist()) == {0, 2}


def test_chance_draws_from_the_best_only():
    quiet = replace(RULE, score_noise=0.0)
    since = [10] * 10 + [3] * 50
    for seed in range(30):
        assert picked(since, 5, seed=seed, rule=quiet).indexes.max() < 10


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=40), st.integers(0, 40), st.integers(0, 10**9)
)
@example([0.0, 2.225073858507203e-309], 1, 0)
@example([1.0, 5e-324, 0.0, 2.2e-310], 2, 0)
def test_exactly_so_many_are_drawn_and_probabilities_add_up_to_it(weights, number, seed):
    column = np.array(weights)
    places, probability = draw_sample(column, number, chance=RandomStream(seed, Purpose.PICKS))
    number = min(number, len(weights))
    assert len(places) == len(set(places.tolist())) == number
    assert abs(probability.sum() - number) < 1e-6
    if (column > 0).sum() >= number > 0:
        assert (probability[places] > 0).all()


def naive(weights, number, chance):
    """Draw one after the other by weight, and take the share of the weight for the probability."""
    left, chosen = list(range(len(weights))), []
    for _ in range(number):
        reach = np.cumsum([weights[place] for place in left])
        chosen.append(left.pop(int(np.searchsorted(reach, chance.draw_one() * reach[-1], "right"))))
    return chosen


def worst(draw, runs=4000):
    weights = np.array([1.0, 2.0, 3.0, 10.0])
    seen = np.zeros(4)
    for seed in range(runs):
        seen[draw(weights, 2, RandomStream(seed, Purpose.PICKS))] += 1
    return np.abs(seen / runs - compute_inclusion(weights, 2)).max()


def test_the_probability_said_is_how_often_it_happens_and_drawing_in_turn_is_caught():
    assert worst(lambda w, n, chance: draw_sample(w, n, chance=chance)[0]) < 0.03
    assert worst(naive) > 0.05


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_same_seed_picks_the_same(seed):
    one, other = picked(range(40), 12, seed=seed), picked(range(40), 12, seed=seed)
    assert one.indexes.tolist() == other.indexes.tolist()
    assert one.probability.tolist() == other.probability.tolist()
