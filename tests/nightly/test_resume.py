"""What earlier runs of a day left: which of it is gone on with, in what order, and for how many."""

from datetime import UTC, datetime, time, timedelta

import pytest

from stoker.accounts.model import Company, CompanyId, CompanyRecord
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, TenantId
from stoker.budgets.windows import ResetRule
from stoker.enrichment.model import CRAWL, KIND, PULL_UNITS, WorkItem, WorkState
from stoker.enrichment.store import PAGE_SIZE
from stoker.nightly.resume import find_unfinished_work, get_selection, limit_to_daily_cap
from stoker.runs.model import Run, RunKey, RunState, format_run_name
from stoker.runs.service import RunHandle
from stoker.testing import EventRecorder, FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MIDNIGHT = NOON - timedelta(hours=12)
HOUR = timedelta(hours=1)
NINE, TEN, ELEVEN = NOON - 3 * HOUR, NOON - 2 * HOUR, NOON - HOUR
WAITING, TAKEN, DONE = WorkState.WAITING, WorkState.CLAIMED, WorkState.DONE
SHED, DEGRADED, POISONED = WorkState.DROPPED, WorkState.DEGRADED, WorkState.FAILED
UNKNOWN = WorkState.UNKNOWN
EVERY_WAY = dict(
    zip("abcdefg", (TAKEN, WAITING, DONE, SHED, DEGRADED, POISONED, UNKNOWN), strict=True)
)
CUT_SHORT = [RunState.RUNNING, RunState.FAILED, RunState.CANCELLED]
LOOKED_AT = {DONE, DEGRADED, UNKNOWN}  # and paid for


def unit(name, state=WAITING, *, place=0, because="never scored"):
    looked = state in LOOKED_AT
    return WorkItem(
        company=CompanyId(name),
        rank=place,
        depth=Depth.DEEP,
        state=state,
        reason=because,
        seconds={"crawl": 0.1} if looked else {},
        cost={f"{CRAWL}/{PULL_UNITS}": 3} if looked else {},
    )


class Day:
    """A tenant's day: runs it has had, and one that begins at noon."""

    def __init__(self):
        self.store = MemoryBackend().tenant(TenantId("acme"))

    async def had(self, at, state, made=None, *, kind=KIND, **about):
        """Remember a run that began then, ended so, and made this of whom, in this order."""
        run = Run(key=RunKey(at, 1), kind=kind)
        await self.store.runs.insert_run(run)
        if state is not RunState.RUNNING:
            await self.store.runs.finish_run(run.end(state, at=at))
        units = [
            unit(name, how, place=place, **about)
            for place, (name, how) in enumerate((made or {}).items())
        ]
        if units:
            await self.store.work_items.insert_items(run.name, units)

    async def left(self, *, reset=None, **how):
        """Return what a run that begins at noon would go on with."""
        run = RunHandle(
            key=RunKey(NOON, 2),
            kind=KIND,
            store=self.store,
            clock=FakeClock(NOON),
            observer=EventRecorder(),
        )
        return await find_unfinished_work(run, kind=KIND, reset=reset or ResetRule(), **how)


async def left_by(*runs, **how):
    """Return what is gone on with after these runs, each told as `Day.had` is."""

    day = Day()
    for run in runs:
        await day.had(*run)
    return await day.left(**how)


def named(units):
    return "".join(unit.company for unit in units)


async def test_before_the_first_run_of_a_day_nothing_is_left():
    assert await left_by() is None


@pytest.mark.parametrize("state", CUT_SHORT)
async def test_a_night_that_was_cut_short_goes_on_with_what_never_ended(state):
    left = await left_by((TEN, state, EVERY_WAY))
    assert (left.run, named(left.items)) == (format_run_name(TEN), "ab")
    assert left.paid_companies == {"a"}
    assert left.items[0] == unit(
        "a", place=0, because=f"left by {format_run_name(TEN)}; never scored"
    )
    assert [each.rank for each in left.items] == [0, 1]


