"""What a tenant's touches promise from day to day: nothing forgotten, nothing counted twice."""

import asyncio
import gc
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.touch_desk import ACME, DAY, HOUR, MONDAY_AT_EIGHT, WEEK, ZONE, memory, opened, people
from stoker import RateLimiter, Scheduler, scheduler_in_file
from stoker.base.errors import ConflictError, PermanentError, TransientError
from stoker.files.tables import ColumnUse
from stoker.testing import FakeClock
from stoker.touches.model import Profile, ProfileStatus, TouchOutcome
from stoker.touches.profiles import ParsedProfiles
from stoker.touches.service import TouchService, pause_garbage_collection
from stoker.touches.settings import PlanRule


def running(scenario):
    return asyncio.run(scenario)


async def test_the_first_look_plans_the_week_and_later_ones_leave_todays_times_alone():
    at = await opened()
    first = await at.touching.get_todays_queue()
    assert first == sorted(first, key=lambda touch: touch.at)
    assert all(touch.handed_at == MONDAY_AT_EIGHT for touch in first)
    revision = (await at.touching.ensure_plan()).revision
    for _ in range(10):
        at.clock.advance(HOUR)
        assert await at.touching.get_todays_queue() == first
    assert (await at.touching.ensure_plan()).revision == revision


async def test_whose_touch_failed_is_in_line_again_and_whose_was_made_is_not():
    at = await opened(number=12, rule=PlanRule(daily_min=5, weekly_budget=40, weekly_cap=40))
    first = await at.touching.get_todays_queue()
    failed, done = first[0], first[1]
    await at.touching.mark_outcome(failed.url, "failed")
    await at.touching.mark_outcome(done.url, "done")
    assert {each.url for each in await at.touching.get_todays_queue()} == {
        each.url for each in first[2:]
    }
    at.clock.advance(DAY)
    second = {each.url for each in await at.touching.get_todays_queue()}
    assert failed.url in second
    assert done.url not in second


async def test_a_plan_of_another_week_is_left_behind_for_a_new_one():
    at = await opened()
    await at.touching.get_todays_queue()
    first = await at.touching.find_plan()
    at.clock.advance(3 * WEEK)
    queue = await at.touching.get_todays_queue()
    second = await at.touching.find_plan()
    assert (first.week, second.week) == ("2026-W07", "2026-W10")
    assert first.seed != second.seed
    assert queue[0].day == second.monday


@pytest.mark.parametrize(
    ("moment", "zone", "week"),
    [
        (datetime(2027, 1, 2, 4, tzinfo=UTC), "Asia/Singapore", "2026-W53"),
        (datetime(2026, 12, 27, 17, tzinfo=UTC), "Asia/Singapore", "2026-W53"),
        (datetime(2026, 12, 27, 15, tzinfo=UTC), "Asia/Singapore", "2026-W52"),
        (datetime(2024, 12, 31, 23, tzinfo=UTC), "Europe/London", "2025-W01"),
        (datetime(2026, 3, 29, 0, 30, tzinfo=UTC), "Europe/Berlin", "2026-W13"),
        (datetime(2026, 2, 8, 11, tzinfo=UTC), "Pacific/Apia", "2026-W07"),
    ],
)
async def test_the_week_is_that_of_the_tenants_own_day(moment, zone, week):
    at = await opened(at=moment, zone=zone)
    await at.touching.get_todays_queue()
    assert (await at.touching.status()).week == week
    assert (await at.touching.find_plan()).week == week


async def test_a_week_begun_late_has_no_touches_on_days_that_are_over():
    at = await opened(at=MONDAY_AT_EIGHT + 3 * DAY + 5 * HOUR)
    queue = await at.touching.get_todays_queue()
    plan = await at.touching.find_plan()
    assert [bool(slot.touches) for slot in plan.days] == [False] * 3 + [True] * 4
    assert all(touch.at >= at.clock.now() for touch in queue)


async def test_the_same_profiles_and_seed_give_the_same_plan_and_another_seed_another():
    plans = []
    for seed in (7, 7, 8):
        at = await opened()
        plans.append(await at.touching.generate_weekly_plan("2026-W08", seed=seed))
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    assert await at.touching.preview_week("2026-W08", seed=8) == plans[2]


