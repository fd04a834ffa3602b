"""What a cron line says, and how one that cannot work is refused."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.calendar.cron import ALIASES, parse_cron


def times(line):
    return [f"{int(at.total_seconds()) // 3600:02d}:{at.seconds // 60 % 60:02d}" for at in line]


def days_of(expression, year=2026):
    every = (date(year, 1, 1) + timedelta(days=number) for number in range(365))
    return [day for day in every if parse_cron(expression).runs_on(day)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 1 * * *", ["01:00"]),
        ("5,50 1 * * *", ["01:05", "01:50"]),
        ("50,5,50 1 * * *", ["01:05", "01:50"]),
        ("0-10/5 23 * * *", ["23:00", "23:05", "23:10"]),
        ("*/30 0-1 * * *", ["00:00", "00:30", "01:00", "01:30"]),
        ("59 */12 * * *", ["00:59", "12:59"]),
        ("  7   7   *  * * ", ["07:07"]),
        ("@midnight", ["00:00"]),
    ],
)
def test_minutes_and_hours_name_the_times_of_a_day_in_order(expression, expected):
    assert times(parse_cron(expression).times) == expected


def test_every_minute_is_all_of_them():
    assert len(parse_cron("* * * * *").times) == 1440


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * 0", "0 0 * * 7"),
        ("0 0 * * SUN", "0 0 * * 7"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("0 0 * * 5-7", "0 0 * * FRI,SAT,SUN"),
        ("0 0 * * mon-FRI", "0 0 * * 1-5"),
        ("0 0 1 JAN-mar *", "0 0 1 1,2,3 *"),
        ("0 0 1 dec *", "0 0 1 12 *"),
        ("@Weekly", "0 0 * * SUN"),
        ("@annually", "@yearly"),
    ],
)
def test_two_ways_of_writing_a_line_mean_the_same(one, other):
    assert parse_cron(one) == parse_cron(other)


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_the_line_it_stands_for(alias):
    assert parse_cron(alias) == parse_cron(ALIASES[alias])


def test_a_weekday_alone_decides_when_the_day_of_month_is_open():
    assert {day.isoweekday() for day in days_of("0 0 * * FRI")} == {5}


def test_a_day_of_month_alone_decides_when_the_weekday_is_open():
    assert {day.day for day in days_of("0 0 13 * *")} == {13}


def test_either_day_is_enough_when_both_are_restricted():
    days = days_of("0 0 13 * FRI")

    assert days == [day for day in days_of("0 0 * * *") if day.day == 13 or day.isoweekday() == 5]


def test_both_days_must_agree_when_one_begins_with_a_star():
    days = days_of("0 0 13 * */5")  # Sundays and Fridays

    assert [(day.month, day.day) for day in days] == [(2, 13), (3, 13), (9, 13), (11, 13), (12, 13)]


def test_a_stepped_day_of_month_must_agree_with_the_weekday():
    days = days_of("0 0 */15 * FRI")  # the 1st, 16th and 31st

    assert [(day.month, day.day) for day in days] == [(1, 16), (5, 1), (7, 31), (10, 16)]


def test_a_day_that_a_month_lacks_is_passed_over():
    assert [day.month for day in days_of("0 0 31 * *")] == [1, 3, 5, 7, 8, 10, 12]


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("60 * * * *", ["minute", "'60'", "0-59"]),
        ("-1 * * * *", ["minute", "'-1'"]),
        ("* 24 * * *", ["hour", "'24'", "0-23"]),
        ("* * 0 * *", ["day-of-month", "'0'", "1-31"]),
        ("* * 32 * *", ["day-of-month", "'32'"]),
        ("* * * 13 *", ["month", "'13'", "1-12", "JAN-DEC"]),
        ("* * * MON *", ["month", "'MON'"]),
        ("* * * * 8", ["day-of-week", "'8'", "0-7", "SUN-SAT"]),
        ("* * * * JAN", ["day-of-week", "'JAN'"]),
        ("30-10 * * * *", ["minute", "'30-10'", "empty"]),
        ("* * * * FRI-MON", ["day-of-week", "'FRI-MON'", "empty"]),
        ("*/0 * * * *", ["minute", "'*/0'", "1-59"]),
        ("*/90 * * * *", ["minute", "'*/90'", "1-59"]),
        ("*/ * * * *", ["minute", "'*/'"]),
        ("5/15 * * * *", ["minute", "'5/15'", "5-59/15"]),
        ("1,,2 * * * *", ["minute", "''"]),
        ("1-2-3 * * * *", ["minute", "'1-2-3'"]),
        ("1.5 * * * *", ["minute", "'1.5'"]),
        ("٣ * * * *", ["minute", "'٣'"]),
        (f"{'9' * 5000} * * * *", ["minute", "0-59"]),
        ("? * * * *", ["minute", "'?'"]),
        ("0 0 31 2 *", ["never", "day-of-month '31'", "month '2'"]),
        ("0 0 30 FEB */2", ["never", "'30'", "'FEB'"]),
        ("0 0 31 4,6,9,11 *", ["never", "'31'", "'4,6,9,11'"]),
        ("0 1 * *", ["4 fields", "five", "@daily"]),
        ("0 0 1 * * *", ["6 fields", "five"]),
        ("", ["0 fields", "five"]),
        ("@noon", ["1 fields", "@daily"]),
    ],
)
def test_a_line_that_cannot_work_is_refused_by_field_with_what_is_allowed(expression, named):
    with pytest.raises(ConfigError) as refused:
        parse_cron(expression)

    assert all(word in str(refused.value) for word in named), refused.value
    assert "\n" not in str(refused.value)


@given(st.text(alphabet="0123456789*/,-@ ?LW#JANMOSU\x00é\n", max_size=30))
def test_any_text_is_understood_or_refused_in_one_line(text):
    answer = understood(text)

    assert "\n" not in answer if isinstance(answer, str) else answer.get_next_day(date(2026, 1, 1))


def understood(text):
    try:
        return parse_cron(text)
    except ConfigError as refused:
        return str(refused)


dates = st.dates(date(1900, 1, 1), date(2400, 1, 1))
lines = st.sampled_from(
    ["0 0 29 2 */7", "0 0 29 2 *", "0 0 31 * *", "0 0 1 1 *", "0 0 * 5 MON", "0 0 13 * FRI"]
).map(parse_cron)


@given(lines, dates)
def test_no_day_of_the_line_lies_between_a_day_and_the_nearest_ones_found(line, day):
    later, earlier = line.get_next_day(day), line.get_previous_day(day)

    assert earlier <= day <= later
    assert line.runs_on(earlier)
    assert line.runs_on(later)
    gap = (day + timedelta(days=n) for n in range((later - day).days))
    before = (day - timedelta(days=n) for n in range((day - earlier).days))
    assert not any(map(line.runs_on, gap))
    assert not any(map(line.runs_on, before))


def test_the_rarest_line_comes_round_within_forty_years():
    leap_sunday = parse_cron("0 0 29 2 */7")

    assert leap_sunday.get_next_day(date(2088, 3, 1)) == date(2128, 2, 29)
