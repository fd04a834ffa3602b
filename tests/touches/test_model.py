"""Rules that contradict themselves are refused in a sentence that says what to change."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import pytest

from stoker.base.errors import ConfigError
from stoker.touches.model import (
    OFFICE_RATES,
    DaySlot,
    PlanRule,
    Rate,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)

DAY = date(2026, 2, 9)
TOUCH = Touch(
    url="https://a.test",
    name="A",
    day=DAY,
    at=datetime(2026, 2, 9, 9, tzinfo=UTC),
    score=1.0,
    days_since=3,
    forced=False,
    probability=0.5,
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weekly_budget": 34}, "7 days of at least 5 touches are more than 34 a week"),
        ({"weekly_cap": 20}, "more than 20 a week"),
        ({"daily_min": 21}, "does not fit under a daily maximum of 20"),
        ({"daily_cap": 4}, "does not fit under a daily maximum of 4"),
        ({"hourly_cap": 0}, "hourly cap below 1"),
        ({"force_limit": -1}, "below 0"),
        ({"weekdays": ()}, "weekdays"),
        ({"weekdays": (0, 1)}, "weekdays"),
        ({"pool_factor": 0.5}, "selection pool"),
        ({"burst_chance": 1.5}, "burst day"),
        ({"burst_least": 6}, "burst day"),
        ({"gap": timedelta(seconds=-1)}, "not negative"),
        ({"window": timedelta(hours=3)}, "at least a day"),
        ({"jitter": timedelta(days=1)}, "shorter than a day"),
        ({"opens": time(18), "closes": time(9)}, "from 18:00 to 09:00 are empty"),
        ({"rates": (Rate(time(9), time(18), 0.0),)}, "one of them is above 0"),
        ({"rates": (Rate(time(9), time(18), float("nan")),)}, "rates by hour"),
        ({"daily_std": float("inf")}, "numbers from 0 up"),
        ({"daily_mean": float("nan")}, "mean of daily budgets"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_with_what_to_change(change, said):
    with pytest.raises(ConfigError, match=said):
        replace(PlanRule(), **change)


def test_the_numbers_are_those_we_promise():
    rule = PlanRule()
    assert (rule.target, rule.max_per_day, rule.daily_min, rule.hourly_cap) == (80, 20, 5, 5)
    assert (rule.force_after.days, rule.force_limit, rule.window.days) == (12, 5, 14)
    assert (rule.gap, rule.jitter) == (timedelta(minutes=3), timedelta(minutes=5))
    assert sum((r.ends.hour - r.begins.hour) * r.rate for r in OFFICE_RATES) == pytest.approx(8.2)


def test_midnight_as_an_end_is_the_days_end():
    assert replace(PlanRule(), opens=time(0), closes=time(0)).closes == time(0)


def test_a_rule_can_be_kept_as_a_key():
    assert hash(PlanRule()) == hash(PlanRule())


def test_only_a_touch_that_was_made_counts():
    assert [outcome for outcome in TouchOutcome if outcome.is_counted] == [TouchOutcome.DONE]


def test_a_touch_is_pending_until_it_has_an_outcome():
    assert TOUCH.status == "pending"
    assert replace(TOUCH, outcome=TouchOutcome.NO_POSTS).status == "no_posts"


def test_a_slot_counts_what_was_made_and_a_week_has_a_name():
    done, failed = (replace(TOUCH, outcome=o) for o in (TouchOutcome.DONE, TouchOutcome.FAILED))
    slot = DaySlot(day=DAY, budget=5, touches=(TOUCH, done, failed))
    plan = WeeklyPlan(
        iso_year=2026,
        iso_week=7,
        monday=DAY,
        total=5,
        days=(slot,),
        seed=1,
        zone="UTC",
        created_at=TOUCH.at,
    )
    assert slot.completed == 1
    assert plan.week == "2026-W07"
    assert plan.slot(DAY) is slot
    assert plan.slot(date(2026, 2, 16)) is None
