import asyncio
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.base.events import NightProgress, UnitsShed
from stoker.base.types import Depth, TenantId
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.store import PAGE_SIZE
from stoker.enrichment.workers import DeadlineMonitor, RunTimes, WorkQueue, choose_items_to_drop
from stoker.testing import EventRecorder, FakeClock
from vendor_desk import Failing

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
RUN = "20300101_120000"
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


class Flow:
    """How far a flow has come, as the watch is told."""

    def __init__(self, ended, under_way):
        self.ended, self.in_progress = ended, under_way


def units(number):
    return [
        WorkItem(company=CompanyId(f"c{place}"), rank=place, depth=Depth.DEEP)
        for place in range(number)
    ]


def resting(vendors):
    """Say that vendors want to be left alone for so long after noon."""

    async def rests():
        return {name: NOON + until for name, until in vendors.items()}

    return rests


async def watched(*, planned, after, ended, under_way=0, may_take=HOUR, rests=None):
    clock, told = FakeClock(NOON), EventRecorder()
    store = MemoryBackend().tenant(TenantId("acme"))
    await store.work_items.insert_items(RUN, units(planned))
    hand = WorkQueue(store.work_items, RUN, owner="one", clock=clock)
    for unit in await hand.claim(ended + under_way):
        if unit.rank < ended:
            await hand.finish(
                WorkItem(
                    company=unit.company,
                    rank=unit.rank,
                    depth=unit.depth,
                    state=WorkState.DONE,
                    owner=unit.owner,
                ),
                None,
            )
    await clock.sleep(after)
    watch = DeadlineMonitor(
        store,
        RUN,
        pool=Flow(ended, under_way),
        times=RunTimes(began_at=NOON, deadline=NOON + may_take, expected=may_take / 2),
        clock=clock,
        observer=told,
        read_backoffs=resting(rests or {}),
    )
    shed = await watch.check()
    return shed, await store.work_items.list_items(RUN), told


def test_a_night_that_ends_in_time_leaves_nobody_out():
    shed, _, told = asyncio.run(watched(planned=100, after=HOUR / 4, ended=50, under_way=5))
    assert shed == 0
    [progress] = told.of_type(NightProgress)
    assert (progress.ended, progress.under_way, progress.left) == (50, 5, 45)
    assert not progress.late
    assert progress.finish < NOON + HOUR


async def test_a_night_that_would_be_late_leaves_out_the_least_valuable_and_says_so():
    shed, left, told = await watched(planned=100, after=HOUR / 2, ended=25, under_way=5)
    # 25 in half an hour, 5 are under way: 20 more are done by the hour, 50 are not.
    assert shed == 50
    gone = [unit.rank for unit in left if unit.state is WorkState.DROPPED]
    assert gone == list(range(50, 100))
    assert all(unit.reasons for unit in left if unit.state is WorkState.DROPPED)
    assert [event.units for event in told.of_type(UnitsShed)] == [50]


async def test_a_slow_beginning_alone_leaves_nobody_out():
    shed, _, told = await watched(planned=100, after=HOUR / 2, ended=3, under_way=5)
    assert shed == 0
    assert told.of_type(NightProgress)[0].late


async def test_after_the_deadline_nothing_more_is_begun():
    shed, left, _ = await watched(planned=20, after=HOUR, ended=2, under_way=3)
    assert shed == 15
    assert {unit.state for unit in left} == {WorkState.DONE, WorkState.CLAIMED, WorkState.DROPPED}


async def test_of_more_than_a_page_that_wait_the_most_valuable_stay_and_no_others():
    planned = 3 * PAGE_SIZE
    shed, left, _ = await watched(planned=planned, after=HOUR / 2, ended=25, under_way=5)
    assert shed == planned - 50
    assert [unit.rank for unit in left if unit.state is WorkState.WAITING] == list(range(30, 50))


async def watched_to_the_end(**fails):
    """Keep watch over a night whose one unit stays under way, in a store that fails like this."""
    clock, told = FakeClock(NOON), EventRecorder()
    store = MemoryBackend().tenant(TenantId("acme"))
    await store.work_items.insert_items(RUN, units(1))
    await WorkQueue(store.work_items, RUN, owner="one", clock=clock).claim(1)
    watch = DeadlineMonitor(
        replace(store, work_items=Failing(store.work_items, **fails)),
        RUN,
        pool=Flow(0, 1),
        times=RunTimes(began_at=NOON, deadline=NOON + HOUR, expected=HOUR / 2),
        clock=clock,
        observer=told,
        read_backoffs=resting({}),
        interval=timedelta(minutes=1),
    )
    await watch.run()
    return clock.now(), [progress.at for progress in told.of_type(NightProgress)]


