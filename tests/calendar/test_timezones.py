from datetime import UTC, datetime, timedelta

import pytest

from stoker.base.formats import format_duration
from stoker.calendar.timezones import compute_clock_change, format_local_time


def test_a_moment_is_shown_as_the_wall_in_that_zone_shows_it():
    moment = datetime(2026, 11, 16, 17, 0, tzinfo=UTC)

    assert format_local_time(moment, "Asia/Singapore") == "Tue 2026-11-17 01:00 +08"


@pytest.mark.parametrize(
    ("day", "moved"),
    [
        (datetime(2026, 3, 8, 12, tzinfo=UTC), timedelta(hours=1)),
        (datetime(2026, 11, 1, 12, tzinfo=UTC), timedelta(hours=-1)),
        (datetime(2026, 7, 1, 12, tzinfo=UTC), timedelta(0)),
    ],
)
def test_the_days_on_which_clocks_are_moved_are_known(day, moved):
    assert compute_clock_change(day, "America/New_York") == moved


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=41.9), "41 s"),
        (timedelta(minutes=3, seconds=5), "3 m 5 s"),
        (timedelta(hours=3, minutes=12), "3 h 12 m"),
        (timedelta(days=2, hours=5, minutes=59), "2 d 5 h"),
    ],
)
def test_a_duration_is_told_in_the_two_units_that_matter(duration, text):
    assert format_duration(duration) == text