async def test_a_week_that_has_begun_keeps_what_was_handed_out_whatever_the_seed():
    at = await opened()
    handed = await at.touching.get_todays_queue()
    await at.touching.mark_outcome(handed[0].url, "done")
    before = await at.touching.find_plan()
    after = await at.touching.generate_weekly_plan(seed=99)
    assert after.days[0] == before.days[0]
    assert after.days[1:] != before.days[1:]
    assert await at.touching.get_todays_queue() == handed[1:]


async def test_whoever_is_no_longer_active_is_left_alone_at_once():
    at = await opened()
    first, *rest = await at.touching.get_todays_queue()
    gone = Profile(url=first.url, status=ProfileStatus.PRIVATE)
    await at.store.save_profiles([gone])
    assert await at.touching.get_todays_queue() == rest
    at.clock.advance(DAY)
    await at.touching.get_todays_queue()
    later = (await at.touching.find_plan()).days[1:]
    assert first.url not in {touch.url for slot in later for touch in slot.touches}


async def test_a_profile_done_elsewhere_since_is_held_back_for_its_rest():
    at = await opened(rule=PlanRule(min_rest=5 * DAY))
    first, second, *rest = await at.touching.get_todays_queue()
    await at.store.save_profiles(
        [
            Profile(url=first.url, last_done_at=at.clock.now() - 4 * DAY),
            Profile(url=second.url, last_done_at=at.clock.now() - 5 * DAY),
        ]
    )
    assert await at.touching.get_todays_queue() == [second, *rest]


@pytest.mark.parametrize("rest", [1, 2, 5])
async def test_no_profile_is_done_twice_within_its_rest_from_week_to_week(rest):
    rule = PlanRule(min_rest=rest * DAY, daily_min=1)
    at = await opened(number=14, rule=rule)
    done = defaultdict(list)
    for _ in range(21):
        for touch in await at.touching.get_todays_queue():
            await at.touching.mark_outcome(touch.url, "done")
            done[touch.url].append(touch.day)
        at.clock.advance(DAY)
    waits = [(b - a).days for days in done.values() for a, b in pairwise(days)]
    assert min(waits) == rest


async def test_next_week_counts_what_this_weeks_plan_will_have_done():
    at = await opened(number=40)
    this = await at.touching.generate_weekly_plan()
    following = await at.touching.generate_weekly_plan("2026-W08")
    third = await at.touching.generate_weekly_plan("2026-W09")
    planned = {}
    for plan in (this, following, third):
        for slot in plan.days:
            for touch in slot.touches:
                since = (slot.day - planned[touch.url]).days if touch.url in planned else None
                assert touch.days_since == since
                assert since is None or since >= 2
            planned |= {touch.url: slot.day for touch in slot.touches}
    assert len(planned) == 40
    assert await at.touching.preview_week("2026-W08") == following


@pytest.mark.parametrize("rest", [2, 5])
async def test_a_touch_without_an_outcome_may_have_been_made_so_its_profile_rests(rest):
    at = await opened(
        number=9, rule=PlanRule(min_rest=rest * DAY, daily_min=1, weekly_budget=7, daily_mean=1)
    )
    handed = defaultdict(list)
    for _ in range(14):
        for touch in await at.touching.get_todays_queue():
            handed[touch.url].append(touch.day)
        at.clock.advance(DAY)
    waits = [(b - a).days for days in handed.values() for a, b in pairwise(days)]
    assert min(waits) >= rest
    assert sum(map(len, handed.values())) == 14


async def test_the_list_is_read_when_a_week_is_planned_and_on_a_days_first_look():
    asked, status = [], ColumnUse(meanings={"status": "status"})

    async def read_list():
        asked.append(at.clock.now())
        paused = replace(people(1)[0], status=ProfileStatus.PAUSED)
        return ParsedProfiles(profiles=(paused, *people(9)[5:]), bad_rows=(), columns=status)

    at = await opened(number=5)
    touching = TouchService(
        at.store, rule=PlanRule(), zone=ZONE, clock=at.clock, tenant=ACME, source=read_list
    )
    before = await touching.preview_week()
    assert len(await touching.list_profiles()) == 5
    urls = {touch.url for touch in await touching.get_todays_queue()}
    assert urls == {touch.url for touch in before.days[0].touches}
    assert urls == {each.url for each in people(9)[1:]}
    for _ in range(3):
        await touching.mark_outcome(urls.pop(), "done")
        await touching.get_todays_queue()
    assert len(asked) == 2
    at.clock.advance(DAY)
    await touching.get_todays_queue()
    assert len(asked) == 3
    await touching.generate_weekly_plan()
    assert len(asked) == 4


