"""When a schedule is due, and what becomes of the instants nobody was there for."""

from datetime import UTC, datetime, time, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.calendar.recurrence import (
    MAX_MISSED,
    CatchUp,
    Cron,
    Interval,
    Window,
    compute_due,
    compute_next_run,
    get_latest_occurrence,
    iter_occurrences,
    list_upcoming,
    preview,
    should_run,
)
from stoker.calendar.timezones import Fold, Gap

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
NIGHTLY = Window(time(2, 30))
HOURLY = Cron("0 * * * *", "UTC")


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def texts(moments):
    return [f"{moment:%m-%d %H:%M}" for moment in moments]


# Any schedule, any time: zones that set their clocks in every way there is.

zones = st.sampled_from(
    [
        "UTC",
        "Asia/Singapore",
        "America/New_York",
        "Europe/Dublin",
        "Africa/Casablanca",
        "America/Nuuk",
        "America/St_Johns",
        "Antarctica/Troll",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Asia/Kathmandu",
    ]
)
lines = st.sampled_from(
    [
        "0 1 * * *",
        "30 2 * * *",
        "*/20 * * * *",
        "15 0,1,2,23 * * *",
        "0 0 13 * FRI",
        "30 1 * MAR,NOV SUN",
    ]
)
crons = st.builds(Cron, lines, zones, st.sampled_from(Gap), st.sampled_from(Fold))
windows = st.builds(Window, st.times().map(lambda at: at.replace(second=0, microsecond=0)))
intervals = st.builds(Interval, st.timedeltas(MINUTE, 40 * DAY))
moments = st.timedeltas(timedelta(0), 33 * 365 * DAY).map(lambda later: utc("2007-01-01") + later)
spans = st.timedeltas(timedelta(0), 12 * DAY)


@given(moments, crons | windows | intervals)
def test_the_next_run_is_strictly_after_now(now, schedule):
    assert compute_next_run(now, schedule) > now


@given(moments, spans, crons | windows | intervals)
def test_a_later_now_never_has_an_earlier_next_run(now, later, schedule):
    assert compute_next_run(now, schedule) <= compute_next_run(now + later, schedule)


@given(moments, crons | windows | intervals)
def test_a_preview_is_the_next_run_again_and_again(now, schedule):
    upcoming = preview(now, schedule, 5)

    assert upcoming == [compute_next_run(before, schedule) for before in [now, *upcoming[:-1]]]


@given(moments, crons | windows | intervals)
def test_the_same_inputs_give_the_same_answer_whatever_zone_now_is_written_in(now, schedule):
    elsewhere = now.astimezone(timezone(timedelta(hours=-7)))

    assert compute_next_run(elsewhere, schedule) == compute_next_run(now, schedule)
    assert compute_next_run(elsewhere, schedule).tzinfo is UTC
    assert get_latest_occurrence(elsewhere, schedule) == get_latest_occurrence(now, schedule)


@given(moments, crons | windows)
def test_no_instant_lies_between_the_latest_and_the_next(now, schedule):
    latest, upcoming = get_latest_occurrence(now, schedule), compute_next_run(now, schedule)

    assert latest <= now < upcoming
    assert list(iter_occurrences(schedule, after=latest, until=upcoming)) == [upcoming]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "Pacific/Apia", "UTC"])
@pytest.mark.parametrize("line", ["30 23 * * WED", "0 0 1 * *", "0 12 30 12 *", "0 0 31 12 *"])
def test_looking_back_finds_what_looking_forward_found(line, zone):
    rare = Cron(line, zone)
    found = list(iter_occurrences(rare, after=utc("2009-06-01"), until=utc("2013-06-01")))

    assert len(found) >= 4
    for before, instant in pairwise(found):
        assert get_latest_occurrence(instant, rare) == instant
        assert get_latest_occurrence(instant - timedelta.resolution, rare) == before


@given(moments, spans, crons | windows)
def test_something_should_run_exactly_when_an_instant_has_passed_since_the_last_run(
    last, later, schedule
):
    now = last + later

    passed = list(iter_occurrences(schedule, after=last, until=now))
    assert should_run(now, last, schedule) == bool(passed)


