"""Which runs say RUNNING though nobody carries them out, and what becomes of them."""

from datetime import timedelta

import pytest

from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import TenantId
from stoker.runs.cancel import close_dead_runs, list_dead_runs
from stoker.runs.leases import (
    MAX_CLOCK_SKEW,
    LeaseHolder,
    acquire_lease,
    get_lease_name,
    release_lease,
)
from stoker.runs.model import PROCESS_DIED, CancelRequest, Run, RunKey, RunState
from stoker.runs.service import Runner
from stoker.testing import EventRecorder, FakeClock

LENGTH = timedelta(seconds=30)


class Bench:
    """A tenant's store in which runs begin and nobody carries them out."""

    def __init__(self):
        self.clock = FakeClock()
        self.store = MemoryBackend().tenant(TenantId("acme"))
        heard = EventRecorder()
        self.runner = Runner(
            leases=LeaseHolder(owner="me", clock=self.clock, observer=heard, length=LENGTH)
        )

    async def lease(self, kind, owner):
        seen, now = await self.store.schedule.find_lease(get_lease_name(kind)), self.clock.now()
        wanted = acquire_lease(
            get_lease_name(kind), seen, owner=owner, task="", now=now, length=LENGTH
        )
        assert await self.store.schedule.swap_lease(seen, wanted)
        return wanted

    async def begun(self, kind, owner="dead"):
        lease = await self.lease(kind, owner)
        run = Run(key=RunKey(self.clock.now(), lease.fencing_token), kind=kind)
        await self.store.runs.insert_run(run)
        self.clock.advance(timedelta(seconds=1))
        return run

    async def gone(self):
        runs = await self.store.runs.list_runs()
        return [run.kind for run in await list_dead_runs(self.store, runs, now=self.clock.now())]


async def test_a_run_is_gone_when_its_lease_is_free_lapsed_or_anothers():
    bench = Bench()
    await bench.begun("taken")
    await bench.begun("free")
    await bench.begun("lapsed")
    bench.clock.advance(LENGTH + MAX_CLOCK_SKEW)
    await bench.lease("taken", "other")
    held = await bench.store.schedule.find_lease(get_lease_name("free"))
    await bench.store.schedule.swap_lease(held, release_lease(held, now=bench.clock.now()))
    await bench.begun("going", "alive")
    assert sorted(await bench.gone()) == ["free", "lapsed", "taken"]


@pytest.mark.parametrize("waits", [timedelta(0), LENGTH + MAX_CLOCK_SKEW - timedelta(seconds=2)])
async def test_a_run_is_not_gone_before_its_lease_is(waits):
    bench = Bench()
    await bench.begun("going")
    bench.clock.advance(waits)
    assert await bench.gone() == []


async def test_runs_of_every_kind_are_ended_and_one_that_was_asked_to_stop_as_cancelled():
    bench = Bench()
    await bench.begun("nightly")
    asked = await bench.begun("discovery")
    request = CancelRequest(by="ann", at=bench.clock.now())
    await bench.store.runs.request_cancel(asked.at, request)
    bench.clock.advance(LENGTH + MAX_CLOCK_SKEW)
    us = await bench.begun("upkeep", "us")
    ended = {
        run.kind: (run.state, run.reason)
        for run in await close_dead_runs(bench.store, by=us, runner=bench.runner)
    }
    assert ended == {
        "nightly": (RunState.FAILED, PROCESS_DIED),
        "discovery": (
            RunState.CANCELLED,
            f"cancelled by ann with: stoker runs cancel; {PROCESS_DIED}",
        ),
    }


async def test_after_a_machine_has_slept_what_its_own_process_carries_out_is_left_alone():
    bench = Bench()
    await bench.begun("nightly", "us")
    us = await bench.begun("upkeep", "us")
    bench.clock.advance(timedelta(hours=8))
    assert await close_dead_runs(bench.store, by=us, runner=bench.runner) == []


async def test_nobody_ends_the_run_it_is_itself():
    bench = Bench()
    us = await bench.begun("upkeep", "us")
    held = await bench.store.schedule.find_lease(get_lease_name("upkeep"))
    await bench.store.schedule.swap_lease(held, release_lease(held, now=bench.clock.now()))
    assert await close_dead_runs(bench.store, by=us, runner=bench.runner) == []
