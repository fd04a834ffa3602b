"""Units handed out: whoever falls silent for longer than its lease has none any more."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from contracts.accounts import company, dossier
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, TenantId
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.workers import LEASE_LENGTH, WorkQueue
from stoker.testing import FakeClock

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
RUN = "20261116_120000"
A_MOMENT = timedelta(seconds=1)


async def with_a_unit(work):
    store, clock = MemoryBackend().tenant(TenantId("acme")), FakeClock(NOON)
    known = company()
    await store.accounts.upsert_companies([known], now=NOON)
    await store.nights.insert_items(RUN, [WorkItem(company=known.id, rank=0, depth=Depth.DEEP)])
    hand = WorkQueue(store.nights, RUN, owner="one", clock=clock)
    [unit] = await hand.claim(1)
    finished = await work(hand, clock, unit)
    return finished, await store.nights.count_items(RUN)


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
        "print([name for name in sys.modules if name.startswith('stoker.http')])"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