@given(moments, spans, intervals)
def test_an_interval_should_run_exactly_when_it_has_gone_by(last, later, schedule):
    assert should_run(last + later, last, schedule) == (later >= schedule.every)


@given(moments, spans, crons | windows)
def test_instants_come_in_order_and_each_once(after, length, schedule):
    found = list(iter_occurrences(schedule, after=after, until=after + length))

    assert found == sorted(set(found))


@given(moments, spans, spans, crons | windows)
def test_two_spans_put_together_have_the_instants_of_both(after, one, other, schedule):
    middle, end = after + one, after + one + other

    halves = [*iter_occurrences(schedule, after=after, until=middle)]
    halves += iter_occurrences(schedule, after=middle, until=end)
    assert halves == list(iter_occurrences(schedule, after=after, until=end))


@given(moments, spans, crons | windows, st.sampled_from(CatchUp), st.integers(1, 50))
def test_every_instant_since_the_last_is_decided_exactly_once(
    last, later, schedule, catch_up, at_most
):
    now = last + later

    answer = compute_due(now, last, schedule, catch_up=catch_up, at_most=at_most)
    decided = sorted(answer.run + answer.missed)
    assert decided == list(iter_occurrences(schedule, after=last, until=now))
    assert len(decided) == len(set(decided))
    assert list(answer.run) == sorted(answer.run)
    assert list(answer.missed) == sorted(answer.missed)
    assert not answer.missed or not answer.run or answer.missed[-1] < answer.run[0]


@given(moments, spans, intervals, st.sampled_from(CatchUp), st.integers(1, 50))
def test_every_multiple_of_an_interval_is_decided_exactly_once(
    last, later, schedule, catch_up, at_most
):
    answer = compute_due(last + later, last, schedule, catch_up=catch_up, at_most=at_most)

    decided = answer.run + answer.missed
    passed = later // schedule.every
    expected = {last + schedule.every * n for n in range(1, passed + 1)}
    newest = set(
        answer.run[-1:]
    )  # answers for the moment it starts, in place of the latest multiple
    assert set(decided) - newest <= expected
    assert all(last + passed * schedule.every <= at <= last + later for at in newest)
    assert len(set(decided)) == len(decided) >= min(passed, MAX_MISSED)


@given(moments, crons | windows | intervals, st.sampled_from(CatchUp))
def test_what_was_decided_is_not_due_again(now, schedule, catch_up):
    first = compute_due(now, None, schedule, catch_up=catch_up)

    again = compute_due(now, first.run[-1], schedule, catch_up=catch_up)
    assert (again.run, again.missed) == ((), ())


@given(moments, st.timedeltas(timedelta(microseconds=1), 400 * DAY), crons | windows | intervals)
def test_nothing_is_due_while_the_clock_is_behind_the_last_decision(now, behind, schedule):
    answer = compute_due(now, now + behind, schedule)

    assert (answer.run, answer.missed) == ((), ())
    assert not should_run(now, now + behind, schedule)


@given(moments, crons | windows | intervals)
def test_a_schedule_that_never_ran_should_run_now(now, schedule):
    assert should_run(now, None, schedule)
    assert compute_due(now, None, schedule).run == (get_latest_occurrence(now, schedule),)


# Intervals and windows


def test_an_interval_is_due_again_one_interval_from_now():
    assert compute_next_run(NOON, Interval(90 * MINUTE)) == NOON + 90 * MINUTE


@pytest.mark.parametrize("millis", [0, 3, 999])
def test_two_schedulers_that_begin_in_the_same_second_name_the_same_instant(millis):
    answer = compute_due(NOON + timedelta(milliseconds=millis), None, Interval(HOUR))

    assert answer.run == (NOON,)


def test_an_interval_counts_on_from_the_run_that_came_late():
    answer = compute_due(NOON + 3 * HOUR + 7 * MINUTE, NOON, Interval(HOUR))

    assert texts(answer.run) == ["03-04 15:07"]
    assert texts(answer.missed) == ["03-04 13:00", "03-04 14:00"]
    assert not should_run(NOON + 4 * HOUR, answer.run[-1], Interval(HOUR))


