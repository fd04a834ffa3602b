"""Counters of touches: the tenant's hours, days and weeks, and never more than the caps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.windows import WindowKind
from stoker.touches.queue import (
    TouchCounters,
    check_touch_limits,
    compute_current_counters,
    get_limits,
    get_window_names,
)
from stoker.touches.settings import PlanRule

RULE = PlanRule()
NOW = datetime(2026, 2, 9, 10, 15, tzinfo=UTC)
ZONES = ["UTC", "Asia/Singapore", "America/New_York", "Pacific/Apia"]


def add_touches(counters, *, amount, now, zone):
    """Return the counters after so many touches were made."""
    current = compute_current_counters(counters, now=now, zone=zone)
    return TouchCounters(
        {kind: replace(each, used=each.used + amount) for kind, each in current.counts.items()}
    )


def after(*amounts_and_moments, zone="UTC"):
    counters = TouchCounters()
    for amount, moment in amounts_and_moments:
        counters = add_touches(counters, amount=amount, now=moment, zone=zone)
    return counters


def test_the_first_full_limit_is_named_with_its_numbers():
    def said(counters, now=NOW):
        return check_touch_limits(counters, rule=RULE, now=now, zone="UTC")

    assert said(TouchCounters()) == (True, "ok")
    assert said(after((5, NOW))) == (False, "hourly_limit (5/5)")
    hours = [(5, NOW + timedelta(hours=n)) for n in range(4)]
    assert said(after(*hours), NOW + timedelta(hours=5)) == (False, "daily_limit (20/20)")
    days = [(20, NOW + timedelta(days=n)) for n in range(4)]
    assert said(after(*days), NOW + timedelta(days=5)) == (False, "weekly_limit (80/80)")


def test_counters_start_anew_on_the_tenants_walls_also_when_nothing_ran_there():
    counters = after((3, datetime(2026, 2, 8, 15, 30, tzinfo=UTC)), zone="Asia/Singapore")
    midnight = datetime(2026, 2, 8, 16, tzinfo=UTC)  # a Monday begins in Singapore

    def used(now):
        current = compute_current_counters(counters, now=now, zone="Asia/Singapore")
        return [current.get_used(kind) for kind in get_limits(RULE)]

    assert used(midnight - timedelta(seconds=1)) == [3, 3, 3]
    assert used(midnight) == [0, 0, 0]
    assert used(midnight + timedelta(days=40)) == [0, 0, 0]


def test_a_clock_that_is_set_back_gives_nothing_back():
    counters = after((20, NOW))
    earlier = NOW - timedelta(days=1)
    assert not check_touch_limits(counters, rule=RULE, now=earlier, zone="UTC")[0]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 400)), max_size=30),
    st.sampled_from(ZONES),
)
def test_every_window_holds_what_was_consumed_in_it_and_nothing_else(steps, zone):
    counters, now, seen = TouchCounters(), NOW, []
    for amount, hours in steps:
        now += timedelta(hours=hours)
        seen.append((amount, get_window_names(now, zone=zone)))
        counters = add_touches(counters, amount=amount, now=now, zone=zone)
        for kind in WindowKind.HOUR, WindowKind.DAY, WindowKind.WEEK:
            here = get_window_names(now, zone=zone)[kind]
            assert counters.get_used(kind) == sum(n for n, names in seen if names[kind] == here)