async def test_what_is_under_way_at_the_deadline_has_ten_minutes_more_and_no_longer():
    ended_at, looks = await watched_to_the_end()
    assert ended_at == NOON + HOUR + timedelta(minutes=10)
    assert looks == [NOON + timedelta(minutes=minute) for minute in range(1, 71)]


async def test_a_store_that_is_away_for_a_moment_does_not_end_the_watch():
    gone = [TransientError("restarting"), UncertainError("no answer")]
    _, looks = await watched_to_the_end(count_items=gone)
    assert looks == [NOON + timedelta(minutes=minute) for minute in range(3, 71)]


async def test_a_watch_that_can_never_look_again_says_so():
    gone = [PermanentError("the table is gone")]
    with pytest.raises(PermanentError, match="the table is gone"):
        await watched_to_the_end(count_items=gone)


def progress(**how):
    """What is told of a night of twenty that are all under way."""
    _, _, told = asyncio.run(watched(planned=20, ended=0, under_way=20, **how))
    return told.of_type(NightProgress)[0]


MINUTE = timedelta(minutes=1)


def test_a_night_behind_a_vendor_that_wants_to_be_left_alone_says_which_and_until_when():
    rests = {"lusha": 36 * MINUTE, "zerobounce": 41 * MINUTE}
    told = progress(after=35 * MINUTE, rests=rests)
    assert (told.finish, told.late) == (NOON + 41 * MINUTE, False)
    assert (told.waits_for, told.waits_until) == ("zerobounce", NOON + 41 * MINUTE)
    assert told.message() == (
        f"run {RUN}: 0 done, 20 under way, 0 left; not done before 12:41:00 UTC: "
        "waiting for zerobounce until then"
    )


def test_a_night_that_would_end_later_anyway_names_the_vendor_besides():
    told = progress(after=5 * MINUTE, rests={"zerobounce": 15 * MINUTE})
    assert told.finish == NOON + HOUR / 2
    assert told.message().endswith(
        "done about 12:30:00 UTC; waiting for zerobounce until 12:15:00 UTC"
    )


def test_a_night_whose_vendor_wants_to_be_left_alone_past_the_deadline_is_late():
    told = progress(after=55 * MINUTE, rests={"zerobounce": 65 * MINUTE})
    assert told.late
    assert (
        "not done before 13:05:00 UTC, after its deadline: waiting for zerobounce" in told.message()
    )


def test_a_night_of_which_nothing_has_ended_in_the_quoted_time_claims_no_end():
    told = progress(after=35 * MINUTE)
    assert (told.finish, told.late) == (None, False)
    assert told.message().endswith("0 left; nothing done since 12:00:00 UTC")
    late = progress(after=61 * MINUTE)
    assert late.late
    assert late.message().endswith("12:00:00 UTC, and its deadline has passed")


@given(st.integers(0, 60), st.integers(-10, 90), st.integers(1, 5))
def test_shedding_drops_the_least_valuable_and_no_more_than_needed(number, minutes, per_unit):
    waiting, deadline = units(number), NOON + minutes * MINUTE
    shed = choose_items_to_drop(waiting, now=NOON, deadline=deadline, per_unit=per_unit * MINUTE)
    kept = [unit for unit in waiting if unit not in shed]
    assert len(kept) == min(number, max(math.floor(minutes / per_unit), 0))
    assert all(unit.rank < dropped.rank for unit in kept for dropped in shed)
    assert list(shed) == sorted(shed, key=lambda unit: -unit.rank)


@given(st.integers(0, 60), st.integers(-10, 90), st.integers(1, 5), st.integers(1, 9))
def test_shedding_page_by_page_is_shedding_from_all_at_once(number, minutes, per_unit, page):
    waiting, how = units(number), {"now": NOON, "deadline": NOON + minutes * MINUTE}
    at_once = choose_items_to_drop(waiting, per_unit=per_unit * MINUTE, **how)
    paged = [
        unit
        for start in range(0, number, page)
        for unit in choose_items_to_drop(
            waiting[start : start + page], per_unit=per_unit * MINUTE, before=start, **how
        )
    ]
    assert set(map(id, paged)) == set(map(id, at_once))


def test_nothing_is_shed_while_nobody_knows_how_long_a_unit_takes():
    assert choose_items_to_drop(units(5), now=NOON, deadline=NOON, per_unit=timedelta(0)) == ()