def test_an_interval_that_is_not_caught_up_lets_its_multiples_go():
    answer = compute_due(NOON + 3 * HOUR + 7 * MINUTE, NOON, Interval(HOUR), catch_up=CatchUp.NONE)

    assert answer.run == ()
    assert texts(answer.missed) == ["03-04 13:00", "03-04 14:00", "03-04 15:00"]


def test_what_is_coming_is_counted_from_the_last_run():
    assert list_upcoming(NOON, Interval(HOUR), 2, last=NOON - 20 * MINUTE) == [
        NOON + 40 * MINUTE,
        NOON + 100 * MINUTE,
    ]
    assert list_upcoming(NOON, Interval(HOUR), 1, last=NOON - 3 * HOUR) == [NOON]
    assert list_upcoming(NOON, Interval(HOUR), 1, last=None) == [NOON]
    assert list_upcoming(NOON, NIGHTLY, 3, last=None) == preview(NOON, NIGHTLY, 3)


def test_a_missed_window_is_caught_up_once():
    ran_at = utc("2026-03-01T02:31")

    assert should_run(NOON, ran_at, NIGHTLY)
    assert not should_run(NOON, utc("2026-03-04T02:30"), NIGHTLY)
    answer = compute_due(NOON, utc("2026-03-01T02:30"), NIGHTLY)
    assert texts(answer.run) == ["03-04 02:30"]
    assert texts(answer.missed) == ["03-02 02:30", "03-03 02:30"]


def test_a_window_is_due_at_its_very_minute_and_not_before():
    assert not should_run(utc("2026-03-04T02:29:59"), utc("2026-03-03T02:30"), NIGHTLY)
    assert should_run(utc("2026-03-04T02:30"), utc("2026-03-03T02:30"), NIGHTLY)


def test_the_default_cron_is_one_in_the_morning_in_singapore():
    assert texts(preview(NOON, Cron(), 2)) == ["03-04 17:00", "03-05 17:00"]


# Gaps and folds


NEW_YORK, APIA, LORD_HOWE = "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("schedule", "first", "days", "expected"),
    [
        # A time that is jumped over runs at the first moment after the gap, or not at all.
        (Cron("30 2 * * *", NEW_YORK), "2026-03-07", 3, "07T07:30 08T07:00 09T06:30"),
        (Cron("30 2 * * *", NEW_YORK, gap=Gap.SKIP), "2026-03-07", 3, "07T07:30 09T06:30"),
        # All that a gap swallows runs once, together with what runs there anyway.
        (Cron("*/15 2,3 * * *", NEW_YORK), "2026-03-08", 1, "08T07:00 08T07:15 08T07:30 08T07:45"),
        # A time that comes twice runs as often as the schedule wants.
        (Cron("30 1 * * *", NEW_YORK), "2026-11-01", 1, "01T05:30"),
        (Cron("30 1 * * *", NEW_YORK, fold=Fold.LAST), "2026-11-01", 1, "01T06:30"),
        (Cron("30 1 * * *", NEW_YORK, fold=Fold.BOTH), "2026-11-01", 1, "01T05:30 01T06:30"),
        # Half an hour is jumped and repeated.
        (Cron("15 2 * * *", LORD_HOWE, fold=Fold.BOTH), "2026-10-03", 1, "03T15:30"),
        (Cron("45 1 * * *", LORD_HOWE, fold=Fold.BOTH), "2026-04-04", 1, "04T14:45 04T15:15"),
        # A whole day was left out: there was no 30 December 2011.
        (Cron("0 */6 * * *", APIA), "2011-12-30", 1, "30T04:00 30T10:00 30T16:00 30T22:00"),
        (Cron("0 12 * * *", APIA), "2011-12-29", 3, "29T22:00 30T10:00 30T22:00 31T22:00"),
        (Cron("0 12 * * *", APIA, gap=Gap.SKIP), "2011-12-29", 3, "29T22:00 30T22:00 31T22:00"),
        # A zone moved without summer time: 2018-05-04 23:30 became 5 May 00:00.
        (Cron("45 23 * * *", "Asia/Pyongyang"), "2018-05-03", 3, "03T15:15 04T15:00 05T14:45"),
    ],
)
def test_times_that_clocks_jump_or_repeat_run_as_the_schedule_wants(
    schedule, first, days, expected
):
    found = iter_occurrences(schedule, after=utc(first), until=utc(first) + days * DAY)
    assert " ".join(f"{at:%dT%H:%M}" for at in found) == expected


