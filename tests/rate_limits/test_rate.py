from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.clock import CLOCK_TOLERANCE
from stoker.base.errors import ConfigError
from stoker.rate_limits.rate_limit import (
    MAX_DELAY,
    Rate,
    RateDecision,
    check_rate,
    compute_postponed_until,
    postpone_next_at,
)

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
SECOND, TICK = timedelta(seconds=1), timedelta.resolution
shares = st.sampled_from([1.0, 0.9, 0.6, 0.55, 0.29, 0.1, 0.013])


def allowed_calls(rate):
    return max(1, int(rate.calls * Fraction(str(rate.share))))


@st.composite
def rates(draw, shares=shares):
    calls, share = draw(st.integers(1, 60)), draw(shares)
    most = max(1, int(calls * Fraction(str(share))))
    return Rate(
        calls=calls,
        per=draw(st.timedeltas(timedelta(milliseconds=1), timedelta(hours=2))),
        burst=draw(st.integers(1, most)),
        share=share,
    )


def grants(rate, moments, next_at=None):
    """The moments at which one key, asked at each of these, let a call go."""
    went = []
    for now in moments:
        answer = check_rate(rate, next_at, now=now)
        if answer.allowed:
            next_at = answer.next_at
            went.append(now)
    return went


def eager(rate, count, next_at=None, now=NOW):
    """The moments at which a caller goes that always asks again as soon as it may."""
    went = []
    for _ in range(2 * count + 1):  # each wait is followed by a call that goes
        answer = check_rate(rate, next_at, now=now)
        if answer.allowed:
            went.append(now)
            next_at = answer.next_at
        else:
            now = answer.at
    return went[:count]


def remembered(rate, went):
    """What is remembered for a key after calls at these moments."""
    next_at = None
    for at in went:
        next_at = check_rate(rate, next_at, now=at).next_at
    return next_at


def most_in_any_stretch(moments, per):
    moments = sorted(moments)
    return max((sum(at <= other < at + per for other in moments) for at in moments), default=0)


@given(rates(), st.lists(st.floats(-0.5, 1.5), max_size=60))
def test_in_no_stretch_go_more_calls_than_allowed_when_clocks_are_an_hour_apart(rate, gaps):
    moments, now = [NOW], NOW
    for gap in gaps:
        now = max(now + rate.per * gap / 4, max(moments) - MAX_DELAY)
        moments += [now] * 3

    assert most_in_any_stretch(grants(rate, moments), rate.per) <= allowed_calls(rate)


@given(rates(), st.lists(st.integers(0, 70), max_size=4))
def test_in_no_stretch_go_more_calls_than_allowed_when_callers_come_back_after_a_pause(
    rate, pauses
):
    went, next_at, now = [], None, NOW
    for pause in [0, *pauses]:
        went += eager(rate, rate.burst + 3, next_at, now + rate.interval * pause)
        now = went[-1]
        next_at = remembered(rate, went)

    assert most_in_any_stretch(went, rate.per) <= allowed_calls(rate)


@given(rates())
def test_a_burst_goes_at_once_and_not_one_call_more(rate):
    went = eager(rate, rate.burst + 1)

    assert went[: rate.burst] == [NOW] * rate.burst
    assert went[rate.burst] == NOW + rate.interval


@given(rates())
def test_after_a_burst_calls_go_at_the_steady_pace(rate):
    after = eager(rate, rate.burst + 4)[rate.burst :]

    assert [at - NOW for at in after] == [rate.interval * step for step in range(1, 5)]


@given(rates())
def test_the_steady_pace_is_the_fastest_that_keeps_the_promise(rate):
    """One microsecond faster, and some stretch would have a call too many."""
    if rate.calls * Fraction(str(rate.share)) < 1:
        return
    spare = allowed_calls(rate) - rate.burst + 1

    assert rate.interval * spare >= rate.per
    assert (rate.interval - TICK) * spare < rate.per