async def test_of_a_night_that_came_to_its_end_whatever_was_left_out_is_tried_again():
    left = await left_by((TEN, RunState.PARTIAL, EVERY_WAY))
    assert sorted(named(left.items)) == list("abdef")
    assert [each.rank for each in left.items] == list(range(5))
    assert left.paid_companies == {"a", "e"}
    assert not left.already_retried


@pytest.mark.parametrize(
    ("state", "made"),
    [(RunState.DONE, {"a": DONE}), (RunState.PARTIAL, {"a": DONE, "b": UNKNOWN})],
)
async def test_where_no_look_makes_anything_good_somebody_new_may_be_chosen(state, made):
    assert await left_by((TEN, state, made)) is None


@pytest.mark.parametrize(
    ("since", "left"),
    [((), ""), (((ELEVEN, RunState.FAILED),), ""), (((ELEVEN, RunState.DONE),), "b")],
)
async def test_a_night_that_got_through_and_was_killed_then_lacks_nothing_but_its_end(since, left):
    found = await left_by((TEN, RunState.FAILED, {"a": DONE, "b": DEGRADED}), *since)
    assert (found.run, named(found.items)) == (format_run_name(TEN), left)


async def test_what_a_short_run_did_takes_nothing_away_from_what_a_long_one_left():
    left = await left_by(
        (TEN, RunState.CANCELLED, {"a": DONE, "b": WAITING, "c": WAITING}),
        (ELEVEN, RunState.DONE, {"b": DONE}),
    )
    assert (left.run, named(left.items)) == (format_run_name(TEN), "c")


async def test_what_was_tried_in_vain_all_day_does_not_keep_others_waiting():
    tried = RunState.PARTIAL, {"a": DEGRADED}
    assert not (await left_by((TEN, *tried))).already_retried
    assert (await left_by((TEN, *tried), (ELEVEN, *tried))).already_retried


@pytest.mark.parametrize(
    ("state", "left"),
    [
        (RunState.DONE, None),
        (RunState.PARTIAL, None),
        *((state, "ab") for state in CUT_SHORT),
    ],
)
async def test_where_only_the_killed_count_whoever_ended_as_it_should_has_left_nothing(state, left):
    before = (NINE, RunState.FAILED, {"z": WAITING})
    found = await left_by(before, (TEN, state, EVERY_WAY), killed_only=True)
    assert (found and named(found.items)) == left


@pytest.mark.parametrize(
    "other",
    [
        (TEN, RunState.FAILED, {"a": WAITING}, "discovery"),
        (NOON, RunState.RUNNING, {"a": WAITING}, KIND),  # it is this very run
        (NOON + HOUR, RunState.FAILED, {"a": WAITING}, KIND),
        (MIDNIGHT - HOUR, RunState.FAILED, {"a": WAITING}, KIND),
        (TEN, RunState.FAILED, {}, KIND),
    ],
)
async def test_only_earlier_runs_of_the_day_and_of_this_kind_that_had_chosen_somebody_count(other):
    day = Day()
    at, state, made, kind = other
    await day.had(at, state, made, kind=kind)
    assert await day.left() is None
    await day.had(NINE, RunState.FAILED, {"z": WAITING})
    assert named((await day.left()).items) == "z"


@pytest.mark.parametrize(("at", "left"), [(time(9, 0), "a"), (time(9, 1), None)])
async def test_a_day_begins_when_the_tenants_does(at, left):
    found = await left_by((NINE, RunState.FAILED, {"a": WAITING}), reset=ResetRule(at=at))
    assert (found and named(found.items)) == left


async def test_what_was_left_is_found_behind_however_many_runs_that_chose_nobody():
    nothing = [(TEN + timedelta(minutes=n), RunState.DONE, {}) for n in range(45)]
    left = await left_by((NINE, RunState.FAILED, {"a": WAITING}), *nothing)
    assert named(left.items) == "a"


