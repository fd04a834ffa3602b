from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.retry import (
    MAX_WAIT,
    Quota,
    choose_tightest_quota,
    is_scarce,
    parse_duration,
    parse_quota,
)

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
