"""When a question whose outcome nobody knows may be asked anew, and what questions are known by."""

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.vendors.answer_cache import MIN_RETRY_DELAY, compute_retry_at, is_blocked_by

RESETS = st.builds(
    ResetRule,
    zone=st.sampled_from(["UTC", "Asia/Singapore", "America/New_York", "Australia/Lord_Howe"]),
    at=st.builds(time, st.integers(0, 23), st.integers(0, 59)),
)
START = datetime(2000, 1, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(0), timedelta(days=90 * 365)).map(lambda span: START + span)


def promise(at, phase=ReservationStatus.UNCERTAIN):
    return Reservation(
        key="tavily/0/1",
        connector="tavily",
        fingerprint="",
        amounts={"calls": 1},
        charges=(),
        status=phase,
        owner="one",
        until=at,
        reserved_at=at,
    )


@given(MOMENTS, RESETS, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_what_may_have_been_paid_for_is_never_asked_again_the_same_day_and_always_two_days_later(
    at, reset, later
):
    now = at + later
    waits = is_blocked_by(promise(at), now=now, reset=reset)
    assert waits is (now < compute_retry_at(promise(at), reset=reset))
    if now < compute_window(WindowKind.DAY, at, reset=reset).end or later < MIN_RETRY_DELAY:
        assert waits
    if later > timedelta(days=2):
        assert not waits


@given(MOMENTS, RESETS, st.timedeltas(timedelta(0), timedelta(days=900)))
def test_a_clock_that_was_set_back_asks_nothing_early(at, reset, back):
    assert is_blocked_by(promise(at), now=at - back, reset=reset)


@pytest.mark.parametrize("phase", sorted(set(ReservationStatus) - {ReservationStatus.UNCERTAIN}))
def test_only_what_nobody_knows_stands_in_the_way(phase):
    at = datetime(2026, 11, 16, tzinfo=UTC)
    assert not is_blocked_by(promise(at, phase), now=at, reset=ResetRule())
    assert not is_blocked_by(None, now=at, reset=ResetRule())
