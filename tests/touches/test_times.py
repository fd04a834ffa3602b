"""Times of a day: open, apart, under the hourly cap, across every change of clocks."""

from collections import Counter
from dataclasses import replace
from datetime import date, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.touches.planning.random import Purpose, RandomStream
from stoker.touches.planning.times import (
    TimeSpan,
    add_jitter,
    count_fitting,
    cut_spans,
    draw_day_times,
    draw_thinned,
    from_ticks,
    get_gap,
    get_grain,
    list_open_spans,
)
from stoker.touches.settings import PlanRule

RULE = PlanRule()
DAY = date(2026, 2, 9)
NIGHTLY = replace(RULE, opens=time(0, 30), closes=time(4), rates="0-24 1")
ZONES = ["UTC", "Asia/Singapore", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]
ODD_DAYS = [  # clocks set forward, set back, by half an hour, a day that was not
    ("America/New_York", date(2026, 3, 8)),
    ("America/New_York", date(2026, 11, 1)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("Europe/Lisbon", date(2026, 10, 25)),
    ("Pacific/Apia", date(2011, 12, 29)),
    ("Pacific/Apia", date(2011, 12, 31)),
]


def times(number, *, day=DAY, rule=RULE, zone="UTC", seed=1, **more):
    stretches = list_open_spans(day, rule=rule, zone=zone)
    found = draw_day_times(
        number, stretches, rule=rule, chance=RandomStream(seed, Purpose.TIMES), **more
    )
    return [from_ticks(at) for at in found.tolist()]


def wrong(found, rule, zone, day):
    walls = [at.astimezone(ZoneInfo(zone)) for at in found]
    closes = rule.closes if rule.closes != time(0) else time.max
    yield from (w for w in walls if w.date() != day or not rule.opens <= w.time() < closes)
    yield from (pair for pair in pairwise(found) if pair[1] - pair[0] < rule.gap)
    hours = Counter((w.hour, w.utcoffset()) for w in walls)
    yield from (hour for hour, number in hours.items() if number > rule.hourly_cap)


@settings(max_examples=150)
@given(
    st.integers(0, 60),
    st.sampled_from(ZONES),
    st.dates(date(1990, 1, 1), date(2037, 12, 31)),
    st.integers(0, 10**9),
    st.integers(0, 3600),
    st.integers(1, 12),
)
def test_times_are_open_apart_and_under_the_cap(number, zone, day, seed, gap, cap):
    rule = replace(RULE, gap=timedelta(seconds=gap), hourly_cap=cap)
    found = times(number, day=day, rule=rule, zone=zone, seed=seed)
    assert list(wrong(found, rule, zone, day)) == []
    assert found == sorted(found)


@pytest.mark.parametrize(("zone", "day"), ODD_DAYS)
@pytest.mark.parametrize("number", [1, 7, 40])
def test_days_on_which_clocks_are_set_keep_every_promise(zone, day, number):
    for seed in range(10):
        found = times(number, day=day, rule=NIGHTLY, zone=zone, seed=seed)
        assert found
        assert list(wrong(found, NIGHTLY, zone, day)) == []


def length(day, zone, rule=NIGHTLY):
    return timedelta(
        microseconds=sum(s.end - s.start for s in list_open_spans(day, rule=rule, zone=zone))
    )


def test_an_open_night_is_as_long_as_clocks_make_it():
    usual = timedelta(hours=3, minutes=30)
    assert length(date(2026, 3, 7), "America/New_York") == usual
    assert length(date(2026, 3, 8), "America/New_York") == usual - timedelta(hours=1)
    assert length(date(2026, 11, 1), "America/New_York") == usual + timedelta(hours=1)
    assert length(date(2026, 4, 5), "Australia/Lord_Howe") == usual + timedelta(minutes=30)


def test_a_day_that_no_calendar_has_is_never_open():
    assert list_open_spans(date(2011, 12, 30), rule=RULE, zone="Pacific/Apia") == ()
    assert times(5, day=date(2011, 12, 30), zone="Pacific/Apia") == []


def test_a_weekday_that_is_off_is_never_open():
    assert times(5, day=DAY, rule=replace(RULE, weekdays=(2, 3))) == []


@given(st.integers(1, 400), st.integers(1, 200), st.integers(1, 60))
def test_as_many_as_fit_are_planned_and_one_more_would_not(minutes, gap, cap):
    closes = (90 + minutes) // 60 % 24, (90 + minutes) % 60
    rule = replace(
        RULE,
        opens=time(1, 30),
        closes=time(*closes),
        rates="0-24 1",
        gap=timedelta(minutes=gap),
        hourly_cap=cap,
    )
    found = times(1000, rule=rule)
    stretches = list_open_spans(DAY, rule=rule, zone="UTC")
    fitting = count_fitting(stretches, gap=get_gap(rule), cap=cap, taken={}, grain=get_grain(rule))
    assert len(found) == fitting
    assert list(wrong(found, rule, "UTC", DAY)) == []
    # Counted by hand: minute after minute, taking every one that may be taken.
    taken, last = Counter(), -(10**6)
    for at in range(90, 90 + minutes):
        if at - last >= gap and taken[at // 60] < cap:
            taken[at // 60] += 1
            last = at
    assert fitting == taken.total()


@given(st.lists(st.integers(0, 539), max_size=6), st.integers(0, 539), st.integers(0, 30))
def test_new_times_keep_away_from_those_that_stand_and_from_the_past(standing, now, number):
    opens = list_open_spans(DAY, rule=RULE, zone="UTC")
    first, minute = opens[0].start, 60_000_000
    kept = sorted({first + at * minute for at in standing})
    kept = [at for n, at in enumerate(kept) if not n or at - kept[n - 1] >= get_gap(RULE)]
    begins = first + now * minute
    left = cut_spans(opens, not_before=begins, fixed=kept, gap=get_gap(RULE), grain=get_grain(RULE))
    taken = Counter(next(s.hour for s in opens if s.start <= at < s.end) for at in kept)
    found = draw_day_times(
        number, left, rule=RULE, chance=RandomStream(3, Purpose.TIMES), taken=taken
    )
    assert (found >= begins).all()
    both = sorted([*found.tolist(), *kept])
    assert all(b - a >= get_gap(RULE) for a, b in pairwise(both))
    hours = Counter(at // (60 * minute) for at in both)
    assert all(
        count <= max(5, sum(at // (60 * minute) == hour for at in kept))
        for hour, count in hours.items()
    )


def test_jitter_moves_no_moment_further_than_it_may_and_none_out_of_the_day():
    stretches = list_open_spans(DAY, rule=RULE, zone="UTC")
    at = draw_thinned(5000, stretches, chance=RandomStream(1, Purpose.TIMES))
    moved = add_jitter(at, stretches, RULE, chance=RandomStream(2, Purpose.TIMES))
    assert np.abs(moved - at).max() <= 300 * 1_000_000
    assert moved.min() >= stretches[0].start
    assert moved.max() < stretches[-1].end
    assert np.abs(moved - at).max() > 290 * 1_000_000


def test_hours_that_are_nearly_all_closed_are_still_found():
    closed, minute = 9 * 3600 * 10**6, 60 * 10**6
    spans = [TimeSpan(0, closed, 1e-9, 0), TimeSpan(closed, closed + minute, 1.0, 1)]
    found = draw_thinned(5, spans, chance=RandomStream(1, Purpose.TIMES))
    assert len(found) == 5
    assert found.min() >= closed


def test_an_hour_nothing_is_said_about_is_like_any_other_and_a_rate_of_nothing_closes_it():
    early = replace(RULE, opens=time(8))
    assert list_open_spans(DAY, rule=early, zone="UTC")[0].rate == 1.0
    closed = replace(RULE, rates="9-12 0, 12-18 1")
    assert from_ticks(list_open_spans(DAY, rule=closed, zone="UTC")[0].start).hour == 12


def clamping(at, stretches, gap):
    """Move moments apart from the front only, and stop at the end of the day."""
    last = stretches[-1].end - 1_000_000
    found, free = [], 0
    for each in sorted(at.tolist()):
        found.append(min(max(each, free), last))
        free = found[-1] + gap
    return found


def test_gaps_hold_at_the_end_of_the_day_and_moving_from_the_front_only_is_caught():
    tight = replace(RULE, rates="9-17 0.01, 17-18 9")
    tight = replace(tight, hourly_cap=100)
    stretches = list_open_spans(DAY, rule=tight, zone="UTC")
    naive = 0
    for seed in range(20):
        found = times(20, rule=tight, seed=seed)
        assert list(wrong(found, tight, "UTC", DAY)) == []
        raw = draw_thinned(20, stretches, chance=RandomStream(seed, Purpose.TIMES))
        pairs = pairwise(clamping(raw, stretches, get_gap(tight)))
        naive += sum(b - a < get_gap(tight) for a, b in pairs)
    assert naive > 0


def test_an_hour_shown_twice_is_two_hours_and_one_that_is_longer_is_one():
    def hours(zone, day):
        return len({s.hour for s in list_open_spans(day, rule=NIGHTLY, zone=zone)})

    assert hours("America/New_York", date(2026, 11, 1)) == 5
    assert hours("America/New_York", date(2026, 3, 8)) == 3
    assert hours("Australia/Lord_Howe", date(2026, 4, 5)) == 4


def test_times_stay_where_they_were_drawn_as_long_as_they_can():
    free = [times(4, seed=seed) for seed in range(40)]
    beside = [times(4, seed=seed, taken={9: 1}) for seed in range(40)]
    assert sum(a == b for a, b in zip(free, beside, strict=True)) > 35