async def test_whoever_was_left_twice_is_told_by_whom_first():
    day = Day()
    first = f"left by {format_run_name(NINE)}; never scored"
    await day.had(TEN, RunState.FAILED, {"a": WAITING}, because=first)
    [left] = (await day.left()).items
    assert left.reason == first


async def test_more_than_a_page_is_left_whole_and_in_order():
    names = [f"c{number:05}" for number in range(2 * PAGE_SIZE + 5)]
    left = await left_by((TEN, RunState.FAILED, dict.fromkeys(names, WAITING)))
    assert [each.company for each in left.items] == names
    assert [each.rank for each in left.items] == list(range(len(names)))


# Exactly an earlier selection


@pytest.mark.parametrize(("again", "chosen"), [(False, "abdefg"), (True, "abcdefg")])
async def test_an_earlier_selection_is_taken_exactly_without_what_is_done_unless_it_is_wanted(
    again, chosen
):
    day = Day()
    await day.had(TEN, RunState.PARTIAL, EVERY_WAY)
    await day.had(ELEVEN, RunState.DONE, {"z": DONE})
    taken = await get_selection(day.store, format_run_name(TEN), again=again)
    assert (taken.run, named(taken.items)) == (format_run_name(TEN), chosen)
    assert [each.rank for each in taken.items] == list(range(len(chosen)))
    assert {each.state for each in taken.items} == {WAITING}


@pytest.mark.parametrize(("at", "why"), [(TEN, "selected no companies"), (NINE, "there is no run")])
async def test_a_selection_that_is_not_there_is_refused(at, why):
    day = Day()
    await day.had(TEN, RunState.DONE)
    with pytest.raises(ConfigError, match=why):
        await get_selection(day.store, format_run_name(at), again=False)


# How many of them fit into the day


async def looked_at(day, name, at):
    """Look at a company then, in a run of its own."""
    run, ended = format_run_name(at), unit(name, DONE)
    await day.store.work_items.insert_items(run, [unit(name)])
    found = CompanyRecord(company=Company(id=ended.company, name=name), looked_at=at, run=run)
    assert await day.store.work_items.finish_item(run, ended, found)


@pytest.mark.parametrize(
    ("how", "fitting"),
    [
        ({"cap": 10, "limit": None}, "abcd"),
        ({"cap": 10, "limit": 2}, "ab"),
        ({"cap": 10, "limit": 0}, ""),
        ({"cap": 4, "limit": None}, "abc"),  # b and z have had their places, two are left
        ({"cap": 2, "limit": None}, "b"),
        ({"cap": 0, "limit": None}, "b"),
        ({"cap": 4, "limit": None, "chosen": 1}, "ab"),
        ({"cap": 10, "limit": 3, "chosen": 2}, "a"),
        ({"cap": 10, "limit": 1, "chosen": 2}, ""),
    ],
)
async def test_whoever_was_looked_at_today_has_its_place_and_the_others_share_what_is_left(
    how, fitting
):
    day = Day()
    await looked_at(day, "d", MIDNIGHT - HOUR)
    await looked_at(day, "b", MIDNIGHT)
    await looked_at(day, "z", TEN)
    units = [unit(name, place=place) for place, name in enumerate("abcd")]
    kept = await limit_to_daily_cap(day.store.accounts, units, began_at=MIDNIGHT, **how)
    assert named(kept) == fitting
    assert [each.rank for each in kept] == list(range(len(kept)))


async def test_who_was_visited_is_read_in_one_call_however_many_companies_wait():
    class Accounts:
        def __init__(self, real):
            self._real, self.calls = real, []

        def __getattr__(self, verb):
            self.calls.append(verb)
            return getattr(self._real, verb)

    day = Day()
    await looked_at(day, "b", MIDNIGHT)
    accounts = Accounts(day.store.accounts)
    waiting = [unit(name, place=place) for place, name in enumerate("abcdefgh")]
    await limit_to_daily_cap(accounts, waiting, cap=2, limit=None, began_at=MIDNIGHT)
    assert accounts.calls == ["count_visited_since", "list_visited_since"]