async def test_only_the_days_of_the_week_that_are_set_have_touches():
    at = await opened(rule=PlanRule(weekdays=(1, 2, 3, 4, 5)))
    plan = await at.touching.generate_weekly_plan()
    assert [bool(slot.touches) for slot in plan.days] == [True] * 5 + [False] * 2
    assert plan.total == 80


@pytest.mark.parametrize(
    ("url", "outcome", "says"),
    [
        ("https://people.test/nobody", "done", "no touch"),
        ("not an address", "done", "address"),
        (None, "finished", "already_reacted"),
        (None, "", "done, skipped"),
    ],
)
async def test_an_unknown_url_or_outcome_is_a_clear_error_that_changes_nothing(url, outcome, says):
    at = await opened()
    queue = await at.touching.get_todays_queue()
    before = (
        await at.touching.ensure_plan(),
        await at.touching.status(),
        await at.touching.list_profiles(),
    )
    with pytest.raises(PermanentError, match=says):
        await at.touching.mark_outcome(url or queue[0].url, outcome)
    after = (
        await at.touching.ensure_plan(),
        await at.touching.status(),
        await at.touching.list_profiles(),
    )
    assert after == before


async def test_a_touch_of_a_later_day_is_not_marked_today():
    at = await opened()
    today = {each.url for each in await at.touching.get_todays_queue()}
    plan = await at.touching.find_plan()
    later = next(t for slot in plan.days[1:] for t in slot.touches if t.url not in today)
    with pytest.raises(PermanentError, match=str(later.day)):
        await at.touching.mark_outcome(later.url, "done")


async def test_fridays_touch_can_still_be_marked_on_monday():
    at = await opened(at=MONDAY_AT_EIGHT + 4 * DAY)
    friday = (await at.touching.get_todays_queue())[0]
    at.clock.advance(3 * DAY)
    assert await at.touching.mark_outcome(friday.url, "skipped")
    assert await at.store.list_outcomes(since=friday.day) != []


class Watched:
    """A store that remembers which verbs were asked of it."""

    def __init__(self, store):
        self._store, self.asked = store, []

    def __getattr__(self, verb):
        self.asked.append(verb)
        return getattr(self._store, verb)


WHOLE = {"list_profiles", "find_plan", "save_plan"}  # verbs that take all profiles or a whole week


async def test_after_a_days_first_look_only_what_is_asked_about_is_read():
    at = await opened(Watched(memory()))
    queue = await at.touching.get_todays_queue()
    assert set(at.store.asked) >= WHOLE
    at.store.asked.clear()
    assert await at.touching.get_todays_queue() == queue
    await at.touching.mark_outcome(queue[0].url, "failed")
    await at.touching.load_today(whole_week=False)
    await at.touching.status()
    await at.touching.check_limits()
    assert not set(at.store.asked) & WHOLE
    assert await at.touching.get_todays_queue() == queue[1:]
    assert set(at.store.asked) >= WHOLE


async def test_the_appeal_of_profiles_is_asked_when_a_week_is_planned_and_weighs_the_picks():
    asked = []

    async def appeals():
        asked.append(1)
        return {each.url: 1.0 for each in people(200)[::2]}

    store, clock = memory(), FakeClock(MONDAY_AT_EIGHT)
    await store.save_profiles(
        [replace(each, last_done_at=MONDAY_AT_EIGHT - 2 * DAY) for each in people(200)]
    )

    def touching(factor):
        rule = PlanRule(appeal_factor=factor)
        return TouchService(
            store, rule=rule, zone="Asia/Singapore", clock=clock, tenant=ACME, appeals=appeals
        )

    plain, weighed = [await touching(factor).preview_week() for factor in (0.0, 1000.0)]
    assert asked == [1]
    appealing = [
        sum(int(t.url[-1]) % 2 == 0 for slot in plan.days for t in slot.touches)
        for plan in (plain, weighed)
    ]
    assert appealing[1] > appealing[0]
    await touching(1.0).get_todays_queue()
    await touching(1.0).get_todays_queue()
    assert asked == [1, 1]


async def test_whoever_is_imported_at_noon_is_in_todays_queue_where_there_is_room():
    at = await opened(number=3, rule=PlanRule(weekly_budget=40, weekly_cap=40))
    assert len(await at.touching.get_todays_queue()) == 3
    at.clock.advance(3 * HOUR)
    await at.store.save_profiles(people(30))
    slot = (await at.touching.load_today(whole_week=False)).slot
    assert len(slot.touches) == slot.budget > 3