@given(st.integers(1, 300), st.timedeltas(timedelta(milliseconds=100), timedelta(hours=1)))
def test_an_eager_caller_uses_at_least_95_percent_of_a_rate_without_burst(calls, per):
    rate = Rate(calls=calls, per=per)

    used = sum(at < NOW + per for at in eager(rate, calls + 1))

    assert 0.95 * calls <= used <= calls


def test_a_share_of_a_rate_is_that_part_of_its_calls():
    assert Rate(calls=10, per=SECOND, share=0.6).interval == timedelta(microseconds=166667)
    assert Rate(calls=100, per=SECOND, share=0.29).interval == timedelta(microseconds=34483)
    assert Rate(calls=10, per=SECOND, share=0.55).interval == SECOND / 5


def test_a_share_of_less_than_one_call_is_one_call_in_a_longer_time():
    assert Rate(calls=1, per=SECOND, share=0.5).interval == 2 * SECOND
    assert Rate(calls=2, per=SECOND, share=0.1).interval == 5 * SECOND


def test_a_larger_burst_is_paid_for_with_a_slower_pace():
    paces = [Rate(calls=10, per=SECOND, burst=burst).interval for burst in (1, 6, 10)]

    assert paces == [SECOND / 10, SECOND / 5, SECOND]
    assert Rate(calls=10, per=SECOND, burst=6).slack == SECOND
    assert Rate(calls=10, per=SECOND).slack == timedelta(0)


@given(rates(), st.timedeltas(timedelta(0), MAX_DELAY))
def test_a_refusal_says_when_and_the_very_moment_before_is_too_early(rate, waited):
    next_at = NOW + waited
    answer = check_rate(rate, next_at, now=NOW)

    if answer.allowed:
        assert answer.at == NOW
        assert waited <= rate.slack
    else:
        assert answer.at > NOW
        assert check_rate(rate, next_at, now=answer.at).allowed
        assert not check_rate(rate, next_at, now=answer.at - TICK).allowed


def test_asking_uses_nothing_up_and_a_refusal_leaves_what_was_remembered():
    rate = Rate(calls=1, per=SECOND)
    first = check_rate(rate, None, now=NOW)

    assert first == check_rate(rate, None, now=NOW) == RateDecision(True, NOW, NOW + SECOND)
    assert check_rate(rate, first.next_at, now=NOW) == RateDecision(
        False, NOW + SECOND, NOW + SECOND
    )


def farthest(rate):
    """The latest moment that a burst, the longest push back and an honest clock can leave."""
    return NOW + MAX_DELAY + rate.interval + rate.slack + CLOCK_TOLERANCE


@given(rates())
def test_the_longest_push_back_is_waited_for_whatever_honest_clock_told_it(rate):
    until = NOW + MAX_DELAY
    for ahead in (timedelta(0), CLOCK_TOLERANCE):
        told = postpone_next_at(None, until=compute_postponed_until(rate, until=until + ahead))

        assert not check_rate(rate, told, now=NOW).allowed
        assert not check_rate(rate, told, now=until - TICK).allowed
        assert check_rate(rate, told, now=NOW).next_at == told


@given(rates(), st.timedeltas(TICK, timedelta(days=900)))
def test_a_clock_that_was_far_ahead_makes_nobody_wait_for_it(rate, beyond):
    answer = check_rate(rate, farthest(rate) + beyond, now=NOW)

    assert answer == RateDecision(False, NOW + rate.interval, NOW + rate.interval + rate.slack)
    # As if the burst had gone just now, so what really went is not exceeded either.
    assert eager(rate, 2, next_at=answer.next_at) == [NOW + rate.interval, NOW + 2 * rate.interval]


@given(rates())
def test_the_farthest_moment_that_is_believed_is_believed_to_the_tick(rate):
    assert check_rate(rate, farthest(rate), now=NOW).next_at == farthest(rate)
    assert check_rate(rate, farthest(rate) + TICK, now=NOW).next_at < farthest(rate)


