from datetime import UTC, datetime, timedelta

import pytest

from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import TenantId
from stoker.ledger.chain import NewEntry
from stoker.ledger.query import LedgerFilter
from stoker.ledger.read import PAGE_SIZE, find_seq_before, list_latest

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def note(number, at=NOW):
    return NewEntry(at=at, kind="ODD" if number % 2 else "EVEN", subject=str(number), reason="")


async def filled(count):
    ledger = MemoryBackend().tenant(TenantId("acme")).ledger
    await ledger.append([note(number) for number in range(1, count + 1)])
    return ledger


@pytest.mark.parametrize("count", [*range(6), 100])
@pytest.mark.parametrize("hours", range(-1, 7))
async def test_entries_of_a_moment_and_later_begin_after_the_seq_that_is_found(count, hours):
    moment = NOW + timedelta(hours=hours)

    ledger = MemoryBackend().tenant(TenantId("acme")).ledger
    ats = [NOW + timedelta(hours=number // 2) for number in range(count)]  # two at a time
    await ledger.append([note(number, at) for number, at in enumerate(ats)])
    found, earlier = await find_seq_before(ledger, moment), sum(at < moment for at in ats)
    assert found == earlier


@pytest.mark.parametrize("count", [0, 1, 5, PAGE_SIZE, 2 * PAGE_SIZE + 1])
@pytest.mark.parametrize("limit", [1, 3, PAGE_SIZE, 3 * PAGE_SIZE])
async def test_the_newest_are_found_across_pages_newest_first(count, limit):
    odd = [seq for seq in range(count, 0, -1) if seq % 2]

    assert [
        entry.seq
        for entry in await list_latest(await filled(count), LedgerFilter(kind="ODD"), limit=limit)
    ] == odd[:limit]
