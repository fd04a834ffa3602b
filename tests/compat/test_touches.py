"""The weekly planner as a script uses it that was written for another one."""

import asyncio
import csv
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from stoker.base.errors import PermanentError, StokerError
from stoker.compat.touches import (
    DailySlot,
    ScheduledEngagement,
    Scheduler,
    ScoredProfile,
    WeeklyPlan,
    calculate_priority,
    generate_daily_timestamps,
    score_all_profiles,
    select_for_day,
    settings,
)
from stoker.testing import FakeClock
from stoker.touches.planning.planner import plan_week
from stoker.touches.queue import derive_seed

DATA = Path(__file__).parents[1] / "data"
MONDAY = datetime(2026, 2, 9, 8, 0, tzinfo=UTC)
WEDNESDAY = datetime(2026, 2, 11, 10, 40, tzinfo=UTC)
UNKNOWN = "https://www.linkedin.com/in/not-planned/"


def read_people():
    with (DATA / "state_tracker.csv").open(newline="") as file:
        return list(csv.DictReader(file))


PEOPLE = read_people()


@pytest.fixture(autouse=True)
def constants():
    """Every constant as it is by default, in UTC; what a test sets does not outlast it."""
    before = {name: value for name, value in vars(settings).items() if name.isupper()}
    settings.TIMEZONE = "UTC"
    yield settings
    for name, value in before.items():
        setattr(settings, name, value)


@pytest.fixture
def clock():
    return FakeClock(MONDAY)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "schedule_state.json"


@pytest.fixture
def scheduler(path, clock):
    return Scheduler(state_file=path, clock=clock)


def used(scheduler):
    return tuple(scheduler.status()[name]["used"] for name in ("hourly", "daily", "weekly"))