def test_starting_between_the_two_does_not_bring_the_first_one_back():
    new_york = Cron("30 1 * * *", "America/New_York")

    assert texts([compute_next_run(utc("2026-11-01T05:45"), new_york)]) == ["11-02 06:30"]
    assert texts([get_latest_occurrence(utc("2026-11-01T06:45"), new_york)]) == ["11-01 05:30"]


def test_a_leap_day_on_a_sunday_is_found_decades_away():
    rare = Cron("0 0 29 2 */7", "America/New_York")

    assert f"{compute_next_run(utc('2088-03-01T00:00'), rare):%Y-%m-%d %H}" == "2128-02-29 05"
    assert f"{get_latest_occurrence(utc('2128-02-01T00:00'), rare):%Y-%m-%d %H}" == "2088-02-29 05"


# Catching up


ALL, NONE = {"catch_up": CatchUp.ALL}, {"catch_up": CatchUp.NONE}
MISSED = "missed while nothing was running"


@pytest.mark.parametrize(
    ("late", "hours", "how", "run", "missed", "reason"),
    [
        (0, 4, {}, [12], [9, 10, 11], f"3 earlier instants were {MISSED}; only the latest runs"),
        (
            0,
            4,
            ALL | {"at_most": 3},
            [10, 11, 12],
            [9],
            f"1 earlier instant was {MISSED}; the latest 3 run",
        ),
        (0, 2, ALL, [11, 12], [], "2 instants passed; all of them run"),
        # Without catching up, only what has just passed runs.
        (0, 2, NONE, [12], [11], f"1 earlier instant was {MISSED}; only the latest runs"),
        (5, 2, NONE, [12], [11], f"1 earlier instant was {MISSED}; only the latest runs"),
        (6, 2, NONE, [], [11, 12], f"2 instants were {MISSED}; catching up is off"),
        (6, 1, NONE, [], [12], f"1 instant was {MISSED}; catching up is off"),
        (6, 1, NONE | {"grace": 10 * MINUTE}, [12], [], "due since 2026-03-04 12:00 UTC"),
        (0, 1, {}, [12], [], "due since 2026-03-04 12:00 UTC"),
        (1, 0, {}, [], [], "nothing is due yet"),
    ],
)
def test_what_passed_since_the_last_decision_runs_or_is_missed(
    late, hours, how, run, missed, reason
):
    answer = compute_due(NOON + late * MINUTE, NOON - hours * HOUR, HOURLY, **how)

    assert ([at.hour for at in answer.run], [at.hour for at in answer.missed]) == (run, missed)
    assert answer.reason == reason


def test_a_clock_that_went_back_is_named_as_the_reason():
    assert compute_due(NOON - HOUR, NOON, HOURLY).reason == (
        "2026-03-04 12:00 UTC is already decided, but the clock says 2026-03-04 11:00; "
        "nothing is due until it catches up"
    )


EVERY_MINUTE = [Cron("* * * * *", "Europe/Paris", fold=Fold.BOTH), Interval(MINUTE)]


@pytest.mark.parametrize("schedule", EVERY_MINUTE, ids=["cron", "interval"])
@pytest.mark.parametrize("last", [utc("2025-03-04T12:00"), utc("1971-01-01T00:00")])
def test_long_downtime_is_counted_in_full_and_listed_in_part(schedule, last):
    answer = compute_due(NOON, last, schedule)

    passed = (NOON - last) // MINUTE
    # Clocks set forward lose no minute of UTC, so every minute there was is counted.
    assert f"{passed - 1} earlier instants were missed" in answer.reason
    assert f"the latest {MAX_MISSED} are listed" in answer.reason
    assert answer.run == (NOON,)
    assert answer.missed == tuple(NOON - n * MINUTE for n in range(MAX_MISSED, 0, -1))


def test_what_is_let_go_after_long_downtime_is_listed_in_part_too():
    answer = compute_due(NOON + HOUR / 2, NOON - 30_000 * HOUR, HOURLY, catch_up=CatchUp.NONE)

    assert answer.run == ()
    assert len(answer.missed) == MAX_MISSED
    assert answer.missed[-1] == NOON
    assert answer.reason.startswith("30000 instants were missed")


