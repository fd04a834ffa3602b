"""A run is asked to stop: by whom, how its work heeds that, and when nobody is there to ask."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kit.wrapped import Wrapped
from stoker.accounts.model import CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.cancellation import cancel_and_wait
from stoker.base.errors import ConflictError, PermanentError, TransientError
from stoker.base.events import RunAskedToStop, RunEnded, RunGivenUp
from stoker.base.types import Depth, TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.crm.model import SentRow
from stoker.enrichment.model import WorkItem
from stoker.enrichment.outcomes import summarize_partial_run
from stoker.runs.cancel import (
    CancelWatcher,
    close_dead_runs,
    request_cancel,
)
from stoker.runs.leases import (
    MAX_CLOCK_SKEW,
    LeaseHolder,
    acquire_lease,
    get_lease_name,
    release_lease,
)
from stoker.runs.model import PROCESS_DIED, Manifest, RunState
from stoker.runs.service import Runner, RunResult
from stoker.testing import EventRecorder, FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LENGTH = timedelta(seconds=30)
SOON = CancelWatcher(poll_interval=timedelta(milliseconds=5))
REASON = "cancelled by ann@desk with: stoker runs cancel"


class Bench:
    """A runner on a store of its own, and leases taken by hand."""

    def __init__(self, heeding=SOON):
        self.store = MemoryBackend().tenant(TenantId("acme"))
        self.clock, self.heard = FakeClock(), EventRecorder()
        self.runner = Runner(
            leases=LeaseHolder(owner="me", clock=self.clock, observer=self.heard, length=LENGTH),
            cancel_watcher=heeding,
            summarize=summarize_partial_run,
        )

    async def lease(self, owner="somebody", kind="work"):
        """Take the lease of a kind of work from any holder."""
        name, now = get_lease_name(kind), self.clock.now()
        seen = await self.store.schedule.find_lease(name)
        wanted = acquire_lease(name, seen, owner=owner, task="", now=now, length=LENGTH)
        assert await self.store.schedule.swap_lease(seen, wanted)
        return wanted

    async def release(self, kind="work"):
        held = await self.store.schedule.find_lease(get_lease_name(kind))
        await self.store.schedule.swap_lease(held, release_lease(held, now=self.clock.now()))

    async def begin(self, kind="work", owner="somebody"):
        lease = await self.lease(owner, kind)
        return await self.runner.start_run(self.store, lease, kind=kind, manifest=Manifest())

    async def close_dead_runs(self, by):
        return await close_dead_runs(self.store, by=by, runner=self.runner)

    async def with_units(self):
        """Begin a run that has chosen two companies."""
        run = await self.begin()
        units = [WorkItem(company=CompanyId(f"c{n}"), rank=n, depth=Depth.DEEP) for n in range(2)]
        await self.store.work_items.insert_items(run.name, units)
        return run

    async def cancel(self, run, by="ann@desk"):
        return await request_cancel(self.store, run, by=by, runner=self.runner)


@pytest.fixture
def bench():
    return Bench()


async def waits(_):
    await asyncio.Event().wait()


class Gentle:
    """Work that comes to its end by itself, after a while, once it is told."""

    kind = "work"

    def __init__(self, ending, takes=0.0):
        self.ending, self.takes = ending, takes
        self.began, self.settled = asyncio.Event(), False

    async def __call__(self, run):
        told = asyncio.Event()
        with run.on_cancel(told.set):
            self.began.set()
            await told.wait()
        await asyncio.sleep(self.takes)
        self.settled = True
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending


async def asked_while(bench, work, run=None):
    """Carry out work, ask its run to stop, and return the run as it ended."""
    run = run or await bench.begin()
    doing = asyncio.ensure_future(bench.runner.execute(bench.store, run, work))
    await bench.cancel(run)
    return await doing


async def test_work_that_cannot_stop_by_itself_is_cut_off_and_what_remains_is_listed(bench):
    ended = await asked_while(bench, waits, await bench.with_units())
    assert (ended.state, ended.reason) == (RunState.CANCELLED, REASON)
    assert ended.manifest.remaining == ended.manifest.selected == ("c0", "c1")
    assert ended.manifest.counts == {"selected": 2, "units_waiting": 2}
    assert await bench.store.runs.find_run(ended.at) == ended
    [heard] = bench.heard.of_type(RunAskedToStop)
    assert heard.message() == f"run {ended.name} is stopping: ann@desk cancelled it"


async def test_work_that_stops_by_itself_says_what_it_came_to(bench):
    ending = RunResult(
        state=RunState.PARTIAL,
        reason="2 of 5 were not begun",
        counts={"seen": 3},
        reasons=("a site was slow",),
        remaining=("d", "e"),
        resume_at=NOON,
    )
    ended = await asked_while(bench, Gentle(ending))
    assert (ended.state, ended.reason) == (RunState.CANCELLED, REASON)
    manifest = ended.manifest
    assert (manifest.counts, manifest.remaining) == ({"seen": 3}, ("d", "e"))
    assert manifest.reasons == ("2 of 5 were not begun", "a site was slow")
    assert manifest.resume_at is None


@pytest.mark.parametrize(
    ("ending", "state", "reason"),
    [
        (RunResult(counts={"seen": 5}), RunState.DONE, ""),
        (PermanentError("the register is gone"), RunState.FAILED, "the register is gone"),
    ],
)
async def test_work_that_was_over_when_it_was_asked_ends_as_it_was(bench, ending, state, reason):
    ended = await asked_while(bench, Gentle(ending))
    assert (ended.state, ended.reason) == (state, reason)


async def test_work_that_takes_too_long_to_stop_is_cut_off():
    short = timedelta(milliseconds=5)
    bench = Bench(CancelWatcher(poll_interval=short, grace_period=short))

    async def promises_and_waits(run):
        with run.on_cancel(lambda: None):
            await asyncio.Event().wait()

    ended = await asked_while(bench, promises_and_waits)
    assert (ended.state, ended.reason) == (RunState.CANCELLED, REASON)


async def test_a_run_nobody_asked_to_stop_goes_on(bench):
    run, other = await bench.begin(), await bench.begin()
    await bench.cancel(other)

    async def takes_a_while(_):
        await asyncio.sleep(0.1)
        return RunResult()

    ended = await bench.runner.execute(bench.store, run, takes_a_while)
    assert ended.state is RunState.DONE
    assert not bench.heard.of_type(RunAskedToStop)


class Flaky(Wrapped):
    """A run store that cannot be asked about requests at first."""

    failures = 3

    async def find_cancel_request(self, at):
        self.failures -= 1
        if self.failures >= 0:
            raise TransientError("restarting")
        return await self._inner.find_cancel_request(at)


async def test_a_store_that_is_away_for_a_moment_does_not_hide_a_request(bench):
    bench.store = replace(bench.store, runs=Flaky(bench.store.runs))
    assert (await asked_while(bench, waits)).state is RunState.CANCELLED
    assert bench.store.runs.failures < 0


async def test_a_run_ended_by_ctrl_c_lists_what_remains_too(bench):
    run = await bench.with_units()
    doing = asyncio.ensure_future(bench.runner.execute(bench.store, run, waits))
    await asyncio.sleep(0)
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    ended = await bench.store.runs.find_run(run.at)
    assert (ended.state, ended.reason) == (
        RunState.CANCELLED,
        "stopped before it was finished",
    )
    assert ended.manifest.remaining == ("c0", "c1")


async def interrupted(bench, work, *, times=1):
    """Carry out work and press Ctrl-C so often; return the run as it ended."""
    run = await bench.with_units()
    doing = asyncio.ensure_future(bench.runner.execute(bench.store, run, work))
    await work.began.wait()
    for _ in range(times):
        doing.cancel()
        await asyncio.sleep(0.02)
    with pytest.raises(asyncio.CancelledError):
        await doing
    return await bench.store.runs.find_run(run.at)


PARTIAL = RunResult(state=RunState.PARTIAL, counts={"seen": 3}, remaining=("d",))


async def test_ctrl_c_gives_what_is_under_way_the_time_to_come_to_its_end(bench):
    work = Gentle(PARTIAL, takes=0.1)
    ended = await interrupted(bench, work)
    assert work.settled
    assert (ended.state, ended.reason) == (
        RunState.CANCELLED,
        "stopped before it was finished",
    )
    assert (ended.manifest.counts, ended.manifest.remaining) == ({"seen": 3}, ("d",))
    [heard] = bench.heard.of_type(RunAskedToStop)
    assert "Ctrl-C or a signal cancelled it" in heard.message()


@pytest.mark.parametrize(
    ("times", "heeding"),
    [(2, SOON), (1, replace(SOON, signal_grace_period=timedelta(milliseconds=20)))],
)
async def test_who_presses_ctrl_c_again_or_has_waited_long_waits_no_more(times, heeding):
    bench = Bench(heeding)
    work = Gentle(PARTIAL, takes=60)
    ended = await interrupted(bench, work, times=times)
    assert not work.settled
    assert ended.state is RunState.CANCELLED


async def test_work_that_is_cut_off_at_once_is_not_asked_first(bench):
    work = Gentle(PARTIAL, takes=60)
    run = await bench.begin()
    doing = asyncio.ensure_future(bench.runner.execute(bench.store, run, work))
    await work.began.wait()
    await cancel_and_wait(doing, at_once=True)
    assert not bench.heard.of_type(RunAskedToStop)


async def test_ctrl_c_while_it_stops_ends_it_all_the_same(bench):
    settling, told = asyncio.Event(), asyncio.Event()

    async def settles_for_long(run):
        with run.on_cancel(told.set):
            await told.wait()
            settling.set()
            await asyncio.Event().wait()

    run = await bench.begin()
    work = bench.runner.execute(bench.store, run, settles_for_long)
    doing = asyncio.ensure_future(work)
    await bench.cancel(run)
    await settling.wait()
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert (await bench.store.runs.find_run(run.at)).state is RunState.CANCELLED


async def test_whoever_is_impatient_cancels_the_work_again_and_is_told_so(bench):
    cleaning, again = asyncio.Event(), []

    async def cleans_up_for_long(_):
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            try:
                await asyncio.Event().wait()
            finally:
                again.append("cut off")

    run = await bench.begin()
    work = bench.runner.execute(bench.store, run, cleans_up_for_long)
    doing = asyncio.ensure_future(work)
    await bench.cancel(run)
    await cleaning.wait()
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert again == ["cut off"]
    assert (await bench.store.runs.find_run(run.at)).state is RunState.CANCELLED


# Asking


async def lapses(bench):
    await bench.clock.sleep(LENGTH + MAX_CLOCK_SKEW)


async def is_given_back(bench):
    await bench.release()


async def is_somebody_elses(bench):
    await bench.lease("another process")


@pytest.mark.parametrize("lost", [lapses, is_given_back, is_somebody_elses])
async def test_a_run_whose_process_is_gone_is_cancelled_at_once(bench, lost):
    run = await bench.with_units()
    await lost(bench)
    told = await bench.cancel(run)
    assert told.process_died
    assert told.run.state is RunState.CANCELLED
    assert told.run.reason.startswith(f"{REASON}; its process stopped without a word")
    assert told.run.manifest.remaining == ("c0", "c1")
    assert await bench.store.runs.find_run(run.at) == told.run
    assert [event.state for event in bench.heard.of_type(RunEnded)] == ["CANCELLED"]
    again = await bench.cancel(run, by="bob")
    assert (again.run, again.process_died) == (told.run, False)


class EndsFirst(Wrapped):
    """A run store into which a run's own process writes its end just before anybody else does."""

    async def finish_run(self, run):
        await self._inner.finish_run(self.end)
        await self._inner.finish_run(run)


