"""When a question whose outcome nobody knows may be asked anew, and what questions are known by."""

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.reservations import Hold, Phase
from stoker.budgets.windows import ResetRule, WindowKind, window_at
from stoker.vendors.answers import ASKED_ANEW_AFTER, ask_anew_from, stands_in_the_way

RESETS = st.builds(
    ResetRule,
    zone=st.sampled_from(["UTC", "Asia/Singapore", "America/New_York", "Australia/Lord_Howe"]),
    at=st.builds(time, st.integers(0, 23), st.integers(0, 59)),
)
START = datetime(2000, 1, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(0), timedelta(days=90 * 365)).map(lambda span: START + span)


def promise(at, phase=Phase.UNCERTAIN):
    return Hold(
        key="tavily/0/1",
        connector="tavily",
        fingerprint="",
        amounts={"calls": 1},
        charges=(),
        phase=phase,
        owner="one",
        until=at,
        reserved_at=at,
    )


@given(MOMENTS, RESETS, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_what_may_have_been_paid_for_is_never_asked_again_the_same_day_and_always_two_days_later(
    at, reset, later
):
    now = at + later
    waits = stands_in_the_way(promise(at), now=now, reset=reset)
    assert waits is (now < ask_anew_from(promise(at), reset=reset))
    if now < window_at(WindowKind.DAY, at, reset=reset).end or later < ASKED_ANEW_AFTER:
        assert waits
    if later > timedelta(days=2):
        assert not waits


@given(MOMENTS, RESETS, st.timedeltas(timedelta(0), timedelta(days=900)))
def test_a_clock_that_was_set_back_asks_nothing_early(at, reset, back):
    assert stands_in_the_way(promise(at), now=at - back, reset=reset)


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.UNCERTAIN}))
def test_only_what_nobody_knows_stands_in_the_way(phase):
    at = datetime(2026, 11, 16, tzinfo=UTC)
    assert not stands_in_the_way(promise(at, phase), now=at, reset=ResetRule())
    assert not stands_in_the_way(None, now=at, reset=ResetRule())
