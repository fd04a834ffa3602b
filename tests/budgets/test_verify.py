from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kit.wrapped import Wrapped
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import TransientError
from stoker.base.types import TenantId
from stoker.budgets.caps import parse_cap
from stoker.budgets.charges import SpendRequest, Totals
from stoker.budgets.model import CapUsage
from stoker.budgets.verify import find_shared_mismatches, verify_ledger
from stoker.budgets.windows import ResetRule
from stoker.ledger.chain import NewEntry

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
OWN = parse_cap("tenant/*/calls/day", limit=100)
SHARED = parse_cap("connector/tavily/calls/day", limit=100)


async def spend(store, key, calls):
    return await store.budgets.reserve(
        SpendRequest(key=key, connector="tavily", amounts={"calls": calls}),
        caps=[OWN, SHARED],
        reset=ResetRule(),
        owner="w",
        until=NOW + timedelta(hours=1),
        now=NOW,
    )


async def used(store):
    for number in range(1, 9):
        await spend(store, f"k{number}", number)
    await store.budgets.settle("k1", {"calls": 7}, now=NOW)
    await store.budgets.release("k2", reason="", now=NOW)
    await store.budgets.mark_uncertain("k3", reason="", now=NOW)
    return store


class Busy(Wrapped):
    """A money store that is used each time somebody looks, for so many looks."""

    def __init__(self, store, looks):
        super().__init__(store.budgets)
        self._store, self._looks = store, looks

    async def list_usage(self):
        usage = await self._inner.list_usage()
        if self._looks:
            self._looks -= 1
            await spend(self._store, f"busy {self._looks}", 1)
        return usage


async def test_a_sound_store_has_no_problems_and_tells_what_was_taken_of_shared_caps():
    store = await used(MemoryBackend().tenant(TenantId("acme")))
    verdict = await verify_ledger(store)
    assert (verdict.entries, verdict.problems) == (11, ())
    assert verdict.shared == {
        (SHARED.id, "day 2030-01-01T00:00:00+00:00"): Totals(
            settled=7, reserved=3 + 4 + 5 + 6 + 7 + 8
        )
    }


async def test_a_store_in_use_is_judged_at_a_moment_at_which_it_stood_still():
    store = await used(MemoryBackend().tenant(TenantId("acme")))
    verdict = await verify_ledger(replace(store, budgets=Busy(store, looks=7)))
    assert (verdict.entries, verdict.problems) == (18, ())


async def test_a_store_that_never_stands_still_is_not_judged():
    async def look():
        store = MemoryBackend().tenant(TenantId("acme"))
        await verify_ledger(replace(store, budgets=Busy(store, looks=1000)))

    with pytest.raises(TransientError, match="try when it is quieter"):
        await look()


async def test_an_entry_that_cannot_follow_is_a_problem():
    store = await used(MemoryBackend().tenant(TenantId("acme")))
    forged = NewEntry(at=NOW, kind="SETTLED", subject="nobody", reason="", data={"actual": {}})
    await store.ledger.append([forged])
    assert (await verify_ledger(store)).problems == (
        "entry 12 says SETTLED of nobody, which was never reserved",
    )


class Said:
    """Shared totals as somebody says they are."""

    def __init__(self, settled):
        self._settled = settled

    async def list_usage(self):
        window = "day 2030-01-01T00:00:00+00:00"
        return [CapUsage(cap=SHARED.id, window=window, used=Totals(settled=self._settled))]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (14, 14, None),
        (13, 15, None),  # somebody spent while we read
        (
            15,
            15,
            "tenants took 14, its total says 15; unless a tenant is missing from the settings",
        ),
        (13, 13, "tenants took 14, its total says 13"),
    ],
)
async def test_a_shared_total_is_neither_more_nor_less_than_all_tenants_took(
    before, after, problem
):
    backend = MemoryBackend()
    stores = [await used(backend.tenant(TenantId(name))) for name in ("acme", "bolt")]
    verdicts = [await verify_ledger(store) for store in stores]
    first = await Said(before).list_usage()
    found = await find_shared_mismatches(Said(after), verdicts, before=first)
    assert len(found) == (problem is not None)
    assert all(problem in line for line in found)
