import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from kit.virtual_time import LoopClock, run_virtually
from kit.wrapped import Wrapped
from stoker.backends.sqlite import MemoryBackend
from stoker.base.cancellation import is_immediate
from stoker.base.errors import ConflictError, TransientError
from stoker.base.events import LeaseLost
from stoker.base.types import TenantId
from stoker.runs.leases import MAX_CLOCK_SKEW, LeaseHolder
from stoker.testing import EventRecorder, FakeClock

LENGTH = timedelta(seconds=30)


class Two:
    """Two processes that share a store, each with a clock of its own."""

    def __init__(self, length=LENGTH):
        self.store = MemoryBackend().tenant(TenantId("acme"))
        self.clocks = FakeClock(), FakeClock()
        self.heard = EventRecorder()
        self.one, self.other = (
            LeaseHolder(owner=name, clock=clock, observer=self.heard, length=length)
            for name, clock in zip(("one", "other"), self.clocks, strict=True)
        )

    def take(self, holder):
        return asyncio.run(holder.acquire(self.store, "run/upkeep", task="t"))


@pytest.fixture
def two():
    return Two()


def test_a_lease_given_back_can_be_taken_at_once_under_a_higher_epoch(two):
    held = two.take(two.one)

    asyncio.run(two.one.release(two.store, held))

    assert two.take(two.other).fencing_token == held.fencing_token + 1


def test_giving_back_a_lease_that_is_no_longer_ours_leaves_it_with_its_holder(two):
    ours = two.take(two.one)
    two.clocks[1].advance(LENGTH + MAX_CLOCK_SKEW)
    theirs = two.take(two.other)

    asyncio.run(two.one.release(two.store, ours))

    assert asyncio.run(two.store.schedule.find_lease("run/upkeep")) == theirs


def test_a_holder_whose_clock_is_behind_ours_is_not_taken_for_dead_at_once(two):
    two.take(two.one)
    two.clocks[1].jump(two.clocks[1].now() + LENGTH + MAX_CLOCK_SKEW / 2)

    assert two.take(two.other) is None


def test_a_wall_clock_an_hour_behind_does_not_keep_a_dead_holder_alive(two):
    two.take(two.one)
    two.clocks[1].jump(two.clocks[1].now() - timedelta(hours=1))

    assert two.take(two.other) is None
    two.clocks[1].advance(LENGTH)

    assert two.take(two.other) is not None


async def test_a_holder_that_shows_signs_of_life_keeps_its_lease_however_slow_the_others_clock():
    two = Two(length=timedelta(seconds=0.15))

    async def work():
        for _ in range(8):
            await asyncio.sleep(0.05)
            two.clocks[0].advance(timedelta(seconds=0.05))
            assert await two.other.acquire(two.store, "run/upkeep", task="t") is None
        return "worked"

    held = await two.one.acquire(two.store, "run/upkeep", task="t")
    assert await two.one.run_while_held(two.store, held, work()) == "worked"


class LosesBeats(Wrapped):
    """A store of leases that is away when the first two heartbeats come."""

    lost = 0

    async def swap_lease(self, seen, wanted):
        if seen is not None and self.lost < 2:
            self.lost += 1
            raise TransientError("away")
        return await self._inner.swap_lease(seen, wanted)


def test_two_lost_heartbeats_cost_no_lease(two):
    length = 4 * MAX_CLOCK_SKEW

    async def scenario():
        clock = LoopClock()
        one, other = (
            LeaseHolder(owner=name, clock=clock, observer=two.heard, length=length)
            for name in ("one", "other")
        )
        held = await one.acquire(two.store, "run/upkeep", task="t")
        shaky = replace(two.store, schedule=LosesBeats(two.store.schedule))

        async def work():
            await asyncio.sleep((length + MAX_CLOCK_SKEW).total_seconds() + 1)
            return shaky.schedule.lost, await other.acquire(two.store, "run/upkeep", task="t")

        return await one.run_while_held(shaky, held, work())

    assert run_virtually(scenario()) == (2, None)


async def test_work_is_stopped_at_once_when_its_lease_is_lost():
    two = Two(length=timedelta(seconds=0.06))
    meant = []

    async def work():
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError as told:
            meant.append(is_immediate(told))
            raise

    async def scenario():
        held = await two.one.acquire(two.store, "run/upkeep", task="t")
        two.clocks[1].advance(timedelta(seconds=1) + MAX_CLOCK_SKEW)
        assert await two.other.acquire(two.store, "run/upkeep", task="t")
        await two.one.run_while_held(two.store, held, work())

    with pytest.raises(ConflictError, match="lost"):
        await scenario()
    assert meant == [True]
    assert [event.lease for event in two.heard.of_type(LeaseLost)] == ["run/upkeep"]


async def test_work_that_is_told_to_stop_keeps_its_lease_until_it_is_over():
    two = Two(length=timedelta(seconds=0.3))
    over = []

    async def work():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
            over.append("in order")
            raise

    held = await two.one.acquire(two.store, "run/upkeep", task="t")
    doing = asyncio.ensure_future(two.one.run_while_held(two.store, held, work()))
    await asyncio.sleep(0.01)
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    held, seen = held, await two.store.schedule.find_lease("run/upkeep")
    assert over == ["in order"]
    assert seen.heartbeat > held.heartbeat