@given(moments, st.timedeltas(30 * DAY, 500 * DAY), st.sampled_from(Gap), st.sampled_from(Fold))
def test_what_is_only_counted_is_counted_right(last, later, gap, fold):
    schedule = Cron("*/20 * * * *", "America/New_York", gap, fold)

    answer = compute_due(last + later, last, schedule)
    passed = sum(1 for _ in iter_occurrences(schedule, after=last, until=last + later))
    assert f"{passed - 1} earlier instants" in answer.reason


@pytest.mark.parametrize("year", [1970, 2038])
def test_a_clock_that_jumps_to_another_age_neither_breaks_nor_repeats(year):
    jumped = NOON.replace(year=year)

    answer = compute_due(jumped, NOON, NIGHTLY)
    assert len(answer.run) == (1 if year > NOON.year else 0)
    assert compute_due(NOON, NOON, NIGHTLY).run == ()


# What cannot work


@pytest.mark.parametrize("schedule", [Interval(HOUR), NIGHTLY, Cron()])
@pytest.mark.parametrize(
    "ask",
    [
        lambda now, schedule: compute_next_run(now, schedule),
        lambda now, schedule: preview(now, schedule, 3),
        lambda now, schedule: get_latest_occurrence(now, schedule),
        lambda now, schedule: should_run(now, None, schedule),
        lambda now, schedule: should_run(NOON, now, schedule),
        lambda now, schedule: compute_due(now, None, schedule),
        lambda now, schedule: compute_due(NOON, now, schedule),
    ],
)
def test_a_time_without_a_zone_is_refused(schedule, ask):
    with pytest.raises(ConfigError, match="no time zone"):
        ask(NOON.replace(tzinfo=None), schedule)


def test_instants_refuse_a_time_without_a_zone_before_the_first_is_asked_for():
    with pytest.raises(ConfigError, match="no time zone"):
        iter_occurrences(NIGHTLY, after=NOON.replace(tzinfo=None), until=NOON)


def test_a_clock_in_an_impossible_year_is_refused():
    with pytest.raises(ConfigError, match="set the clock"):
        compute_next_run(datetime(9999, 12, 31, 23, 59, tzinfo=UTC), NIGHTLY)


@pytest.mark.parametrize("every", [timedelta(0), -HOUR, timedelta(seconds=59), timedelta.max])
def test_an_interval_that_cannot_be_kept_is_refused(every):
    with pytest.raises(ConfigError, match="1 minute"):
        Interval(every)


@pytest.mark.parametrize(
    "text", ["24:00", "2:30", "02:60", "0230", "02:30:00", "noon", "", "٠٢:٣٠"]
)
def test_a_window_that_is_not_a_minute_of_the_day_is_refused(text):
    with pytest.raises(ConfigError, match="HH:MM"):
        Window.parse(text)


def test_a_window_is_written_as_hours_and_minutes():
    assert Window.parse("02:30") == NIGHTLY


@pytest.mark.parametrize("at", [time(2, 30, 1), time(2, 30, tzinfo=timezone(HOUR))])
def test_a_window_is_a_whole_minute_in_utc(at):
    with pytest.raises(ConfigError, match="whole minute in UTC"):
        Window(at)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Asia/Singapor", "did you mean Asia/Singapore?"),
        ("america/new york", "did you mean America/New_York?"),
        ("Paris", "did you mean Europe/Paris?"),
        ("XYZ", "use a name such as"),
        ("", "use a name such as"),
        ("../../etc/passwd", "use a name such as"),
        ("Europe", "use a name such as"),
        ("Asia/\0", "use a name such as"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_one_that_may_be_meant(zone, hint):
    with pytest.raises(ConfigError) as refused:
        Cron(zone=zone)

    assert hint in str(refused.value)


def test_an_impossible_line_is_refused_when_the_schedule_is_made():
    with pytest.raises(ConfigError, match="never runs"):
        Cron("0 0 31 2 *")


def test_catching_up_on_all_needs_room_for_one():
    with pytest.raises(ConfigError, match="at least 1"):
        compute_due(NOON, None, NIGHTLY, catch_up=CatchUp.ALL, at_most=0)