async def test_a_run_that_ends_as_it_is_taken_for_gone_has_ended_by_its_own_word(
    bench,
):
    run = await bench.begin()
    await lapses(bench)
    bench.store = replace(bench.store, runs=EndsFirst(bench.store.runs))
    end = bench.store.runs.end = run.end(RunState.DONE, at=bench.clock.now())
    told = await bench.cancel(run)
    assert (told.run, told.process_died) == (end, False)
    assert told.request.by == "ann@desk"
    assert not bench.heard.of_type(RunEnded)


async def test_until_its_lease_has_lapsed_a_run_is_not_taken_for_gone(bench):
    run = await bench.begin()
    await bench.clock.sleep(LENGTH + MAX_CLOCK_SKEW - timedelta(seconds=1))
    assert not (await bench.cancel(run)).process_died
    await bench.clock.sleep(timedelta(seconds=1))
    told = await bench.cancel(run, by="bob")
    assert told.process_died
    assert told.run.reason.startswith(REASON)  # the first one to ask


CREDITS = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=10)


async def reserve(bench, run, key, **how):
    amounts, now = {"credits": 1}, bench.clock.now()
    request = SpendRequest(key=key, connector="lusha", amounts=amounts, run=run.name, **how)
    await bench.store.budgets.reserve(
        request, caps=[CREDITS], reset=ResetRule(), owner="me", until=now + LENGTH, now=now
    )