def test_a_scheduler_needs_nothing_but_the_current_directory(tmp_path):
    script = (
        "from stoker.compat.touches import RateLimiter, Scheduler\n"
        "assert RateLimiter is Scheduler\n"
        "s = Scheduler()\n"
        "assert s.check_limits() == (True, 'ok'), s.check_limits()\n"
        "s.consume()\n"
        "print(s.state_file, s.daily_count, s.status()['plan_exists'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["schedule_state.json", "1", "False"]
    assert (tmp_path / "schedule_state.json").exists()


def test_limits_are_named_with_their_numbers_the_hour_first(scheduler, clock):
    assert scheduler.check_limits() == (True, "ok")
    scheduler.consume(5)
    assert scheduler.check_limits() == (False, "hourly_limit (5/5)")
    for _ in range(3):
        clock.advance(timedelta(hours=1))
        scheduler.consume(amount=5)
    clock.advance(timedelta(hours=1))
    assert scheduler.check_limits() == (False, "daily_limit (20/20)")
    for _ in range(3):
        clock.advance(timedelta(days=1))
        for _ in range(4):
            scheduler.consume(5)
            clock.advance(timedelta(hours=1))
    clock.advance(timedelta(days=1))
    assert scheduler.check_limits() == (False, "weekly_limit (80/80)")
    clock.advance(timedelta(days=3))
    assert scheduler.check_limits() == (True, "ok")


def test_status_is_a_dict_of_what_is_used_and_allowed(scheduler):
    assert scheduler.status() == {
        "daily": {"used": 0, "limit": 20},
        "weekly": {"used": 0, "limit": 80},
        "hourly": {"used": 0, "limit": 5},
        "plan_exists": False,
        "plan_week": None,
    }
    scheduler.generate_weekly_plan(PEOPLE)
    scheduler.consume(2)
    said = scheduler.status()
    assert (said["plan_exists"], said["plan_week"]) == (True, 7)
    assert said["daily"] == {"used": 2, "limit": 20}


def test_a_plan_of_plain_rows_is_the_production_planners(scheduler, path):
    plan = scheduler.generate_weekly_plan(PEOPLE)
    assert isinstance(plan, WeeklyPlan)
    assert (plan.week_start, plan.week_number, plan.total_budget) == (date(2026, 2, 9), 7, 80)
    assert plan.created_at == MONDAY
    assert list(plan.days) == [f"2026-02-{day:02d}" for day in range(9, 16)]
    assert sum(slot.budget for slot in plan.days.values()) == 80
    for day, slot in plan.days.items():
        assert isinstance(slot, DailySlot)
        assert (slot.date.isoformat(), slot.completed) == (day, 0)
        assert len(slot.engagements) == slot.budget
        times = [each.scheduled_time for each in slot.engagements]
        assert times == sorted(times)
        assert all(time(9) <= at < time(18) for at in times)
    monday = plan.days["2026-02-09"].engagements
    assert all(isinstance(each, ScheduledEngagement) for each in monday)
    assert all(each.status == "pending" for each in monday)
    assert any(each.forced for each in monday)
    never = {row["linkedin_url"] for row in PEOPLE if not row["last_engaged_date"]}
    planned = {each.linkedin_url: each for slot in plan.days.values() for each in slot.engagements}
    assert {planned[url].days_since_last_like for url in never & planned.keys()} == {999.0}
    assert "https://www.linkedin.com/in/person-05/" not in planned  # paused
    assert scheduler.plan == plan

    from stoker.compat.touches.profiles import parse_rows
    from stoker.compat.touches.rule import build_rule

    profiles = parse_rows(PEOPLE, zone="UTC", now=MONDAY).profiles
    ours = plan_week(
        profiles,
        monday=plan.week_start,
        rule=build_rule(),
        seed=derive_seed("default", "2026-W07"),
        zone="UTC",
        created_at=MONDAY,
    )
    assert [(t.url, t.at.strftime("%H:%M")) for slot in ours.days for t in slot.touches] == [
        (each.linkedin_url, f"{each.scheduled_time:%H:%M}")
        for slot in plan.days.values()
        for each in slot.engagements
    ]


def test_a_plan_is_json_and_back(scheduler, clock):
    plan = scheduler.generate_weekly_plan(PEOPLE)
    written = json.loads(json.dumps(plan.to_json()))
    assert WeeklyPlan.from_json(written) == plan
    assert plan.get_today(clock.now().date()) is plan.days["2026-02-09"]
    assert plan.get_today(date(2026, 2, 16)) is None
    assert plan.total_completed() == 0


def test_the_queue_makes_a_plan_when_this_week_has_none(scheduler, clock):
    assert scheduler.get_todays_queue() == []  # no profile is known
    scheduler.generate_weekly_plan(PEOPLE)
    clock.jump(MONDAY + timedelta(days=7, hours=2))
    queue = scheduler.get_todays_queue()
    assert scheduler.plan.week_number == 8
    assert queue == scheduler.plan.days["2026-02-16"].engagements
    assert queue


def test_a_script_that_starts_late_has_the_whole_days_queue(path):
    late = FakeClock(MONDAY.replace(hour=19))
    scheduler = Scheduler(path, clock=late)
    plan = scheduler.generate_weekly_plan(PEOPLE)
    queue = scheduler.get_todays_queue()
    assert len(queue) == plan.days["2026-02-09"].budget
    late.advance(timedelta(hours=1))
    assert scheduler.get_todays_queue() == queue


def test_consuming_and_marking_done_count_one(scheduler):
    scheduler.generate_weekly_plan(PEOPLE)
    first, second, third, *_ = scheduler.get_todays_queue()
    scheduler.consume()
    assert scheduler.mark_outcome(first.linkedin_url, "done")
    assert used(scheduler) == (1, 1, 1)
    assert scheduler.mark_outcome(second.linkedin_url, "done")  # without consuming: it counts
    assert used(scheduler) == (2, 2, 2)
    assert not scheduler.mark_outcome(second.linkedin_url, "done")
    assert scheduler.mark_outcome(third.linkedin_url, "no_posts")
    assert used(scheduler) == (2, 2, 2)
    assert scheduler.plan.total_completed() == 2
    statuses = {
        each.linkedin_url: each.status
        for each in scheduler.plan.get_today(date(2026, 2, 9)).engagements
    }
    assert [statuses[each.linkedin_url] for each in (first, second, third)] == [
        "done",
        "done",
        "no_posts",
    ]
    assert first not in scheduler.get_todays_queue()


def test_several_consumed_before_they_are_marked_count_once_each(scheduler):
    scheduler.generate_weekly_plan(PEOPLE)
    queue = scheduler.get_todays_queue()
    scheduler.consume(3)
    scheduler.mark_outcome(queue[3].linkedin_url, "failed")
    for each in queue[:3]:
        scheduler.mark_outcome(each.linkedin_url, "done")
    assert used(scheduler) == (3, 3, 3)
    scheduler.mark_outcome(queue[4].linkedin_url, "done")
    assert used(scheduler) == (4, 4, 4)


def test_what_was_consumed_yesterday_pays_for_nothing_today(scheduler, clock):
    scheduler.generate_weekly_plan(PEOPLE)
    scheduler.consume()
    clock.advance(timedelta(days=1))
    [first, *_] = scheduler.get_todays_queue()
    scheduler.mark_outcome(first.linkedin_url, "done")
    assert used(scheduler) == (1, 1, 2)


def test_an_outcome_nobody_planned_is_recorded(scheduler, path):
    assert scheduler.mark_outcome(UNKNOWN, "done")
    assert used(scheduler) == (1, 1, 1)
    assert not scheduler.mark_outcome(UNKNOWN, "done")
    assert not scheduler.mark_outcome(UNKNOWN, "failed")  # it was made, and stays made
    records = json.loads(path.with_name("schedule_state.stoker.json").read_text())
    assert [(each["url"], each["outcome"]) for each in records["outcomes"]] == [(UNKNOWN, "done")]
    with pytest.raises(PermanentError, match="say one of done, skipped, failed"):
        scheduler.mark_outcome(UNKNOWN, "perhaps")
    assert used(scheduler) == (1, 1, 1)


def test_one_planned_for_later_and_touched_today_is_not_touched_again_soon(scheduler):
    plan = scheduler.generate_weekly_plan(PEOPLE)
    today = {each.linkedin_url for each in plan.days["2026-02-09"].engagements}
    later = next(
        each.linkedin_url
        for each in plan.days["2026-02-10"].engagements
        if each.linkedin_url not in today
    )
    assert scheduler.mark_outcome(later, "done")
    scheduler.get_todays_queue()
    tuesday = scheduler.plan.days["2026-02-10"].engagements
    assert later not in {each.linkedin_url for each in tuesday}


def test_everything_works_inside_a_running_event_loop(scheduler):
    async def script():
        scheduler.generate_weekly_plan(PEOPLE)
        queue = scheduler.get_todays_queue()
        scheduler.consume()
        scheduler.mark_outcome(queue[0].linkedin_url, "done")
        return scheduler.check_limits(), scheduler.status()["daily"]["used"]

    assert asyncio.run(script()) == ((True, "ok"), 1)


def test_an_error_reaches_the_script_as_it_is(scheduler):
    with pytest.raises(PermanentError, match="name it linkedin_url or url, not one of: link, nam"):
        scheduler.generate_weekly_plan([{"nam": "Ann", "link": ""}])


def test_a_row_that_cannot_be_planned_is_named_and_the_others_are(path, clock):
    said = []
    scheduler = Scheduler(path, clock=clock, report=said.append)
    rows = [*PEOPLE[:30], {"linkedin_url": PEOPLE[40]["linkedin_url"], "last_engaged_date": "soon"}]
    plan = scheduler.generate_weekly_plan(rows)
    assert sum(len(slot.engagements) for slot in plan.days.values()) > 30
    assert said == [
        "row 31 is not planned: its last_done_at is 'soon'; give it as 2026-02-07 or "
        "2026-02-07T09:30"
    ]


def test_who_is_no_longer_listed_is_no_longer_planned(scheduler):
    scheduler.generate_weekly_plan(PEOPLE)
    scheduler._clock.jump(MONDAY + timedelta(days=7))
    listed = {row["linkedin_url"] for row in PEOPLE[:40]}
    plan = scheduler.generate_weekly_plan(PEOPLE[:40])
    planned = {each.linkedin_url for slot in plan.days.values() for each in slot.engagements}
    assert planned <= listed
    again = Scheduler(scheduler.state_file, clock=FakeClock(MONDAY + timedelta(days=14)))
    plan = again.generate_weekly_plan(PEOPLE)
    planned = {each.linkedin_url for slot in plan.days.values() for each in slot.engagements}
    assert planned - listed


# A file that a script left in the middle of its week.


@pytest.fixture
def under_way(path):
    shutil.copy(DATA / "schedule_state_under_way.json", path)
    return Scheduler(state_file=str(path), clock=FakeClock(WEDNESDAY))


def test_a_week_with_34_used_has_34_used(under_way, path):
    assert used(under_way) == (2, 11, 34)
    assert (under_way.hourly_count, under_way.daily_count, under_way.weekly_count) == (2, 11, 34)
    under_way.consume()
    assert used(under_way) == (3, 12, 35)
    assert used(Scheduler(path, clock=FakeClock(WEDNESDAY))) == (3, 12, 35)
    aside = [each.name for each in path.parent.iterdir() if "older" in each.name]
    assert aside == []


def test_counters_of_windows_that_are_over_are_not_taken_over(under_way, path):
    def later(**span):
        return Scheduler(path, clock=FakeClock(WEDNESDAY + timedelta(**span)))

    assert used(later(hours=1)) == (0, 11, 34)
    assert used(later(days=1)) == (0, 0, 34)
    assert used(later(days=5)) == (0, 0, 0)


def test_a_plan_under_way_goes_on(under_way):
    before = json.loads((DATA / "schedule_state_under_way.json").read_text())["plan"]
    assert under_way.plan.to_json()["days"]["2026-02-10"] == before["days"]["2026-02-10"]
    assert under_way.plan.total_completed() == 27
    queue = under_way.get_todays_queue()
    pending = [
        each["linkedin_url"]
        for each in before["days"]["2026-02-11"]["engagements"]
        if each["status"] == "pending"
    ]
    assert [each.linkedin_url for each in queue] == pending
    under_way.consume()
    assert under_way.mark_outcome(pending[0], "done")
    assert used(under_way) == (3, 12, 35)
    assert under_way.plan.days["2026-02-11"].completed == 5
    assert under_way.plan.total_budget == before["total_budget"]
    done = {
        each["linkedin_url"]
        for each in before["days"]["2026-02-11"]["engagements"]
        if each["status"] == "done"
    }
    thursday = {e.linkedin_url for e in under_way.plan.days["2026-02-12"].engagements}
    assert not thursday & {*done, pending[0]}


def test_the_file_keeps_exactly_the_known_shape(under_way, path):
    under_way.consume()
    state = json.loads(path.read_text())
    known = json.loads((DATA / "schedule_state_under_way.json").read_text())
    assert set(state) == {"counters", "plan"}
    assert state["counters"].keys() == known["counters"].keys()
    assert state["counters"]["daily_reset_date"] == "2026-02-11"
    assert state["plan"].keys() == known["plan"].keys()
    slot, old = state["plan"]["days"]["2026-02-09"], known["plan"]["days"]["2026-02-09"]
    assert slot == old
    assert path.with_name("schedule_state.stoker.json").exists()


def test_what_the_old_script_does_meanwhile_is_taken_over(under_way, path):
    under_way.consume()
    state = json.loads(path.read_text())
    for name in ("daily_count", "weekly_count", "hourly_count"):
        state["counters"][name] += 1
    touched = state["plan"]["days"]["2026-02-11"]["engagements"][5]
    touched["status"] = "done"
    path.write_text(json.dumps(state))
    assert used(under_way) == (4, 13, 36)
    assert under_way.plan.days["2026-02-11"].completed == 5
    assert touched["linkedin_url"] not in {e.linkedin_url for e in under_way.get_todays_queue()}


def test_an_earlier_copy_of_the_file_gives_nothing_away_twice(under_way, path):
    under_way.consume(3)
    path.write_text((DATA / "schedule_state_under_way.json").read_text())
    assert used(under_way) == (5, 14, 37)


def test_counts_can_be_set(scheduler):
    scheduler.hourly_count = 5
    assert scheduler.check_limits() == (False, "hourly_limit (5/5)")
    scheduler.hourly_count = 0
    scheduler.daily_count = 20
    assert scheduler.check_limits() == (False, "daily_limit (20/20)")
    assert used(scheduler) == (0, 20, 0)


# Constants.

CHANGES = {
    "WEEKLY_BUDGET_TARGET": 50,
    "DAILY_BUDGET_MEAN": 6,
    "DAILY_BUDGET_STD": 1,
    "DAILY_BUDGET_MIN": 11,
    "DAILY_BUDGET_MAX": 12,
    "FORCE_INCLUDE_DAYS_THRESHOLD": 5,
    "COVERAGE_GUARANTEE_DAYS": 8,
    "PRIORITY_DAYS_WEIGHT": 0.1,
    "PRIORITY_DAYS_CAP": 3.0,
    "PRIORITY_JITTER_MAX": 50.0,
    "SELECTION_POOL_MULTIPLIER": 5,
    "TIMING_RATE_MORNING_WARMUP": 3.0,
    "TIMING_RATE_MID_MORNING": 0.1,
    "TIMING_RATE_LUNCH_DIP": 3.0,
    "TIMING_RATE_AFTERNOON_PEAK": 0.1,
    "TIMING_RATE_AFTERNOON_WIND": 3.0,
    "TIMING_RATE_END_OF_DAY": 3.0,
    "TIMING_MIN_GAP_MINUTES": 25,
    "TIMING_JITTER_MINUTES": 60,
    "BURST_DAY_PROBABILITY": 1.0,
    "HOURLY_LIMIT": 1,
    "DAILY_LIMIT": 12,
    "WEEKLY_LIMIT": 60,
    "OPERATING_START": time(12),
    "OPERATING_END": time(15),
}


# In a steady state few have waited so long that nothing else counts.
RESTED = [
    {
        "linkedin_url": f"https://www.linkedin.com/in/{n}/",
        "days_since_last_like": 14 if n < 7 else n % 9 + 1,
    }
    for n in range(150)
]


@pytest.mark.parametrize("name", CHANGES)
def test_changing_a_constant_changes_the_plan(tmp_path, name):
    def plan(place):
        return Scheduler(tmp_path / place, clock=FakeClock(MONDAY)).generate_weekly_plan(RESTED)

    usual = plan("usual.json")
    assert plan("again.json") == usual
    setattr(settings, name, CHANGES[name])
    assert plan("changed.json") != usual


def test_how_many_are_forced_a_day_changes_the_plan(tmp_path):
    settings.FORCE_INCLUDE_DAYS_THRESHOLD = 5

    def count_forced(place):
        scheduler = Scheduler(tmp_path / place, clock=FakeClock(MONDAY))
        plan = scheduler.generate_weekly_plan(RESTED[7:])
        return sum(each.forced for each in plan.days["2026-02-09"].engagements)

    assert count_forced("usual.json") == 5
    settings.FORCE_INCLUDE_MAX_PER_DAY = 2
    assert count_forced("changed.json") == 2


@pytest.mark.parametrize(("least", "most"), [(1, 1), (8, 8)])
def test_the_extra_of_a_burst_day_changes_the_plan(tmp_path, least, most):
    settings.BURST_DAY_PROBABILITY = 1.0
    settings.DAILY_BUDGET_STD = 1

    def plan(place):
        return Scheduler(tmp_path / place, clock=FakeClock(MONDAY)).generate_weekly_plan(PEOPLE)

    usual = plan("usual.json")
    settings.BURST_DAY_EXTRA_MIN, settings.BURST_DAY_EXTRA_MAX = least, most
    assert plan("changed.json") != usual


def test_a_limit_is_obeyed_as_soon_as_it_is_set(scheduler):
    scheduler.consume(2)
    settings.HOURLY_LIMIT = 2
    assert scheduler.check_limits() == (False, "hourly_limit (2/2)")
    settings.HOURLY_LIMIT, settings.DAILY_LIMIT = 9, 2
    assert scheduler.check_limits() == (False, "daily_limit (2/2)")
    settings.DAILY_LIMIT, settings.WEEKLY_LIMIT = 9, 2
    assert scheduler.check_limits() == (False, "weekly_limit (2/2)")


def test_a_small_week_is_planned_though_the_daily_minimum_is_larger(scheduler):
    settings.WEEKLY_BUDGET_TARGET = 10
    plan = scheduler.generate_weekly_plan(PEOPLE)
    assert plan.total_budget == 10


def test_times_are_those_of_the_zone_that_is_set(tmp_path):
    settings.TIMEZONE = "America/New_York"
    evening = FakeClock(datetime(2026, 2, 10, 2, 0, tzinfo=UTC))  # still Monday there
    scheduler = Scheduler(tmp_path / "s.json", clock=evening)
    plan = scheduler.generate_weekly_plan(PEOPLE)
    queue = scheduler.get_todays_queue()
    assert queue == plan.days["2026-02-09"].engagements
    assert all(time(9) <= each.scheduled_time < time(18) for each in queue)


# Functions.


def test_a_priority_is_the_wait_up_to_a_ceiling_and_some_chance():
    at = datetime(2026, 2, 11, 12, tzinfo=UTC)
    drawn = [calculate_priority({"last_engaged_date": "2026-02-01"}, at) for _ in range(200)]
    assert all(8.0 <= score <= 13.0 for score in drawn)
    assert max(drawn) - min(drawn) > 3
    settings.PRIORITY_JITTER_MAX = 0.0
    assert calculate_priority({"last_engaged_date": "2026-02-01"}, at) == pytest.approx(8.0)
    assert calculate_priority({"last_engaged_date": ""}, at) == pytest.approx(12.0)
    assert calculate_priority({"name": "Ann"}) == pytest.approx(12.0)
    assert calculate_priority({"days_since_last_like": 5}, at) == pytest.approx(4.0)
    with pytest.raises(StokerError, match="cannot be scored"):
        calculate_priority({"last_engaged_date": "soon"}, at)


def test_all_active_profiles_are_scored_the_highest_first():
    scored = score_all_profiles(PEOPLE, MONDAY)
    assert len(scored) == 99
    scores = [each.priority_score for each in scored]
    assert scores == sorted(scores, reverse=True)
    assert all(each.forced == (each.days_since_last_like > 12) for each in scored)
    assert {each.name for each in scored} == {row["name"] for row in PEOPLE} - {"Person 5"}


def test_a_day_has_its_budget_the_overdue_and_no_one_of_yesterday():
    scored = score_all_profiles(PEOPLE, MONDAY)
    yesterday = {each.linkedin_url for each in scored[:20]}
    chosen = select_for_day(scored, 12, yesterday)
    urls = {each.linkedin_url for each in chosen}
    assert (len(chosen), len(urls)) == (12, 12)
    assert not urls & yesterday
    assert any(each.forced for each in chosen)
    assert select_for_day(scored, 0, set()) == []
    assert select_for_day([], 5, set()) == []


def test_what_a_script_scores_itself_counts():
    scored = [ScoredProfile(f"https://a.test/{n}", "", 1.0, 5.0) for n in range(40)]
    scored[33].priority_score = 10.0**9
    assert scored[33] in select_for_day(scored, 4, set())


def test_times_of_a_day_are_in_order_apart_and_inside_its_hours():
    day = date(2026, 2, 11)
    found = generate_daily_timestamps(20, day)
    assert len(found) == 20
    minutes = [at.hour * 60 + at.minute for at in found]
    assert all(after - before >= 3 for before, after in pairwise(minutes))
    assert minutes[0] >= 9 * 60
    assert minutes[-1] < 18 * 60
    assert len(generate_daily_timestamps(1000, day)) == 45  # five an hour fit
    assert generate_daily_timestamps(0, day) == []
    assert all(time(14) <= at < time(15) for at in generate_daily_timestamps(3, time(14), time(15)))


# The command line.


def run(place, *words):
    done = subprocess.run(
        [sys.executable, "-m", "stoker.compat.touches", *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TZ": "Europe/Berlin"},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_the_flags_of_the_planner_are_commands_on_the_same_file(tmp_path):
    shutil.copy(DATA / "state_tracker.csv", tmp_path)
    code, out, err = run(tmp_path, "--generate-week", "--profiles", "state_tracker.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["zone"] == "Europe/Berlin"
    state = json.loads((tmp_path / "schedule_state.json").read_text())
    code, out, _ = run(tmp_path, "--show-plan", "--json")
    shown = json.loads(out)
    assert (code, shown["total"]) == (0, state["plan"]["total_budget"])
    code, out, _ = run(tmp_path, "--batch", "--dry-run", "--json")
    assert (code, json.loads(out)["way"]) == (0, "file")
    code, out, _ = run(tmp_path, "--status", "--json")
    assert json.loads(out)["counters"]["week"] == {"used": 0, "limit": 80}
    assert run(tmp_path, "--batch", "--show-plan")[0] == 2
    assert run(tmp_path)[0] == 2
