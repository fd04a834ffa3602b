"""Cron against clocks on walls: every zone where its clocks are set, and every day of a year.

`proof/cron_oracle.py` compares ten whole years of every zone; here are the days that matter.
"""

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise, product
from zoneinfo import ZoneInfo, available_timezones

import pytest
from proof.cron_oracle import (
    DENSE,
    FIRST_DAY,
    LAST_DAY,
    OPTIONS,
    PATTERNS,
    clock,
    difference,
    lost_day,
    offsets,
)

from stoker.calendar.recurrence import Cron, iter_occurrences
from stoker.calendar.timezones import Fold, Gap

DAY, MINUTE, TICK = timedelta(days=1), timedelta(minutes=1), timedelta.resolution
ZONES = sorted(available_timezones())
USUAL = [time(0, 0), time(0, 30), time(1, 30), time(2, 0), time(2, 30), time(3, 0)]


def changes(zone, first, last):
    """Return the UTC midnights before which this zone's clocks were set."""
    midnights = [first + DAY * number for number in range((last - first).days + 1)]
    shown = [midnight.astimezone(zone).utcoffset() for midnight in midnights]
    both = pairwise(zip(midnights, shown, strict=True))
    return [after for (_, was), (after, now) in both if was != now]


def group_by_clock(first, last):
    """Return the zones in lists, each of zones whose clocks show the same all the time."""
    found = {}
    for name in ZONES:
        zone = ZoneInfo(name)
        days = changes(zone, first, last)
        around = tuple((day, offsets(name, day - DAY, day).tobytes()) for day in days)
        found.setdefault((first.astimezone(zone).utcoffset(), around), []).append(name)
    return list(found.values())


def wall_clock_matcher(zone, times, start, end):
    """The naive twin: look at the clock every minute, fire when it shows one of the times."""
    moment = start
    while moment < end:
        local = moment.astimezone(zone)
        if local.time() in times:
            yield moment, local
        moment += MINUTE


def test_around_every_change_of_every_zone_the_oracle_agrees(record_property):
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    alike = {}
    for zone in ZONES:
        for day in changes(ZoneInfo(zone), first, last):
            stretch = day - 2 * DAY, day + 2 * DAY
            shown = offsets(zone, *stretch)
            alike.setdefault((*stretch, shown.tobytes()), (shown, []))[1].append(zone)
    compared, wrong = 0, []
    for (start, end, _), (shown, zones) in sorted(alike.items(), key=lambda item: item[0]):
        seen = clock(shown, start, end)
        for pattern, (gap, fold) in product(PATTERNS, OPTIONS):
            wrong += filter(None, [difference(zones[0], pattern, gap, fold, seen)])
            compared += len(zones)

    record_property("fault", f"cron oracle, days around changes: n={compared}, {len(wrong)} wrong")
    assert compared > 20_000
    assert wrong == []


@pytest.mark.parametrize("zone", ["Australia/Lord_Howe", "America/Nuuk", "Antarctica/Troll"])
def test_minute_by_minute_around_a_change_the_oracle_agrees(zone):
    year = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    days = changes(ZoneInfo(zone), *year)
    stretches = [(day - 2 * DAY, day + 2 * DAY) for day in days]
    clocks = [clock(offsets(zone, *stretch), *stretch) for stretch in stretches]

    every = product(DENSE, OPTIONS, clocks)
    assert {difference(zone, line, *rule, seen) for line, rule, seen in every} == {""}


@pytest.mark.parametrize("zone", ["Africa/Casablanca", "America/Nuuk"])
def test_over_ten_years_of_a_restless_zone_the_oracle_agrees(zone):
    seen = clock(offsets(zone, FIRST_DAY, LAST_DAY), FIRST_DAY, LAST_DAY)
    rules = [(Gap.SHIFT, Fold.FIRST), (Gap.SKIP, Fold.BOTH)]

    wrong = [difference(zone, line, *rule, seen) for line, rule in product(PATTERNS, rules)]
    assert set(wrong) == {""}


def test_over_the_day_that_samoa_left_out_the_oracle_agrees():
    assert set(lost_day()) == {""}


@pytest.mark.parametrize("pattern", ["30 2 * * *", "30 1 * * *"])
def test_the_oracle_catches_a_wall_clock_matcher(pattern):
    year = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    seen = clock(offsets("America/New_York", *year), *year)
    hour = int(pattern.split()[1])

    def naive(cron, start, end):
        fired = wall_clock_matcher(ZoneInfo(cron.zone), {time(hour, 30)}, start, end)
        return (moment for moment, _ in fired)

    caught = difference("America/New_York", pattern, Gap.SHIFT, Fold.FIRST, seen, by=naive)
    assert "1 differences" in caught or "2 differences" in caught


def test_in_every_zone_a_daily_schedule_runs_exactly_once_for_every_local_day(record_property):
    """A11, the full table. A run belongs to the day it is in, or to the one that ends there."""
    year = [date(2026, 1, 1) + DAY * number for number in range(365)]
    checked, wrong = 0, []
    groups = group_by_clock(datetime(2025, 12, 30, tzinfo=UTC), datetime(2027, 1, 3, tzinfo=UTC))
    for names, at in product(groups, USUAL):
        name = names[0]
        zone = ZoneInfo(name)
        start = datetime.combine(year[0], time(), zone).astimezone(UTC)
        end = datetime.combine(year[-1] + DAY, time(), zone).astimezone(UTC)
        daily = Cron(f"{at.minute} {at.hour} * * *", name)
        runs = list(iter_occurrences(daily, after=start - TICK, until=end - TICK))
        for day, run in zip(year, runs, strict=False):
            here = run.astimezone(zone)
            midnight = (here.hour, here.minute) == (0, 0)
            if here.date() != day and not (midnight and here.date() == day + DAY):
                wrong.append((name, at, day, here))
        wrong += [] if len(runs) == len(year) else [(name, at, len(runs))]
        checked += len(year) * len(names)

    record_property("fault", f"A11, one run per local day: n={checked}, {len(wrong)} wrong")
    assert checked == len(ZONES) * len(USUAL) * 365
    assert wrong == []


def test_a_wall_clock_matcher_runs_never_in_a_gap_and_twice_in_a_fold(record_property):
    """The twin of A11: the odd cases are there, and looking at the clock gets each one wrong."""
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    lost = repeated = 0
    for name in ZONES:
        zone = ZoneInfo(name)
        for change in changes(zone, first, last):
            fired = wall_clock_matcher(zone, set(USUAL), change - 3 * DAY, change + 2 * DAY)
            seen = Counter((local.date(), local.time()) for _, local in fired)
            days = [change.date() - DAY * back for back in range(3)]  # seen whole on any wall
            counts = [seen[day, at] for day, at in product(days, USUAL)]
            lost += counts.count(0)
            repeated += counts.count(2)

    record_property("fault", f"A11's twin: {lost} times never, {repeated} times twice")
    assert lost > 300  # 357 and 256 by the zones' rules of 2026; governments change them
    assert repeated > 200
