"""Weeks of touches by the hundred: what is promised of every one of them. `make proof` has more."""

from datetime import timedelta

from stoker.touches.settings import PlanRule
from touch_promises import lived_weeks, p_values, planned_weeks, unevenness


def test_no_planned_week_breaks_a_promise(record_property):
    found = planned_weeks(100)
    record_property("fault", f"weeks planned: n=100, broken promises {found.total()}")
    assert not +found


def test_no_week_that_is_lived_through_and_repaired_daily_breaks_a_promise(record_property):
    found = lived_weeks(20)
    record_property("fault", f"weeks lived through: n=20, broken promises {found.total()}")
    assert not +found


def test_who_keeps_no_gap_or_forgets_what_was_done_is_caught():
    assert planned_weeks(5, planner=PlanRule(gap=timedelta(0)))["gap"] > 0
    assert lived_weeks(5, forgetful=True)["consecutive"] > 0


def test_times_are_as_likely_by_the_table_of_rates_as_chance_has_it():
    """Not one p-value that passes: all of them spread evenly, as they must if nothing is biased."""
    assert unevenness(p_values(40, days=60)) < 1.95


def test_times_that_lean_to_the_morning_are_caught():
    leaning = [0.9, *(1.3,) * 2, 0.8, *(1.2,) * 2, *(0.7,) * 2, 0.2]
    assert unevenness(p_values(40, days=60, rates=leaning)) > 1.95