async def spends(bench, run):
    """Settle one credit under a run, lose track of another, and write a row into the CRM."""
    now = bench.clock.now()
    for key in ("settled", "lost"):
        await reserve(bench, run, key)
    await bench.store.budgets.settle("settled", {"credits": 1}, now=now)
    row = SentRow(
        external_id="x",
        model="res.partner",
        digest="d",
        values={},
        before={},
        run=run.name,
        at=now,
    )
    await bench.store.crm.save_sent_rows([row])


def assert_told(ended):
    """Assert that a run says what `spends` did, and which companies it left."""
    assert ended.manifest.cost == {"lusha/credits": 1}
    assert ended.manifest.counts["unknown lusha/credits"] == 1
    assert ended.manifest.counts["crm_written"] == 1
    assert ended.manifest.counts["units_waiting"] == 2
    assert ended.manifest.selected == ended.manifest.remaining == ("c0", "c1")


async def test_a_run_found_dead_says_what_it_spent_wrote_and_left(bench):
    run = await bench.with_units()
    await spends(bench, run)
    [closed] = await bench.runner.close_dead_runs(bench.store, await bench.lease(), kind="work")
    assert closed.state is RunState.FAILED
    assert_told(closed)
    assert await bench.store.runs.find_run(run.at) == closed


