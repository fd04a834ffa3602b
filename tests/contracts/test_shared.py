"""What every backend promises about what tenants share: rates, places, stops and shared caps."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from contracts.backends import ACME, refused
from stoker.base.errors import ConfigError
from stoker.base.types import OPERATORS
from stoker.budgets.caps import CapChange
from stoker.ledger.chain import find_first_break
from stoker.rate_limits.rate_limit import Rate

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
RATE = Rate(calls=10, per=10 * SECOND, burst=3)
CAP = "connector/lusha/credits/day"


@pytest.fixture
def shared(backend):
    return backend.shared()


async def test_turns_come_in_a_burst_and_then_at_the_steady_pace(shared):
    turns = [await shared.acquire_call("lusha", RATE, now=NOW) for _ in range(4)]
    assert [turn.allowed for turn in turns] == [True, True, True, False]
    assert turns[3].at == NOW + RATE.interval
    assert not (await shared.acquire_call("lusha", RATE, now=turns[3].at - SECOND / 1000)).allowed
    assert (await shared.acquire_call("lusha", RATE, now=turns[3].at)).allowed
    assert (await shared.acquire_call("apollo", RATE, now=NOW)).allowed


async def test_askers_at_once_share_one_burst(shared):
    turns = await asyncio.gather(*(shared.acquire_call("k", RATE, now=NOW) for _ in range(16)))
    assert sum(turn.allowed for turn in turns) == 3


async def test_a_clock_a_day_ahead_on_one_host_does_not_stall_the_others(shared):
    day = timedelta(days=1)

    for _ in range(3):
        assert (await shared.acquire_call("k", RATE, now=NOW + day)).allowed
    # The naive twin, who believes whatever stands there, would wait for a day.
    refusal = await shared.acquire_call("k", RATE, now=NOW)
    assert (refusal.allowed, refusal.at) == (False, NOW + RATE.interval)
    assert (await shared.acquire_call("k", RATE, now=NOW)).at == refusal.at
    later = [await shared.acquire_call("k", RATE, now=refusal.at) for _ in range(2)]
    assert [turn.allowed for turn in later] == [True, False]


async def take(shared, owner, *, places=2, now=NOW):
    return await shared.acquire_slot(
        "lusha", places=places, owner=owner, until=now + MINUTE, now=now
    )


async def test_there_are_only_so_many_places(shared):
    assert [await take(shared, owner) for owner in "abc"] == [True, True, False]
    await shared.release_slot("lusha", owner="a")
    await shared.release_slot("lusha", owner="a")
    assert [await take(shared, owner) for owner in "cda"] == [True, False, False]
    assert not await take(shared, "a", places=0)


async def test_an_owner_has_one_place_and_taking_it_again_lengthens_its_lease(shared):
    assert await take(shared, "a")
    assert await take(shared, "a", now=NOW + MINUTE / 2)
    assert await take(shared, "b")
    assert await take(shared, "c", now=NOW + MINUTE)  # b's lease is over, a's is not
    assert not await take(shared, "d", now=NOW + MINUTE)
    assert await take(shared, "a", places=1, now=NOW + MINUTE)  # who is inside may stay


async def test_takers_at_once_never_get_more_places_than_there_are(shared):
    answers = await asyncio.gather(*(take(shared, f"o{n}", places=5) for n in range(16)))
    assert sum(answers) == 5


async def test_operator_changes_are_in_their_own_ledger(backend):
    shared = backend.shared()
    await shared.stop("lusha", reason="too dear", now=NOW)
    await shared.stop("lusha", reason="again", now=NOW)
    await shared.resume("lusha", now=NOW + MINUTE)
    await shared.resume("lusha", now=NOW + MINUTE)
    await shared.change_cap(CapChange(cap=CAP, limit=5), now=NOW)  # a clock that is late
    entries = await backend.shared().ledger.list_entries()
    assert [(entry.kind, entry.subject) for entry in entries] == [
        ("STOPPED", "lusha"),
        ("RESUMED", "lusha"),
        ("CAP_CHANGED", CAP),
    ]
    assert entries[0].reason == "too dear"
    assert [entry.at for entry in entries] == [NOW, NOW + MINUTE, NOW + MINUTE]
    assert find_first_break(entries) is None
    assert await backend.tenant(ACME).ledger.list_entries() == []


async def test_orders_given_at_once_all_find_their_place_in_the_ledger(shared):
    stops = (shared.stop(f"c{nth % 4}", reason=f"{nth}", now=NOW) for nth in range(16))
    caps = (
        shared.change_cap(CapChange(cap=CAP, limit=nth), now=NOW + nth * SECOND) for nth in range(8)
    )
    await asyncio.gather(*stops, *caps)
    entries = await shared.ledger.list_entries()
    assert find_first_break(entries) is None
    assert sorted(entry.subject for entry in entries) == [*["c0", "c1", "c2", "c3"], *[CAP] * 8]
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)


async def test_the_operators_ledger_cannot_be_opened_as_a_tenant(backend):
    with pytest.raises(ConfigError, match="kept for what operators do"):
        backend.tenant(OPERATORS)


async def test_names_that_cannot_be_kept_or_found_by_are_refused(shared):
    for bad in ("a\0b", "half \ud800", "x" * 501):
        await refused(shared.acquire_call(bad, RATE, now=NOW))
        await refused(shared.delay_until(bad, until=NOW))
        await refused(shared.find_next_at(bad))
        await refused(take(shared, bad))
        await refused(shared.release_slot(bad, owner="a"))
    await refused(take(shared, ""), ConfigError)
    await refused(shared.acquire_call("k", RATE, now=NOW.replace(tzinfo=None)), ConfigError)
    await refused(shared.stop("lusha", reason="a\0b", now=NOW))
    await refused(shared.stop("Bad Name", reason="", now=NOW), ConfigError)
    assert await shared.list_stops() == []
