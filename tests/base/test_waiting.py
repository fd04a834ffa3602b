from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.retry import MAX_WAIT, compute_backoff, is_worth_reporting, parse_retry_after

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
DATE = format_datetime(NOW, usegmt=True)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("asked", "wait"),
    [
        ("1", SECOND),
        (" 30 ", 30 * SECOND),
        ("1.5", 1.5 * SECOND),
        ("3600", MAX_WAIT),
        ("3601", MAX_WAIT),
        ("1000000000", MAX_WAIT),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("", None),
        ("soon", None),
        ("１", None),
        ("1, 2", None),
        ("9" * 400, None),
        (format_datetime(NOW + 90 * SECOND, usegmt=True), 90 * SECOND),
        (format_datetime(NOW - 90 * SECOND, usegmt=True), None),
        (format_datetime(NOW + timedelta(days=400), usegmt=True), MAX_WAIT),
        ("Mon, 16 Nov 2026 03:00:30 +0100", 30 * SECOND),
        ("Mon, 16 Nov 2026 03:02:30 +0100", 150 * SECOND),
        ("Monday, 16-Nov-26 02:00:30 GMT", 30 * SECOND),
        ("Mon, 99 Nov 2026 02:00:30 GMT", None),
        ("Mon, 16 Nov 99999 02:00:30 GMT", None),
        ("2026-11-16T02:00:30Z", None),
    ],
)
def test_what_a_server_asks_for_is_heeded_within_an_hour(asked, wait):
    assert parse_retry_after({"retry-after": asked, "date": DATE}) == wait


def test_milliseconds_go_before_seconds():
    assert parse_retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25 * SECOND


def test_a_date_says_nothing_without_the_servers_own():
    later = format_datetime(NOW + 90 * SECOND, usegmt=True)
    assert parse_retry_after({"retry-after": later}) is None
    assert parse_retry_after({"retry-after": later, "date": "never"}) is None
    assert parse_retry_after({}) is None


texts = (
    st.text()
    | st.text("0123456789.-+eE,: GMTNovMon")
    | st.datetimes().map(lambda moment: format_datetime(moment.replace(tzinfo=UTC), usegmt=True))
)


@given(texts, texts, texts)
def test_a_wait_is_always_bounded_and_never_nothing(seconds, millis, date):
    headers = {"retry-after": seconds, "retry-after-ms": millis, "date": date}
    wait = parse_retry_after(headers)
    assert wait is None or timedelta(0) < wait <= MAX_WAIT


@given(st.integers(-5, 10_000), st.floats(0, 1))
def test_backing_off_is_anything_up_to_a_longest_that_doubles(attempt, chance):
    wait = compute_backoff(attempt, chance=chance)
    assert timedelta(0) <= wait <= timedelta(minutes=1)
    assert wait <= SECOND * 2 ** min(max(attempt - 1, 0), 20)


def test_backing_off_doubles_and_keeps_to_its_most():
    assert [compute_backoff(attempt, chance=1.0) for attempt in range(1, 9)] == [
        each * SECOND for each in (1, 2, 4, 8, 16, 32, 60, 60)
    ]
    assert compute_backoff(3, chance=0.5) == 2 * SECOND
    assert compute_backoff(99, chance=1.0, first=timedelta(milliseconds=5), most=SECOND) == SECOND


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wait", "told", "news"),
    [
        (600, None, True),
        (5, None, False),  # a few seconds are nobody's business
        (600, 599, False),  # others had asked before the first one was answered
        (600, 630, False),
        (600, 0, True),  # the time it had asked for is over, and it asks for more
        (600, -30, True),
        (600, 60, True),  # it thought again, and wants us gone for much longer
    ],
)
def test_people_hear_once_of_each_wish_to_be_left_alone(wait, told, news):
    known = None if told is None else NOON + timedelta(seconds=told)
    assert is_worth_reporting(NOON + timedelta(seconds=wait), now=NOON, reported=known) is news
