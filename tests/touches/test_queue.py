"""Weeks, seeds and delivery ids of touches, and what an outcome changes."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.touching import DAY, HOUR, MONDAY, NOW, touch, url
from stoker.base.errors import PermanentError
from stoker.touches.model import OutcomeMark, TouchOutcome
from stoker.touches.queue import (
    MIN_MARKS,
    build_delivery_id,
    compute_success_rate,
    derive_seed,
    format_week,
    get_local_day,
    get_monday,
    parse_outcome,
    parse_week,
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


@pytest.mark.parametrize("text", ["done", " Done ", "NO_POSTS", "already_reacted"])
def test_an_outcome_is_known_by_its_name(text):
    assert parse_outcome(text).value == text.strip().lower()


@pytest.mark.parametrize("text", ["", "pending", "finished", "x" * 1000, "done\n now"])
def test_another_word_is_refused_with_those_there_are(text):
    with pytest.raises(PermanentError, match="done, skipped, failed") as caught:
        parse_outcome(text)
    assert len(str(caught.value)) < 200
