"""Which nights are learned from: the latest that came to their end, and of each a bounded part."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.model import Company, CompanyId
from stoker.backends.sqlite import MemoryBackend, SqliteBackend
from stoker.base.types import Depth, Step, TenantId
from stoker.enrichment.forecast import VendorCapacity, add_first_lookup_shares
from stoker.enrichment.history import MAX_NIGHTS, list_recent_lookups
from stoker.enrichment.model import KIND, SkippedStep, SkipReason, WorkItem, WorkState
from stoker.runs.model import Manifest, Run, RunKey, RunState

NOW = datetime(2026, 11, 16, tzinfo=UTC)
DAY = timedelta(days=1)


async def had(
    store,
    day,
    *,
    looks=3,
    state=RunState.DONE,
    kind=KIND,
    ends=WorkState.DONE,
    step=Step.CRAWL,
    skipped=(),
):
    """Write down a run of so many companies as it would have been."""
    run = Run(key=RunKey(NOW + day * DAY, 1), kind=kind)
    await store.runs.insert_run(run)
    units = [
        WorkItem(company=CompanyId(f"c{place}"), rank=place, depth=Depth.DEEP)
        for place in range(looks)
    ]
    await store.nights.insert_items(run.name, units)
    until = run.at + DAY
    taken = await store.nights.claim_items(
        run.name, owner="w", until=until, now=run.at, limit=looks or 1
    )
    for unit in taken:
        spent = {"cost": {"tavily/calls": day}, "seconds": {step.value: 0.5}}
        ended = replace(unit, state=ends, ended_at=run.at, skipped=skipped, **spent)
        assert await store.nights.finish_item(run.name, ended, None)
    if state is not RunState.RUNNING:
        manifest = Manifest(counts={"selected": looks})
        await store.runs.finish_run(run.end(state, at=until, manifest=manifest))


@pytest.fixture(params=["memory", "sqlite"])
def at_store(request, tmp_path):
    """Run a scenario on a tenant's store."""

    def run(scenario):
        async def whole():
            memory = request.param == "memory"
            backend = MemoryBackend() if memory else SqliteBackend(tmp_path / "stoker.db")
            try:
                await backend.migrate()
                store = backend.tenant(TenantId("acme"))
                companies = [Company(id=CompanyId(f"c{n}"), name=f"C{n}") for n in range(9)]
                await store.accounts.upsert_companies(companies, now=NOW)
                return await scenario(store)
            finally:
                await backend.close()

        return asyncio.run(whole())

    return run


def days(nights):
    return [night[0].cost["tavily/calls"] for night in nights]


def test_only_nights_that_came_to_their_end_and_looked_at_somebody_count(at_store):
    async def scenario(store):
        assert await list_recent_lookups(store) == []
        await had(store, 1)
        await had(store, 2, state=RunState.PARTIAL, ends=WorkState.DEGRADED)
        await had(store, 3, state=RunState.FAILED)
        await had(store, 4, state=RunState.CANCELLED)
        await had(store, 5, looks=0)
        await had(store, 6, ends=WorkState.DROPPED)
        await had(store, 7, kind="pulls")
        await had(store, 9, step=Step.SCORE)
        await had(store, 8, state=RunState.RUNNING)
        return await list_recent_lookups(store)

    nights = at_store(scenario)
    assert days(nights) == [2, 1]
    assert [len(night) for night in nights] == [3, 3]


def test_the_newest_few_are_read_and_those_first_in_their_order(at_store):
    async def scenario(store):
        for day in range(1, MAX_NIGHTS + 3):
            await had(store, day, looks=4)
        return await list_recent_lookups(store, looks=2)

    nights = at_store(scenario)
    assert days(nights) == list(range(MAX_NIGHTS + 2, 2, -1))
    assert [[unit.rank for unit in night] for night in nights] == [[0, 1]] * MAX_NIGHTS


def test_nights_of_one_date_count_as_one_of_the_few(at_store):
    async def several(store):
        for day in range(1, MAX_NIGHTS + 2):
            await had(store, day)
        await had(store, MAX_NIGHTS + 1.2)
        await had(store, MAX_NIGHTS + 1.4)
        return await list_recent_lookups(store)

    assert days(at_store(several)) == [
        MAX_NIGHTS + 1.4,
        MAX_NIGHTS + 1.2,
        *range(MAX_NIGHTS + 1, 1, -1),
    ]


class Counted:
    """A part of a store that counts how often it is called."""

    def __init__(self, part):
        self._part, self.calls = part, 0

    def __getattr__(self, verb):
        self.calls += 1
        return getattr(self._part, verb)


def test_the_last_lookups_of_all_companies_are_read_in_one_call(at_store):
    async def scenario(store):
        await had(store, 1, looks=5)
        items = [
            WorkItem(company=CompanyId(f"c{rank}"), rank=rank, depth=Depth.DEEP)
            for rank in range(9)
        ]
        nights = Counted(store.nights)
        capacity = {"tavily": VendorCapacity(calls_left=7)}
        await add_first_lookup_shares(replace(store, nights=nights), items, capacity, now=NOW)
        return nights.calls

    assert at_store(scenario) == 1


def test_who_was_looked_at_lately_does_not_ask_anew_and_who_was_refused_asks_those(at_store):
    refused = SkippedStep(step=Step.CONTACTS, cause=SkipReason.REFUSED, connector="lusha")

    async def scenario(store):
        await had(store, 1, looks=2)
        await had(store, 2, looks=1, ends=WorkState.DEGRADED, skipped=(refused,))
        units = [
            WorkItem(company=CompanyId(f"c{place}"), rank=place, depth=Depth.DEEP)
            for place in range(4)
        ]
        rooms = {name: VendorCapacity(calls_left=7) for name in ("tavily", "lusha")}
        return await add_first_lookup_shares(store, units, rooms, now=NOW + 3 * DAY)

    rooms = at_store(scenario)
    assert {name: room.first_lookup_shares for name, room in rooms.items()} == {
        "tavily": {Depth.DEEP: 2 / 4},
        "lusha": {Depth.DEEP: 3 / 4},
    }
    assert {room.calls_left for room in rooms.values()} == {7}
