"""Daily budgets: inside their bounds, adding up, and really truncated."""

from collections import Counter
from dataclasses import replace
from statistics import NormalDist

from hypothesis import given
from hypothesis import strategies as st

from stoker.simulation.touches import compute_chi_square, compute_chi_square_p
from stoker.touches.planning.daily_budgets import (
    DayBounds,
    draw_truncated_normal,
    draw_week_budgets,
)
from stoker.touches.planning.random import Purpose, RandomStream
from stoker.touches.settings import PlanRule

RULE = PlanRule()
USUAL = [DayBounds(5, 20)] * 7


def drawn(seed, bounds=USUAL, rule=RULE):
    return draw_week_budgets(bounds, rule=rule, chance=RandomStream(seed, Purpose.BUDGETS))


@st.composite
def rules(draw):
    least = draw(st.integers(0, 30))
    most = draw(st.integers(least, 60))
    target = draw(st.integers(least * 7, 500))
    return replace(
        RULE,
        daily_min=least,
        daily_max=most,
        daily_cap=draw(st.integers(max(most, 1), 100)),
        weekly_budget=target,
        weekly_cap=target,
        daily_mean=draw(st.floats(0, 200)),
        daily_std=draw(st.floats(0, 50)),
        burst_chance=draw(st.floats(0, 1)),
        light_by=draw(st.integers(0, 20)),
    )


@given(rules(), st.integers(0, 2**70))
def test_days_add_up_to_the_target_whenever_that_is_possible_and_stay_inside(rule, seed):
    bounds = [DayBounds(rule.daily_min, rule.max_per_day)] * 7
    found = drawn(seed, bounds, rule)
    assert sum(found.days) == min(rule.target, 7 * rule.max_per_day)
    assert all(rule.daily_min <= day <= rule.max_per_day for day in found.days)


@given(st.lists(st.integers(0, 20), min_size=7, max_size=7), st.integers(0, 10**6))
def test_a_day_without_room_gets_nothing_and_the_others_make_up_for_it(mosts, seed):
    bounds = [DayBounds(min(5, most), most) for most in mosts]
    found = drawn(seed, bounds)
    assert sum(found.days) == min(80, sum(mosts))
    assert all(
        each.minimum <= day <= each.maximum for day, each in zip(found.days, bounds, strict=True)
    )
    assert found.burst is None or mosts[found.burst]


def clamped(chance, mean, std, bounds):
    return min(max(round(NormalDist(mean, std).inv_cdf(chance)), bounds.minimum), bounds.maximum)


def p_of(sample, bounds):
    normal = NormalDist(12, 4)
    numbers = range(bounds.minimum, bounds.maximum + 1)
    masses = [normal.cdf(n + 0.5) - normal.cdf(n - 0.5) for n in numbers]
    seen = Counter(sample)
    expected = [len(sample) * mass / sum(masses) for mass in masses]
    statistic = compute_chi_square([seen[n] for n in numbers], expected)
    return compute_chi_square_p(statistic, freedom=len(masses) - 1)


def test_the_normal_is_truncated_and_one_that_is_only_clamped_is_caught():
    bounds = DayBounds(9, 16)
    chances = [(nth + 0.5) / 20_000 for nth in range(20_000)]
    assert p_of([draw_truncated_normal(c, 12, 4, bounds) for c in chances], bounds) > 0.99
    assert p_of([clamped(c, 12, 4, bounds) for c in chances], bounds) < 1e-6


def test_a_mean_far_outside_gives_the_nearer_end():
    assert draw_truncated_normal(0.5, 1e9, 1, DayBounds(5, 20)) == 20
    assert draw_truncated_normal(0.5, -1e9, 1, DayBounds(5, 20)) == 5
    assert draw_truncated_normal(0.5, 12.4, 0, DayBounds(5, 20)) == 12


def test_two_weeks_in_three_have_a_burst_of_18_to_20_and_it_is_the_largest_day():
    weeks = [drawn(seed) for seed in range(2000)]
    bursts = [week for week in weeks if week.burst is not None]
    assert abs(len(bursts) / 2000 - (1 - 0.85**7)) < 0.05
    sizes = Counter(week.days[week.burst] for week in bursts)
    assert set(sizes) == {18, 19, 20}
    assert min(sizes.values()) > len(bursts) / 4


@given(rules(), st.integers(0, 2**70))
def test_a_burst_is_the_largest_day_of_any_week_that_has_one(rule, seed):
    bounds = [DayBounds(rule.daily_min, rule.max_per_day)] * 7
    found = drawn(seed, bounds, replace(rule, burst_chance=1.0))
    if found.burst is not None:
        others = [day for place, day in enumerate(found.days) if place != found.burst]
        assert found.days[found.burst] > max(others)
    elif rule.max_per_day > rule.daily_min:  # every day is as small or as large as it may be
        assert max(found.days) - min(found.days) <= 1 or rule.target >= 7 * rule.max_per_day - 6


def test_a_week_without_room_for_a_burst_of_18_has_the_largest_that_fits():
    tight = replace(RULE, weekly_budget=40, weekly_cap=40, burst_chance=1.0)
    assert {max(drawn(seed, rule=tight).days) for seed in range(50)} == {10}
    short = [DayBounds(5, 12)] + [DayBounds(5, 20)] * 6
    found = [drawn(seed, short, replace(RULE, burst_chance=1.0)) for seed in range(50)]
    assert all(week.burst in (0, None) and sum(week.days) == 80 for week in found)
    assert all(week.days[0] > max(week.days[1:]) for week in found if week.burst == 0)
