"""Units handed out: whoever falls silent for longer than its lease has none any more."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from contracts.accounts import company, dossier
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, TenantId
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.workers import LEASE_LENGTH, WorkerPool, WorkQueue
from stoker.testing import FakeClock

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
RUN = "20261116_120000"
A_MOMENT = timedelta(seconds=1)


async def with_a_unit(work):
    store, clock = MemoryBackend().tenant(TenantId("acme")), FakeClock(NOON)
    known = company()
    await store.accounts.upsert_companies([known], now=NOON)
    await store.work_items.insert_items(RUN, [WorkItem(company=known.id, rank=0, depth=Depth.DEEP)])
    hand = WorkQueue(store.work_items, RUN, owner="one", clock=clock)
    [unit] = await hand.claim(1)
    finished = await work(hand, clock, unit)
    return finished, await store.work_items.count_items(RUN)


def ended(unit):
    return WorkItem(
        company=unit.company,
        rank=unit.rank,
        depth=unit.depth,
        owner="one",
        state=WorkState.DONE,
        ended_at=NOON,
    )


async def test_who_shows_signs_of_life_finishes_however_long_it_takes():
    async def work(hand, clock, unit):
        for _ in range(10):
            clock.advance(LEASE_LENGTH - A_MOMENT)
            assert await hand.extend_claims() == 1
        return await hand.finish(ended(unit), None)

    assert await with_a_unit(work) == (True, {WorkState.DONE: 1})


@pytest.mark.parametrize("sleeps", ["time passes", "only the wall clock goes on"])
async def test_who_was_silent_for_longer_than_its_lease_writes_nothing_and_takes_nothing(sleeps):
    async def work(hand, clock, unit):
        if sleeps == "time passes":
            clock.advance(LEASE_LENGTH + A_MOMENT)
        else:
            clock.jump(NOON + LEASE_LENGTH + A_MOMENT)
        assert not hand.is_owner()
        assert await hand.extend_claims() == 0
        assert await hand.claim(1) == []
        return await hand.finish(ended(unit), dossier())

    assert await with_a_unit(work) == (False, {WorkState.CLAIMED: 1})


def test_reading_the_schema_imports_no_http_client():
    program = (
        "import sys, stoker.enrichment.schema;"
        "print([name for name in sys.modules if name == 'stoker.http.client'])"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


class SlowQueue(WorkQueue):
    """A queue that takes its time to release items."""

    def open(self):
        self.releasing, self.may_release, self.released = (asyncio.Event() for _ in range(3))
        return self

    async def release(self):
        self.releasing.set()
        await self.may_release.wait()
        await super().release()
        self.released.set()


async def test_items_are_released_however_often_the_run_is_cancelled():
    store, clock, started = (
        MemoryBackend().tenant(TenantId("acme")),
        FakeClock(NOON),
        asyncio.Event(),
    )
    await store.work_items.insert_items(RUN, [WorkItem(company="T1", rank=0, depth=Depth.DEEP)])
    queue = SlowQueue(store.work_items, RUN, owner="one", clock=clock).open()

    class Endless:
        async def process(self, unit, *, park):
            started.set()
            await asyncio.Event().wait()

    pool = WorkerPool(Endless(), queue, slots=1, waiting_slots=1, clock=clock, on_done=None)
    running = asyncio.create_task(pool.run())
    for reached in (started, queue.releasing):
        await reached.wait()
        running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    queue.may_release.set()
    async with asyncio.timeout(5):
        await queue.released.wait()
    assert await store.work_items.count_items(RUN) == {WorkState.WAITING: 1}
