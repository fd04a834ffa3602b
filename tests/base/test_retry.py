from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.retry import (
    MAX_WAIT,
    Quota,
    choose_tightest_quota,
    compute_backoff,
    is_scarce,
    is_worth_reporting,
    parse_duration,
    parse_quota,
    parse_retry_after,
)

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


# Quotas

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "lasts"),
    [
        ("6ms", timedelta(milliseconds=6)),
        ("1s", timedelta(seconds=1)),
        ("1.5s", timedelta(seconds=1.5)),
        ("1m2s", timedelta(seconds=62)),
        ("2m", timedelta(minutes=2)),
        (" 1h0m0s ", timedelta(hours=1)),
        ("", timedelta(0)),
        ("soon", timedelta(0)),
        ("-5s", timedelta(0)),
        ("nan", timedelta(0)),
        ("1e9s", timedelta(0)),
        ("٣s", timedelta(0)),
        ("5", timedelta(0)),
    ],
)
def test_durations_are_read_as_vendors_write_them(text, lasts):
    assert parse_duration(text) == lasts


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("0", 0),
        ("7", 7),
        (" 299 ", 299),
        ("-1", None),
        ("", None),
        ("nan", None),
        ("1e3", None),
        ("7.5", None),
        ("³", None),
        ("9" * 13, None),
    ],
)
def test_only_a_whole_number_from_nothing_on_says_what_is_left(left, told):
    found = parse_quota(left, lasts=MINUTE)
    assert found == (None if told is None else Quota(left=told, window=MINUTE))


def test_what_is_over_already_says_nothing_and_an_hour_is_the_most():
    assert parse_quota("0", lasts=timedelta(0)) is None
    assert parse_quota("0", lasts=-MINUTE) is None
    assert parse_quota("0", lasts=timedelta(days=1)) == Quota(left=0, window=MAX_WAIT)


@pytest.mark.parametrize(
    ("left", "limit", "little"),
    [("10", "40", False), ("9", "40", True), ("0", "40", True), ("9", "", True), ("9", "x", True)],
)
def test_little_is_left_below_a_quarter_or_when_nobody_says_of_how_much(left, limit, little):
    assert is_scarce(left, limit=limit) is little


def test_the_quota_that_slows_most_is_the_one_that_counts():
    many, few = Quota(left=100, window=MAX_WAIT), Quota(left=0, window=MINUTE)
    assert choose_tightest_quota([many, None, few]) == few
    assert choose_tightest_quota([None]) is None


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_whatever_headers_say_no_wait_is_negative_or_longer_than_an_hour(left, reset, limit):
    is_scarce(left, limit=limit)
    found = parse_quota(left, lasts=parse_duration(reset))
    assert found is None or (found.left >= 0 and timedelta(0) < found.window <= MAX_WAIT)