@given(rates(), st.timedeltas(timedelta(0), timedelta(days=9)))
def test_no_wait_is_longer_than_the_longest_push_back_and_a_call(rate, ahead):
    answer = check_rate(rate, NOW + ahead, now=NOW)

    assert answer.at - NOW <= MAX_DELAY + rate.interval + CLOCK_TOLERANCE


def test_a_vendor_is_left_alone_for_an_hour_at_most():
    assert timedelta(hours=1) == MAX_DELAY


def test_idle_time_is_not_saved_up_beyond_the_burst():
    rate = Rate(calls=10, per=SECOND, burst=2)
    long_ago = NOW - timedelta(days=1)

    assert eager(rate, 3, next_at=long_ago) == [NOW, NOW, NOW + rate.interval]


@given(
    st.none() | st.integers(-100, 100).map(lambda n: NOW + n * SECOND),
    st.integers(-100, 100).map(lambda n: NOW + n * SECOND),
)
def test_being_asked_to_wait_only_ever_slows_us_down(next_at, until):
    after = postpone_next_at(next_at, until=until)

    assert after >= until
    assert next_at is None or after >= next_at
    assert after in (next_at, until)


@given(rates(), st.none() | st.integers(-9, 9).map(lambda n: NOW + n * SECOND), st.integers(1, 90))
def test_nothing_goes_before_the_moment_a_vendor_named_and_one_call_goes_at_it(
    rate, next_at, seconds
):
    until = NOW + seconds * SECOND
    after = postpone_next_at(next_at, until=compute_postponed_until(rate, until=until))

    assert not check_rate(rate, after, now=until - TICK).allowed
    if next_at is None:
        assert eager(rate, 2, next_at=after) == [until, until + rate.interval]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"calls": 0}, "at least one call in some time"),
        ({"calls": -1}, "at least one call in some time"),
        ({"per": timedelta(0)}, "at least one call in some time"),
        ({"per": -SECOND}, "at least one call in some time"),
        ({"share": 0.0}, "a share of a rate is above 0 and at most 1, not 0"),
        ({"share": -0.1}, "a share of a rate"),
        ({"share": 1.01}, "a share of a rate"),
        ({"share": float("nan")}, "a share of a rate"),
        ({"burst": 0}, "a burst is 1 to 10 calls, not 0"),
        ({"burst": 11}, "a burst is 1 to 10 calls, not 11"),
        ({"burst": 6, "share": 0.5}, "a burst is 1 to 5 calls, not 6"),
        ({"burst": 2, "share": 0.01}, "a burst is 1 to 1 calls, not 2"),
        ({"share": 1e-13}, "100 years to recover; use a smaller burst or a larger share"),
        (
            {"calls": 36_501, "burst": 36_501, "per": timedelta(days=1)},
            "100 years to recover; use a smaller burst",
        ),
        (
            {"calls": 10**6, "burst": 10**6, "per": timedelta(days=1)},
            "100 years to recover; use a smaller burst",
        ),
    ],
)
def test_a_rate_that_makes_no_sense_is_refused(said, problem):
    with pytest.raises(ConfigError, match=problem):
        Rate(**{"calls": 10, "per": timedelta(hours=1), **said})


@pytest.mark.parametrize(
    "said",
    [
        {"calls": 1, "per": TICK},
        {"calls": 10, "per": SECOND, "burst": 10},
        {"calls": 10, "per": SECOND, "burst": 5, "share": 0.5},
        {"calls": 36_500, "per": timedelta(days=1), "burst": 36_500},
    ],
)
def test_the_largest_and_smallest_that_make_sense_are_allowed(said):
    assert check_rate(Rate(**said), None, now=NOW).allowed


def test_rates_of_the_same_words_are_equal():
    assert Rate(calls=2, per=SECOND) == Rate(calls=2, per=SECOND, burst=1, share=1.0)
    assert repr(Rate(calls=2, per=SECOND)) == (
        "Rate(calls=2, per=datetime.timedelta(seconds=1), burst=1, share=1.0)"
    )