async def test_another_rule_counts_from_the_next_look_on():
    short = PlanRule(closes=time(9, 30), hourly_cap=3, daily_min=0)
    at = await opened(rule=short)
    assert len(await at.touching.get_todays_queue()) == 3
    longer = TouchService(
        at.store, rule=PlanRule(), zone=at.touching.zone, clock=at.clock, tenant=ACME
    )
    slot = (await longer.load_today(whole_week=False)).slot
    assert slot.budget == 3
    plan = await longer.find_plan()
    assert {touch.at.hour for day in plan.days[1:] for touch in day.touches} > {1}


async def test_the_next_look_of_the_day_repairs_the_days_after_it():
    at = await opened(number=12, rule=PlanRule(daily_min=5, weekly_budget=40, weekly_cap=40))
    failed = (await at.touching.get_todays_queue())[0].url
    await at.touching.mark_outcome(failed, "failed")
    before = {touch.url for touch in (await at.touching.find_plan()).days[1].touches}
    await at.touching.get_todays_queue()
    after = {touch.url for touch in (await at.touching.find_plan()).days[1].touches}
    assert failed not in before
    assert failed in after


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_of_garbage_is_left_as_it_was_also_after_an_error(on):
    was_on = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        with suppress(PermanentError), pause_garbage_collection():
            assert not gc.isenabled()
            raise PermanentError("no")
        assert gc.isenabled() is on
    finally:
        (gc.enable if was_on else gc.disable)()


STEPS = [
    ("the next hour", HOUR, [0, 5, 5]),
    ("the next day", DAY, [0, 0, 5]),
    ("the next week", WEEK, [0, 0, 0]),
    ("three weeks in which nothing ran", 3 * WEEK, [0, 0, 0]),
]


@pytest.mark.parametrize(("step", "used"), [step[1:] for step in STEPS], ids=[s[0] for s in STEPS])
async def test_counters_begin_anew_on_crossing_a_boundary_also_when_nothing_ran(step, used):
    at = await opened()
    await at.touching.consume(5)
    assert await at.touching.check_limits() == (False, "hourly_limit (5/5)")
    at.clock.advance(step)
    told = await at.touching.status()
    assert [told.used[kind] for kind in told.limits] == used
    assert await at.touching.check_limits() == (True, "ok")


async def test_the_first_full_limit_is_named_with_its_numbers():
    at = await opened(rule=PlanRule(hourly_cap=100))
    await at.touching.consume(20)
    assert await at.touching.check_limits() == (False, "daily_limit (20/20)")
    for _ in range(3):
        at.clock.advance(DAY)
        await at.touching.consume(20)
    at.clock.advance(DAY)
    assert await at.touching.check_limits() == (False, "weekly_limit (80/80)")


class Stopping:
    """A store whose process dies after so many writes: before the next one, or just after it."""

    def __init__(self, store, writes, *, after):
        self._store, self.left, self._after = store, writes, after

    def __getattr__(self, verb):
        real = getattr(self._store, verb)
        if verb not in (
            "save_profiles",
            "save_plan",
            "record_outcome",
            "add_to_counters",
            "record_delivery",
        ):
            return real

        async def write(*given, **named):
            self.left -= 1
            if self.left < 0 and not self._after:
                raise TransientError("the process died")
            told = await real(*given, **named)
            if self.left < 0:
                raise TransientError("the process died")
            return told

        return write


async def day_of_work(touching):
    """Work today's queue off, whatever was done of it before."""
    for touch in await touching.get_todays_queue():
        await touching.mark_outcome(touch.url, "done")


