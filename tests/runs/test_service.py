import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kit.wrapped import Wrapped
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConflictError, PermanentError, TransientError, UncertainError
from stoker.base.events import RunEnded, RunGivenUp, StepEnded
from stoker.base.types import TenantId
from stoker.runs.leases import Lease, LeaseHolder
from stoker.runs.model import Manifest, RunState
from stoker.runs.service import Runner, RunResult
from stoker.testing import EventRecorder, FakeClock


def lease(epoch=1):
    return Lease(
        name="run/work",
        owner="me",
        fencing_token=epoch,
        heartbeat=1,
        until=datetime(2031, 1, 1, tzinfo=UTC),
    )


class Bench:
    def __init__(self):
        self.store = MemoryBackend().tenant(TenantId("acme"))
        self.clock, self.heard = FakeClock(), EventRecorder()
        self.runner = Runner(
            leases=LeaseHolder(
                owner="me", clock=self.clock, observer=self.heard, length=timedelta(seconds=30)
            )
        )

    def start_run(self, epoch=1):
        return asyncio.run(
            self.runner.start_run(self.store, lease(epoch), kind="work", manifest=Manifest())
        )

    def execute(self, work):
        run = self.start_run()
        return asyncio.run(self.runner.execute(self.store, run, work))

    def stored(self, run):
        return asyncio.run(self.store.runs.find_run(run.at))


@pytest.fixture
def bench():
    return Bench()


async def crashes(run):
    raise RuntimeError("nobody expected this")


async def is_refused(run):
    raise PermanentError("the registry said no")


def test_a_run_ends_as_its_work_says(bench):
    async def is_cut_short(run):
        return RunResult(
            state=RunState.PARTIAL, reason="the day's cap is used up", counts={"seen": 3}
        )

    ended = bench.execute(is_cut_short)

    assert ended.state is RunState.PARTIAL
    assert bench.stored(ended) == ended
    assert ended.manifest.counts == {"seen": 3}
    assert [event.reason for event in bench.heard.of_type(RunEnded)] == ["the day's cap is used up"]


@pytest.mark.parametrize(
    ("work", "why"),
    [(crashes, "internal error: RuntimeError: nobody expected this"), (is_refused, "said no")],
)
def test_whatever_the_work_raises_ends_the_run_failed_with_the_reason(bench, work, why):
    ended = bench.execute(work)

    assert ended.state is RunState.FAILED
    assert why in ended.reason


class Away(Wrapped):
    """A run store whose `finish_run` fails a few times, having done it or not."""

    def __init__(self, inner, errors, *, done):
        super().__init__(inner)
        self._errors, self._done = list(errors), done

    async def finish_run(self, run):
        if self._errors:
            if self._done:
                await self._inner.finish_run(run)
            raise self._errors.pop(0)
        await self._inner.finish_run(run)


async def goes_well(run):
    return RunResult(counts={"seen": 7})


@pytest.mark.parametrize(
    ("errors", "done"),
    [
        ([TransientError("restarting")] * 4, False),
        ([UncertainError("cut off")], False),
        ([UncertainError("cut off")], True),
    ],
)
def test_a_store_that_is_away_for_a_moment_does_not_lose_a_runs_end(bench, errors, done):
    bench.store = replace(bench.store, runs=Away(bench.store.runs, errors, done=done))

    ended = bench.execute(goes_well)

    assert bench.stored(ended).state is RunState.DONE
    assert bench.stored(ended).manifest.counts == {"seen": 7}


def test_a_store_that_stays_away_is_not_waited_for_without_end(bench):
    away = Away(bench.store.runs, [TransientError("away")] * 100, done=False)
    bench.store = replace(bench.store, runs=away)

    with pytest.raises(TransientError, match="away"):
        bench.execute(goes_well)


def test_a_reason_that_no_store_could_keep_still_ends_the_run(bench):
    async def quotes_the_world(run):
        raise RuntimeError("the vendor sent \0 and \ud800")

    ended = bench.execute(quotes_the_world)

    assert bench.stored(ended).state is RunState.FAILED
    assert "the vendor sent  and \ufffd" in ended.reason


def test_every_step_is_timed_also_the_one_that_failed(bench):
    async def steps(run):
        with run.time_step("look") as step:
            step.items = 2
        with run.time_step("leap"):
            raise PermanentError("too far")

    ended = bench.execute(steps)

    assert [(step.step, step.items) for step in ended.manifest.steps] == [("look", 2), ("leap", 0)]
    assert [event.step for event in bench.heard.of_type(StepEnded)] == ["look", "leap"]


def test_two_runs_in_one_second_get_names_of_their_own(bench):
    assert bench.start_run().name == "20300101_120000"
    assert bench.start_run().name == "20300101_120001"


def test_what_a_dead_process_left_running_is_closed_by_the_next_holder(bench):
    left = bench.start_run(epoch=1)

    closed = asyncio.run(bench.runner.close_dead_runs(bench.store, lease(epoch=2), kind="work"))

    assert [run.name for run in closed] == [left.name]
    assert bench.stored(left).state is RunState.FAILED
    assert "without a word" in bench.heard.of_type(RunGivenUp)[0].reason


def test_a_run_of_the_present_holder_is_not_taken_for_dead(bench):
    ours = bench.start_run(epoch=2)

    assert asyncio.run(bench.runner.close_dead_runs(bench.store, lease(epoch=2), kind="work")) == []
    assert bench.stored(ours).state is RunState.RUNNING


def test_a_process_that_comes_back_from_the_dead_cannot_change_how_its_run_ended(bench):
    left = bench.start_run(epoch=1)
    asyncio.run(bench.runner.close_dead_runs(bench.store, lease(epoch=2), kind="work"))

    async def finishes_late(_):
        return RunResult(state=RunState.DONE)

    with pytest.raises(ConflictError):
        asyncio.run(bench.runner.execute(bench.store, left, finishes_late))
    assert bench.stored(left).state is RunState.FAILED
