"""Which touches of a plan are meant."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.touching import DAY, HOUR, MONDAY, NOW, plan, profile, touch, url
from stoker.base.errors import PermanentError
from stoker.touches.model import OutcomeMark, ProfileStatus, TouchOutcome
from stoker.touches.queue import (
    MIN_MARKS,
    build_delivery_id,
    compute_success_rate,
    derive_seed,
    filter_active,
    format_week,
    get_latest_touch,
    get_local_day,
    get_monday,
    has_begun,
    list_pending,
    parse_week,
    remove_past_touches,
)


@given(st.dates(date(1990, 1, 1), date(2100, 1, 1)))
def test_every_day_is_in_the_week_that_its_monday_names(day):
    monday = get_monday(day)
    assert monday.isoweekday() == 1
    assert timedelta(0) <= day - monday < 7 * DAY
    assert format_week(day) == format_week(monday)
    assert parse_week(format_week(day)) == monday


@pytest.mark.parametrize("week", ["", "2026", "2026-W", "2026-W54", "2025-W53", "26-W07", "W07"])
def test_a_week_that_does_not_exist_is_refused(week):
    with pytest.raises(PermanentError, match="2026-W07"):
        parse_week(week)


def test_a_day_is_the_tenants_own():
    moment = datetime(2026, 2, 8, 11, 30, tzinfo=UTC)
    assert get_local_day(moment, "Asia/Singapore") == date(2026, 2, 8)
    assert get_local_day(moment, "Pacific/Apia") == date(2026, 2, 9)
    assert get_local_day(moment, "Pacific/Pago_Pago") == date(2026, 2, 8)


def test_weeks_and_tenants_have_seeds_of_their_own_and_always_the_same():
    seeds = {
        derive_seed(tenant, f"2026-W{n:02d}") for tenant in ("acme", "bolt") for n in range(1, 54)
    }
    assert len(seeds) == 106
    assert derive_seed("acme", "2026-W07") == derive_seed("acme", "2026-W07")


def test_a_days_pending_touches_are_in_time_order():
    [slot, *_] = plan((3, 1, 2), (4,)).days
    marked = replace(
        slot, touches=(slot.touches[0], replace(slot.touches[1], outcome=TouchOutcome.DONE))
    )
    assert [t.url for t in list_pending(slot)] == [url(1), url(2), url(3)]
    assert [t.url for t in list_pending(marked)] == [url(3)]


def test_whoever_is_paused_gone_or_unknown_is_left_alone():
    people = [profile(1), *(profile(2 + n, status=s) for n, s in enumerate(ProfileStatus))]
    touches = [touch(number) for number in (9, 5, 4, 3, 2, 1)]
    assert [t.url for t in filter_active(touches, people)] == [url(2), url(1)]
    assert [people[1].status, *(each.status for each in people[2:])] == list(ProfileStatus)


def test_a_week_begun_late_loses_the_days_that_are_over_and_has_not_begun():
    week = plan((1,), (2,), (3,))
    late = remove_past_touches(week, today=MONDAY + 2 * DAY)
    assert [len(slot.touches) for slot in late.days[:3]] == [0, 0, 1]
    assert [slot.budget for slot in late.days] == [slot.budget for slot in week.days]
    assert not has_begun(late)


def test_the_touch_spoken_of_is_the_latest_up_to_today():
    twice = [touch(1), touch(1, day=MONDAY + 2 * DAY)]
    assert get_latest_touch(twice, url(1), today=MONDAY + DAY).day == MONDAY
    assert get_latest_touch(twice, url(1), today=MONDAY + 2 * DAY).day == MONDAY + 2 * DAY
    with pytest.raises(PermanentError, match="2026-02-11"):
        get_latest_touch(twice[1:], url(1), today=MONDAY)
    with pytest.raises(PermanentError, match="touches show"):
        get_latest_touch([], url(9), today=MONDAY)


def test_a_touch_is_handed_over_under_one_id_of_its_own():
    touches = [touch(1), touch(2), touch(1, day=MONDAY + DAY)]
    ids = {build_delivery_id(tenant, each) for tenant in ("acme", "bolt") for each in touches}
    assert len(ids) == 6
    assert build_delivery_id("acme", touch(1)) == build_delivery_id(
        "acme", touch(1, at=NOW + HOUR, score=1.0)
    )


@given(st.lists(st.sampled_from(TouchOutcome), max_size=2 * MIN_MARKS))
def test_the_success_rate_is_measured_once_enough_tell(outcomes):
    marks = [OutcomeMark(url=url(1), day=MONDAY, outcome=each, marked_at=NOW) for each in outcomes]
    rate = compute_success_rate(marks, default=0.8)
    if len(marks) < MIN_MARKS:
        assert rate == 0.8
    else:
        assert rate == outcomes.count(TouchOutcome.DONE) / len(outcomes)