class TwoWrites:
    """The naive twin of a store: an outcome and its count are two writes."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, verb):
        return getattr(self._store, verb)

    async def record_outcome(self, week, marked, *, counters):
        news = await self._store.record_outcome(week, marked, counters=())
        if news and marked.outcome.is_counted:
            await self._store.add_to_counters(counters, 1)
        return news


async def crashed(store, writes, *, after, kind=lambda store: store):
    """Die after so many writes, start again, finish the day; return what is known then."""
    at = await opened(store)
    dying = Stopping(store, writes, after=after)
    rule, zone = at.touching.rule, at.touching.zone
    with suppress(TransientError):
        await day_of_work(
            TouchService(kind(dying), rule=rule, zone=zone, clock=at.clock, tenant=ACME)
        )
    planned = await at.touching.find_plan()
    again = TouchService(kind(store), rule=rule, zone=zone, clock=at.clock, tenant=ACME)
    await day_of_work(again)
    plan, told = await again.find_plan(), await again.status()
    used = {told.used[kind] for kind in told.limits}
    same = planned is None or planned.days[0].day == plan.days[0].day
    kept = planned is None or [t.url for t in planned.days[0].touches] == [
        t.url for t in plan.days[0].touches
    ]
    waits = sum(each.last_done_at is not None for each in await again.list_profiles())
    return same and kept and used == {plan.days[0].completed} and waits == plan.days[0].completed


@pytest.mark.parametrize("after", [False, True], ids=["before a write", "after a write"])
async def test_a_crash_at_any_write_loses_neither_plan_nor_counters(after, record_property):
    kept = [await crashed(memory(), writes, after=after) for writes in range(16)]
    record_property("fault", f"touches, crash at a write: n={len(kept)}, {kept.count(False)} lost")
    assert all(kept)


async def test_who_counts_apart_from_marking_is_caught():
    assert not all(
        [await crashed(memory(), writes, after=False, kind=TwoWrites) for writes in range(16)]
    )


async def test_two_processes_that_look_at_once_see_one_plan():
    at = await opened()
    others = [
        TouchService(at.store, rule=PlanRule(), zone=at.touching.zone, clock=at.clock, tenant=ACME)
        for _ in range(5)
    ]
    queues = await asyncio.gather(*(each.get_todays_queue() for each in others))
    assert all(queue == queues[0] for queue in queues)
    words = await asyncio.gather(*(each.mark_outcome(queues[0][0].url, "done") for each in others))
    assert words.count(True) == 1


class Restless:
    """A store whose plan somebody else always changes first."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, verb):
        return getattr(self._store, verb)

    async def save_plan(self, plan, *, seen, basis=None):
        return False


async def test_a_week_others_keep_changing_is_given_up_in_the_end():
    at = await opened()
    at.touching.store = Restless(at.store)
    with pytest.raises(ConflictError):
        await at.touching.get_todays_queue()


DAYS = st.lists(
    st.lists(st.sampled_from([*TouchOutcome, None]), max_size=20), min_size=1, max_size=8
)


@settings(max_examples=25, deadline=None)
@given(DAYS, st.integers(5, 60))
async def test_no_day_or_week_has_more_than_its_budget_and_only_what_was_made_is_counted(
    days, number
):
    at = await opened(number=number)
    made = Counter()
    for words in days:
        queue = await at.touching.get_todays_queue()
        assert len({touch.url for touch in queue}) == len(queue)
        for touch, word in zip(queue, words, strict=False):
            if word is not None:
                await at.touching.mark_outcome(touch.url, word)
                made[touch.day] += word is TouchOutcome.DONE
        plan = await at.touching.find_plan()
        assert all(len(slot.touches) <= slot.budget <= 20 for slot in plan.days)
        assert sum(slot.budget for slot in plan.days) <= 80
        for slot in plan.days:
            assert slot.completed == made[slot.day]
        told = await at.touching.status()
        assert [told.used[kind] for kind in told.limits][1:] == [
            made[at.touching.today()],
            sum(slot.completed for slot in plan.days),
        ]
        at.clock.advance(DAY)


def test_a_script_has_the_same_as_plain_methods_in_one_file(tmp_path):
    assert RateLimiter is Scheduler
    clock, reports = FakeClock(MONDAY_AT_EIGHT), []
    path = tmp_path / "schedule_state.json"
    how = {"zone": "Asia/Singapore", "report": reports.append, "clock": clock}
    with scheduler_in_file(path, **how) as limiter:
        assert limiter.check_limits() == (True, "ok")
        limiter.consume()
        limiter.consume(4)
        assert limiter.check_limits() == (False, "hourly_limit (5/5)")
        assert not limiter.status().has_plan
    clock.advance(HOUR)
    with scheduler_in_file(path, **how) as again:
        assert again.generate_weekly_plan(seed=3).seed == 3
        assert again.get_todays_queue() == []
        told = again.status()
        assert told.has_plan
        assert [told.used[kind] for kind in told.limits] == [0, 5, 5]
        with pytest.raises(PermanentError):
            again.mark_outcome(people(1)[0].url, "done")
    assert reports == []