async def test_a_run_that_is_cut_off_says_what_it_spent_wrote_left_and_had_counted(bench):
    run = await bench.with_units()

    await spends(bench, run)

    async def counts_and_waits(opened):
        opened.partial_counts["candidates"] = 7
        await asyncio.Event().wait()

    ended = await asked_while(bench, counts_and_waits, run)
    assert ended.state is RunState.CANCELLED
    assert_told(ended)
    assert ended.manifest.counts["candidates"] == 7


async def test_a_run_whose_work_failed_says_what_it_spent_wrote_and_left(bench):
    run = await bench.with_units()

    async def spends_and_fails(_):
        await spends(bench, run)
        raise PermanentError("the register is gone")

    ended = await bench.runner.execute(bench.store, run, spends_and_fails)
    assert (ended.state, ended.reason) == (RunState.FAILED, "the register is gone")
    assert_told(ended)


async def test_work_that_was_done_when_ctrl_c_came_is_done(bench):
    ended = await interrupted(bench, Gentle(RunResult(counts={"seen": 5})))
    assert (ended.state, ended.manifest.counts) == (RunState.DONE, {"seen": 5})


async def test_what_a_dead_process_had_reserved_and_never_sent_comes_back(bench):
    run = await bench.begin()
    await reserve(bench, run, "k", sends_at_once=False)
    await lapses(bench)
    assert (await bench.cancel(run)).process_died
    assert (await bench.store.budgets.find_reservation("k")).status is ReservationStatus.EXPIRED


async def test_what_a_dead_process_left_is_cancelled_by_the_next_holder_if_asked(
    bench,
):
    run = await bench.with_units()
    await bench.cancel(run)
    [closed] = await bench.runner.close_dead_runs(bench.store, await bench.lease(), kind="work")
    assert closed.state is RunState.CANCELLED
    assert closed.reason.startswith(REASON)
    assert closed.manifest.remaining == ("c0", "c1")
    assert not bench.heard.of_type(RunGivenUp)


async def test_a_process_that_was_only_held_still_finds_the_request_and_stops(bench):
    run = await bench.begin()
    await lapses(bench)
    assert (await bench.cancel(run)).process_died
    with pytest.raises(ConflictError):  # its run has ended, and not by its word
        await bench.runner.execute(bench.store, run, waits)


# Runs whose process died


async def test_runs_of_every_kind_are_closed_and_one_that_was_asked_to_stop_as_cancelled(bench):
    await bench.begin("nightly")
    await bench.cancel(await bench.begin("discovery"))
    ended = await bench.begin("ended")
    await bench.runner.close_run(bench.store, ended, RunResult(), timings=[])
    await lapses(bench)
    closed = await bench.close_dead_runs(await bench.begin("upkeep", "us"))
    assert {run.kind: (run.state, run.reason) for run in closed} == {
        "nightly": (RunState.FAILED, PROCESS_DIED),
        "discovery": (RunState.CANCELLED, f"{REASON}; {PROCESS_DIED}"),
    }


async def test_after_a_machine_has_slept_what_its_own_process_carries_out_is_left_alone(bench):
    await bench.begin("nightly", "us")
    us = await bench.begin("upkeep", "us")
    bench.clock.advance(timedelta(hours=8))
    assert await bench.close_dead_runs(us) == []


async def test_a_run_does_not_close_itself(bench):
    us = await bench.begin("upkeep", "us")
    await bench.release("upkeep")
    assert await bench.close_dead_runs(us) == []
