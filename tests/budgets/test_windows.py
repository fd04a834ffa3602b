from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.clock import CLOCK_TOLERANCE
from stoker.base.errors import ConfigError
from stoker.budgets.windows import (
    FAR_FUTURE,
    RETENTION,
    BudgetWindow,
    ResetRule,
    WindowKind,
    compute_name_range,
    compute_window,
    find_window_start,
    is_old_window,
    parse_window,
)
from stoker.budgets.windows import format_reset as resets

HOUR, DAY, WEEK, RUN = WindowKind
TICK = timedelta.resolution
ZONES = sorted(available_timezones() - {"localtime", "Factory"})

timed = st.sampled_from([HOUR, DAY, WEEK])
minutes = st.times().map(lambda at: at.replace(second=0, microsecond=0))
START, END = datetime(1995, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
SET = [  # where clocks were set, in every odd way there is
    ("Europe/Paris", "2026-03-29T01:00"),
    ("Europe/Paris", "2026-10-25T01:00"),
    ("America/Havana", "2026-03-08T05:00"),
    ("America/Havana", "2026-11-01T05:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("Antarctica/Troll", "2026-03-29T01:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Asia/Pyongyang", "2015-08-14T15:00"),
]


@st.composite
def anywhere(draw):
    """A moment and a rule: any zone at any time, or one of the odd ones about when it is odd."""
    if draw(st.booleans()):
        zone, change = draw(st.sampled_from(SET))
        now = utc(change) + draw(st.timedeltas(-timedelta(days=2), timedelta(days=2)))
    else:
        zone = draw(st.sampled_from(ZONES))
        now = START + draw(st.timedeltas(timedelta(0), END - START))
    return now, ResetRule(zone, draw(minutes))


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(text, zone, fold=0):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


def hours(window):
    return (window.end - window.start) / timedelta(hours=1)


@given(timed, anywhere())
def test_a_moment_lies_in_its_window_and_the_window_begins_and_ends_there(kind, place):
    now, rule = place
    window = compute_window(kind, now, reset=rule)

    assert window.start <= now < window.end
    assert compute_window(kind, window.start, reset=rule) == window
    assert compute_window(kind, window.end - TICK, reset=rule) == window


@given(timed, anywhere())
def test_windows_of_a_kind_tile_time_without_gap_or_overlap(kind, place):
    now, rule = place
    window = compute_window(kind, now, reset=rule)
    after, before = (
        compute_window(kind, at, reset=rule) for at in (window.end, window.start - TICK)
    )

    assert after.start == window.end
    assert before.end == window.start
    assert len({before.name, window.name, after.name}) == 3


@given(anywhere())
def test_a_window_has_one_name_for_all_moments_in_it_and_shows_it_to_no_other_kind(place):
    now, rule = place
    names = {kind: compute_window(kind, now, reset=rule).name for kind in (HOUR, DAY, WEEK)}

    assert len(set(names.values())) == 3
    assert all(name.startswith(f"{kind.value} ") for kind, name in names.items())


@given(anywhere())
def test_a_day_begins_when_the_wall_shows_the_reset_time_unless_the_wall_skips_it(place):
    now, rule = place
    start = compute_window(DAY, now, reset=rule).start
    wall = start.astimezone(ZoneInfo(rule.zone))
    just_before = (start - timedelta(seconds=1)).astimezone(ZoneInfo(rule.zone))
    skipped = wall.utcoffset() > just_before.utcoffset()

    assert wall.time() == rule.at or skipped


@given(anywhere())
def test_a_week_is_made_of_days_and_begins_on_a_monday(place):
    now, rule = place
    week = compute_window(WEEK, now, reset=rule)
    first, last = (
        compute_window(DAY, at, reset=rule) for at in (week.start, week.end - timedelta(seconds=1))
    )

    assert week.start.astimezone(ZoneInfo(rule.zone)).isoweekday() == 1
    assert (first.start, last.end) == (week.start, week.end)


@pytest.mark.parametrize(
    ("zone", "day", "length"),
    [
        ("UTC", "2026-03-29T12:00", 24),
        ("Asia/Singapore", "2026-03-29T12:00", 24),
        ("Europe/Paris", "2026-03-29T12:00", 23),
        ("Europe/Paris", "2026-10-25T12:00", 25),
        ("America/New_York", "2026-03-08T12:00", 23),
        ("America/New_York", "2026-11-01T12:00", 25),
        ("Australia/Lord_Howe", "2026-10-04T12:00", 23.5),
        ("Australia/Lord_Howe", "2026-04-05T12:00", 24.5),
        ("America/Havana", "2026-03-08T12:00", 23),  # its midnight is skipped
        ("America/Havana", "2026-11-01T12:00", 25),  # its midnight comes twice
        ("America/Sao_Paulo", "2018-02-17T12:00", 25),  # its last hour comes twice
        ("Pacific/Apia", "2011-12-29T12:00", 24),
        ("Pacific/Apia", "2011-12-31T12:00", 24),  # there was no 30th
    ],
)
def test_a_day_is_as_long_as_its_zone_makes_it(zone, day, length):
    assert hours(compute_window(DAY, local(day, zone), reset=ResetRule(zone))) == length


def test_a_week_runs_from_monday_at_the_reset_time():
    rule = ResetRule("Asia/Singapore", time(6, 30))

    before = compute_window(WEEK, local("2026-11-16T06:29", "Asia/Singapore"), reset=rule)
    after = compute_window(WEEK, local("2026-11-16T06:30", "Asia/Singapore"), reset=rule)

    assert before.end == after.start == utc("2026-11-15T22:30")
    assert before.start == utc("2026-11-08T22:30")


def test_a_day_may_reset_at_another_time_than_midnight():
    rule = ResetRule("America/New_York", time(17, 45))

    window = compute_window(DAY, local("2026-11-16T17:44", "America/New_York"), reset=rule)

    assert window == BudgetWindow(
        "day 2026-11-15T22:45:00+00:00", utc("2026-11-15T22:45"), utc("2026-11-16T22:45")
    )


def test_hours_begin_at_the_minute_of_the_reset_time():
    window = compute_window(HOUR, utc("2026-11-16T02:10"), reset=ResetRule("UTC", time(5, 20)))

    assert (window.start, window.end) == (utc("2026-11-16T01:20"), utc("2026-11-16T02:20"))


@given(
    st.sampled_from(["Europe/Paris", "America/New_York", "America/Havana", "Asia/Kolkata"]),
    st.integers(0, 59),
    st.integers(0, 366 * 24 * 60),
)
def test_an_hour_takes_an_hour_also_when_clocks_are_set(zone, minute, passed):
    rule = ResetRule(zone, time(0, minute))

    window = compute_window(
        HOUR, utc("2026-01-01T00:00") + passed * timedelta(minutes=1), reset=rule
    )

    assert hours(window) == 1


def test_a_run_has_one_window_that_never_ends():
    one, later = (
        compute_window(RUN, at, reset=ResetRule(), run="20260101_000000")
        for at in (utc("2026-01-01T00:00"), utc("2027-01-01T00:00"))
    )
    other = compute_window(RUN, utc("2026-01-01T00:00"), reset=ResetRule(), run="20260102_000000")

    assert one == later
    assert (one.start, one.end) == (utc("1970-01-01T00:00"), FAR_FUTURE)
    assert utc("9000-01-01T00:00") == FAR_FUTURE
    assert one.name == "run 20260101_000000"
    assert other.name != one.name


@pytest.mark.parametrize("run", [None, ""])
def test_a_window_of_a_run_needs_the_run(run):
    with pytest.raises(ConfigError, match="name the run"):
        compute_window(RUN, utc("2026-01-01T00:00"), reset=ResetRule(), run=run)


@pytest.mark.parametrize("kind", WindowKind)
def test_a_moment_without_a_zone_is_refused(kind):
    with pytest.raises(ConfigError, match="no time zone"):
        compute_window(kind, START.replace(tzinfo=None), reset=ResetRule(), run="r")


def test_a_zone_that_does_not_exist_is_refused_with_a_guess():
    with pytest.raises(ConfigError, match="did you mean Asia/Singapore"):
        ResetRule("Asia/Singapur")


@pytest.mark.parametrize("at", [time(0, 0, 1), time(0, 0, 0, 1), time(1, 0, tzinfo=UTC)])
def test_a_reset_time_is_a_whole_minute_on_the_wall(at):
    with pytest.raises(ConfigError, match="whole minute"):
        ResetRule("UTC", at)


@pytest.mark.parametrize(
    ("kind", "rule", "now", "text"),
    [
        (DAY, ResetRule("Asia/Singapore"), "2026-11-15T12:48", "resets in 3 h 12 m (00:00 +08)"),
        (DAY, ResetRule("UTC", time(9, 5)), "2026-11-16T09:04", "resets in 1 m 0 s (09:05 UTC)"),
        (HOUR, ResetRule("Asia/Kolkata"), "2026-11-16T02:10", "resets in 20 m 0 s (08:00 IST)"),
        (WEEK, ResetRule("Europe/Paris"), "2026-11-16T02:10", "resets in 6 d 20 h (00:00 CET)"),
    ],
)
def test_a_window_says_when_it_resets_on_the_tenants_wall(kind, rule, now, text):
    moment = utc(now)

    assert resets(compute_window(kind, moment, reset=rule), now=moment, reset=rule) == text


def test_a_window_that_is_over_resets_in_no_time_and_a_runs_window_never():
    day = compute_window(DAY, utc("2026-01-01T00:00"), reset=ResetRule())
    run = compute_window(RUN, utc("2026-01-01T00:00"), reset=ResetRule(), run="r")
    late = utc("2026-01-05T00:00")

    assert resets(day, now=late, reset=ResetRule()) == "resets in 0 s (00:00 UTC)"
    assert resets(run, now=late, reset=ResetRule()) == "does not reset; the next run has its own"


@given(timed, anywhere())
def test_a_name_tells_its_window_whole_whatever_the_rule(kind, place):
    now, rule = place
    window = compute_window(kind, now, reset=rule)

    assert parse_window(window.name) == window


@given(timed, anywhere(), st.sampled_from(ZONES), minutes)
def test_windows_that_can_matter_have_names_between_two_others(kind, place, zone, at):
    """Whatever window a moment falls into, all that overlap it are found, under any other rule."""
    now, rule = place
    since, until = compute_name_range(kind, now)
    for late in (timedelta(0), CLOCK_TOLERANCE):
        window = compute_window(kind, now + late, reset=rule)
        assert since <= window.name < until
        for moment in (window.start, now + late, window.end - TICK):
            assert since <= compute_window(kind, moment, reset=ResetRule(zone, at)).name < until


def test_no_more_names_are_looked_at_than_can_matter():
    assert compute_name_range(DAY, utc("2026-11-16T02:10")) == (
        "day 2026-11-13T22:10:00+00:00",
        "day 2026-11-17T04:20:00+00:00",
    )
    assert compute_name_range(HOUR, utc("2026-11-16T02:10") + TICK) == (
        "hour 2026-11-15T22:10:00+00:00",
        "hour 2026-11-16T04:20:00+00:00",
    )
    assert compute_name_range(WEEK, utc("2026-11-16T02:10")) == (
        "week 2026-11-01T22:10:00+00:00",
        "week 2026-11-23T04:20:00+00:00",
    )


def test_a_day_of_another_length_says_so_in_its_name():
    rule = ResetRule("Europe/Paris")
    usual, longer = (
        compute_window(DAY, utc(day), reset=rule)
        for day in ("2026-11-16T12:00", "2026-10-25T12:00")
    )

    assert usual.name == "day 2026-11-15T23:00:00+00:00"
    assert longer.name == "day 2026-10-24T22:00:00+00:00 to 2026-10-25T23:00:00+00:00"
    # So the same start under a rule that does not set its clocks is another window.
    assert compute_window(DAY, utc("2026-10-25T12:00"), reset=ResetRule("UTC", time(22, 0))) == (
        BudgetWindow(
            "day 2026-10-24T22:00:00+00:00", utc("2026-10-24T22:00"), utc("2026-10-25T22:00")
        )
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        "day",
        "day ",
        "run r1",
        "month 2026-11-01T00:00:00+00:00",
        "day 2026-11-16",
        "day 2026-11-16T00:00:00",
        "day 2026-11-16T00:00:00+01:00",
        "day 2026-11-16T00:00:00Z",
        "day 2026-11-16T00:00:00+00:00 to",
        "day 2026-11-16T00:00:00+00:00 to tomorrow",
        "day 9999-12-31T23:00:00+00:00",
    ],
)
def test_what_is_no_name_of_a_window_of_time_is_refused(name):
    with pytest.raises(ConfigError, match=r"is not a time window$"):
        parse_window(name)


def test_a_long_name_is_not_repeated_whole():
    with pytest.raises(ConfigError) as refused:
        parse_window("x" * 9000)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    ("start", "end", "overlaps"),
    [(0, 1, False), (0, 2, False), (0, 3, True), (3, 4, True), (5, 9, True), (6, 9, False)],
)
def test_windows_overlap_when_some_moment_lies_in_both(start, end, overlaps):
    first = utc("2026-11-16T00:00")
    hour = timedelta(hours=1)
    one = BudgetWindow("one", first + 2 * hour, first + 6 * hour)
    other = BudgetWindow("other", first + start * hour, first + end * hour)

    assert one.overlaps(other) is other.overlaps(one) is overlaps


def test_a_budget_resets_at_midnight_utc_unless_told_otherwise():
    assert ResetRule() == ResetRule("UTC", time(0, 0))
    assert [kind.value for kind in WindowKind] == ["hour", "day", "week", "run"]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("day 2026-02-07T00:00:00+00:00", datetime(2026, 2, 7, tzinfo=UTC)),
        (
            "hour 2026-02-07T01:30:00+00:00 to 2026-02-07T02:00:00+00:00",
            datetime(2026, 2, 7, 1, 30, tzinfo=UTC),
        ),
        ("run 20260207_013000", datetime(2026, 2, 7, 1, 30, tzinfo=UTC)),
        ("run tonight", None),
        ("run", None),
        ("", None),
        ("month 2026-02-07T00:00:00+00:00", None),
    ],
)
def test_a_window_is_old_once_it_began_before_everything_that_could_count_in_it(name, start):
    assert find_window_start(name) == start
    began = start or datetime(2026, 2, 7, tzinfo=UTC)
    assert not is_old_window(name, now=began + RETENTION)
    assert is_old_window(name, now=began + RETENTION + timedelta.resolution) is (start is not None)
