"""What every store promises about leases, and about what became of a schedule's instants."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from contracts.backends import ACME, UMBRELLA, refused
from stoker.base.errors import ConfigError, ConflictError
from stoker.base.types import MAX_TEXT_LENGTH
from stoker.ledger.chain import NewEntry, find_first_break
from stoker.runs.leases import acquire_lease, release_lease, renew_lease
from stoker.scheduling.model import OccurrenceResult, OccurrenceState, build_clock_accepted_entry

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
LENGTH = timedelta(seconds=30)
SINGAPORE = timezone(timedelta(hours=8))
LEASE = acquire_lease("nightly", None, owner="me", task="20260207_013000", now=NOW, length=LENGTH)
UNSTORABLE = ["a\0b", "half a pair \ud800", "x" * (MAX_TEXT_LENGTH + 1)]


def slot(hours=0, schedule="nightly", **fields):
    given = {
        "state": OccurrenceState.MISSED,
        "decided_at": NOW,
        "reason": "nobody was there",
    } | fields
    return OccurrenceResult(schedule=schedule, due_at=NOW + timedelta(hours=hours), **given)


async def test_a_lease_comes_back_as_it_went_in(store):
    assert await store.schedule.find_lease("nightly") is None
    wanted = replace(LEASE, until=LEASE.until.astimezone(SINGAPORE), task="úkol 🙂")
    assert await store.schedule.swap_lease(None, wanted)
    back = await store.schedule.find_lease("nightly")
    assert back == wanted
    assert back.until.tzinfo is UTC
    assert await store.schedule.find_lease("hourly") is None


async def test_a_lease_goes_from_hand_to_hand(store):
    schedule, seen = store.schedule, None
    steps = [
        LEASE,
        renew_lease(LEASE, now=NOW + LENGTH / 2, length=LENGTH),
        release_lease(LEASE, now=NOW + LENGTH),
        acquire_lease("nightly", LEASE, owner="you", task="", now=NOW, length=LENGTH),
    ]
    for step in steps:
        assert await schedule.swap_lease(seen, step)
        assert await schedule.find_lease("nightly") == step
        seen = step


@pytest.mark.parametrize(
    "change",
    [
        {"owner": "you"},
        {"fencing_token": 9},
        {"heartbeat": 9},
        {"until": NOW + timedelta(microseconds=1)},
        {"task": "another"},
        {"name": "hourly"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_lease_that_is_not_exactly_as_seen_is_not_swapped(store, change):
    wanted = renew_lease(LEASE, now=NOW, length=LENGTH)

    assert not await store.schedule.swap_lease(LEASE, wanted)
    assert await store.schedule.swap_lease(None, LEASE)
    assert not await store.schedule.swap_lease(replace(LEASE, **change), wanted)
    assert not await store.schedule.swap_lease(None, wanted)
    assert await store.schedule.find_lease("nightly") == LEASE


@pytest.mark.parametrize("seen", [None, LEASE], ids=["first", "takeover"])
async def test_of_many_that_saw_the_same_lease_one_gets_it(store, seen):
    if seen:
        await store.schedule.swap_lease(None, seen)
    wanted = [
        acquire_lease("nightly", seen, owner=f"owner-{n}", task="", now=NOW, length=LENGTH)
        for n in range(16)
    ]
    answers = await asyncio.gather(*(store.schedule.swap_lease(seen, one) for one in wanted))
    assert answers.count(True) == 1
    assert await store.schedule.find_lease("nightly") == wanted[answers.index(True)]


async def test_a_slot_comes_back_as_it_went_in_with_its_line_in_the_ledger(store):
    decided = slot(
        state=OccurrenceState.STARTED, reason="on time – ｊ", run_at=NOW + timedelta(seconds=5)
    )

    there = replace(decided, due_at=decided.due_at.astimezone(SINGAPORE))
    assert await store.schedule.record_result(there, fence=None)
    [back] = await store.schedule.list_results("nightly")
    assert back == decided
    assert back.due_at.tzinfo is UTC
    [entry] = await store.ledger.list_entries()
    assert (entry.kind, entry.reason, entry.at) == ("STARTED", "on time – ｊ", NOW)
    assert entry.subject == "nightly@2026-02-07T01:30:00+00:00"
    assert entry.data == {"run": "20260207_013005"}


async def test_an_instant_is_decided_once(store):
    assert await store.schedule.record_result(slot(), fence=None)
    other = slot(state=OccurrenceState.STARTED)
    assert not await store.schedule.record_result(other, fence=None)
    elsewhere = replace(other, due_at=other.due_at.astimezone(SINGAPORE))
    assert not await store.schedule.record_result(elsewhere, fence=None)
    assert await store.schedule.record_result(slot(schedule="hourly"), fence=None)
    assert await store.schedule.list_results("nightly") == [slot()]
    assert len(await store.ledger.list_entries()) == 2


async def test_of_many_that_decide_an_instant_one_does_and_the_ledger_has_one_line(store):
    tries = (store.schedule.record_result(slot(reason=f"{n}"), fence=None) for n in range(16))
    answers = await asyncio.gather(*tries)
    assert answers.count(True) == 1
    [decided] = await store.schedule.list_results("nightly")
    assert decided.reason == f"{answers.index(True)}"
    [entry] = await store.ledger.list_entries()
    assert entry.reason == decided.reason


async def test_many_instants_at_once_leave_a_ledger_without_gaps(store):
    tries = (store.schedule.record_result(slot(n), fence=None) for n in range(16))
    assert all(await asyncio.gather(*tries))
    entries = await store.ledger.list_entries()
    assert [entry.seq for entry in entries] == list(range(1, 17))
    assert find_first_break(entries) is None


@pytest.mark.parametrize(
    "fence",
    [
        replace(LEASE, owner="you"),
        replace(LEASE, fencing_token=0),
        replace(LEASE, fencing_token=2),
        replace(LEASE, name="hourly"),
    ],
    ids=["another owner", "older epoch", "newer epoch", "no such lease"],
)
async def test_a_process_that_lost_the_lease_records_nothing(store, fence):
    await store.schedule.swap_lease(None, LEASE)
    await refused(store.schedule.record_result(slot(), fence=fence), ConflictError)
    assert await store.schedule.list_results("nightly") == []
    assert await store.ledger.list_entries() == []


async def test_the_holder_of_a_renewed_lease_records_results(store):
    await store.schedule.swap_lease(None, LEASE)
    await store.schedule.swap_lease(LEASE, renew_lease(LEASE, now=NOW, length=LENGTH))
    assert await store.schedule.record_result(slot(), fence=LEASE)
    # The fence is asked first: a loser hears that it lost, not that it was late.
    lost = replace(LEASE, owner="you")
    await refused(store.schedule.record_result(slot(), fence=lost), ConflictError)


async def test_slots_are_given_oldest_first_within_what_is_asked(store):
    for hours in (3, 1, 4, 0, 2):
        await store.schedule.record_result(slot(hours), fence=None)
    await store.schedule.record_result(slot(9, schedule="hourly"), fence=None)
    slots = store.schedule.list_results

    def hour(n):
        return (NOW + timedelta(hours=n)).astimezone(SINGAPORE)

    assert await slots("nightly") == [slot(n) for n in range(5)]
    assert await slots("nightly", since=hour(3)) == [slot(3), slot(4)]
    assert await slots("nightly", until=hour(2)) == [slot(0), slot(1)]
    assert await slots("nightly", since=hour(1), until=hour(3)) == [slot(1), slot(2)]
    assert await slots("nightly", since=hour(3), until=hour(1)) == []
    assert await store.schedule.find_last_result("nightly") == slot(4)
    assert await store.schedule.find_last_result("never") is None
    assert await store.schedule.find_last_result("nightly", until=hour(2)) == slot(2)
    assert await store.schedule.find_last_result("nightly", until=hour(-1)) is None


async def test_the_latest_entry_of_any_kind_gives_the_latest_time(store):
    assert await store.schedule.find_latest_entry_at() is None
    late = NOW + timedelta(days=1, microseconds=1)
    await store.schedule.record_result(slot(0, decided_at=late), fence=None)
    assert await store.schedule.find_latest_entry_at() == late
    await store.ledger.append([NewEntry(at=NOW, kind="ODD", subject="", reason="")])
    assert await store.schedule.find_latest_entry_at() == NOW
    [entry] = await store.ledger.append(
        [build_clock_accepted_entry(NOW + timedelta(days=1), latest=late)]
    )
    assert await store.schedule.find_latest_entry_at() == entry.at


@pytest.mark.parametrize("text", UNSTORABLE, ids=["NUL", "half a pair", "too long"])
async def test_text_that_cannot_be_kept_is_refused_whole(store, text):
    schedule = store.schedule
    for bad in ({"name": text}, {"owner": text}, {"task": text}):
        await refused(schedule.swap_lease(None, replace(LEASE, **bad)))
    await refused(schedule.record_result(slot(reason=text), fence=None))
    await refused(schedule.record_result(slot(schedule=text), fence=None))
    await refused(schedule.find_lease(text))
    await refused(schedule.list_results(text))
    assert await schedule.find_lease("nightly") is None
    assert await schedule.list_results("nightly") == await store.ledger.list_entries() == []


async def test_a_moment_without_a_zone_is_refused(store):
    naive = NOW.replace(tzinfo=None)

    schedule = store.schedule
    await refused(schedule.swap_lease(None, replace(LEASE, until=naive)), ConfigError)
    await refused(schedule.record_result(slot(decided_at=naive), fence=None), ConfigError)
    await refused(schedule.record_result(replace(slot(), due_at=naive), fence=None), ConfigError)
    await refused(schedule.list_results("nightly", since=naive), ConfigError)
    assert await store.ledger.list_entries() == []


async def test_one_tenant_cannot_see_or_stop_another(backend):
    acme, umbrella = backend.tenant(ACME).schedule, backend.tenant(UMBRELLA).schedule
    await acme.swap_lease(None, LEASE)
    await acme.record_result(slot(), fence=LEASE)
    assert await umbrella.find_lease("nightly") is None
    assert await umbrella.list_results("nightly") == []
    assert await umbrella.find_last_result("nightly") is None
    assert await umbrella.find_latest_entry_at() is None
    assert not await umbrella.swap_lease(LEASE, renew_lease(LEASE, now=NOW, length=LENGTH))
    await refused(umbrella.record_result(slot(), fence=LEASE), ConflictError)
    assert await umbrella.swap_lease(None, replace(LEASE, owner="you"))
    assert await umbrella.record_result(slot(reason="theirs"), fence=None)
    assert await acme.find_lease("nightly") == LEASE
    assert await acme.list_results("nightly") == [slot()]
