"""What maintenance deletes of money, what stays, and what the ledger is verified against then."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from contracts.backends import ACME, BACKENDS, UMBRELLA
from stoker.backends.sqlite import SqliteBackend
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest, Totals, to_attempt
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.verify import (
    FULL_CHECK_INTERVAL,
    RECENT,
    find_shared_mismatches,
    verify_ledger,
    verify_recent,
)
from stoker.budgets.windows import RETENTION, ResetRule, WindowKind
from stoker.db.database import delete_in_batches
from stoker.rate_limits.rate_limit import Rate

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
LATER = NOW + RETENTION + DAY
CAPS = [
    Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100),
    Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.RUN, limit=100),
    Cap(scope=Scope.CONNECTOR, unit="credits", window=WindowKind.DAY, limit=100, connector="lusha"),
]


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request, tmp_path, runner):
    opening = BACKENDS[request.param](tmp_path)
    yield runner.run(opening.__aenter__())
    runner.run(opening.__aexit__(None, None, None))


@pytest.fixture
def store(backend):
    return backend.tenant(ACME)


def build_request(key, number=10, run="20260207_013000"):
    return SpendRequest(key=key, connector="lusha", amounts={"credits": number}, run=run)


async def reserve(store, key, *, now=NOW, **asked):
    return await store.budgets.reserve(
        build_request(key, **asked),
        caps=CAPS,
        reset=ResetRule(),
        owner="me",
        until=now + timedelta(minutes=1),
        now=now,
    )


async def prune(backend, store, *, now=LATER, limit=10_000):
    deletes = [
        lambda: store.budgets.delete_closed_reservations(now=now, limit=limit),
        lambda: store.budgets.delete_old_usage(now=now, limit=limit),
        lambda: backend.shared().delete_old_usage(now=now, limit=limit),
    ]
    return [await delete_in_batches(delete) for delete in deletes]


async def fill(store):
    """Reserve one of each outcome, and one much later, so that the ledger has come that far."""
    for key in ("settled", "released", "uncertain", "expired", "sent"):
        await reserve(store, key)
    await store.budgets.settle("settled", {"credits": 12}, now=NOW)
    await store.budgets.release("released", reason="", now=NOW)
    await store.budgets.mark_uncertain("uncertain", reason="", now=NOW)
    await store.budgets.release("expired", reason="", now=NOW)
    await reserve(store, "new", now=LATER, run="20270315_013000")
    await store.budgets.settle("new", {"credits": 1}, now=LATER)


async def list_keys(store):
    found = await store.budgets.list_reservations(phases=list(ReservationStatus))
    return {reservation.key for reservation in found}


async def find_problems(backend, store, *, now=LATER):
    before = await backend.shared().list_usage()
    report = await verify_ledger(store, now=now)
    shared = await find_shared_mismatches(backend.shared(), [report], before=before, now=now)
    return [*report.problems, *shared]


@pytest.mark.parametrize("limit", [2, 10_000])
async def test_only_reservations_that_ended_long_ago_are_deleted(backend, store, limit):
    await fill(store)
    assert await prune(backend, store, now=LATER - 2 * DAY) == [0, 0, 0]
    deleted = await prune(backend, store, limit=limit)
    assert deleted[0] == 3
    assert await list_keys(store) == {"uncertain", "sent", "new"}
    # What is uncertain or open counts in the windows of then, so those stay.
    assert deleted[1:] == [0, 0]
    assert await find_problems(backend, store) == []


async def test_windows_are_deleted_once_nothing_is_reserved_in_them(backend, store):
    await fill(store)
    for key in ("uncertain", "sent"):
        await store.budgets.release(key, reason="", now=LATER)
    assert await prune(backend, store) == [3, 2, 1]
    assert {usage.used for usage in await store.budgets.list_usage()} == {Totals(settled=1)}
    assert await find_problems(backend, store) == []
    # A cost that becomes known after its window was deleted is counted, and is no difference.
    await store.budgets.settle("sent", {"credits": 5}, now=LATER)
    assert Totals(settled=5) in {usage.used for usage in await store.budgets.list_usage()}
    assert await find_problems(backend, store) == []


async def test_another_tenants_rows_stay(backend, store):
    other = backend.tenant(UMBRELLA)
    await fill(store)
    await fill(other)
    await prune(backend, store)
    assert len(await list_keys(other)) == 6
    assert (await verify_ledger(other, now=LATER)).problems == ()


async def test_a_clock_that_runs_ahead_deletes_nothing(backend, store):
    await reserve(store, "k")
    await store.budgets.settle("k", {"credits": 10}, now=NOW)
    assert await prune(backend, store, now=NOW + 10 * RETENTION) == [0, 0, 0]
    assert isinstance(await reserve(store, "more", number=91), Refusal)


async def test_a_total_that_was_changed_is_found_in_windows_of_any_age(tmp_path):
    backend = SqliteBackend(tmp_path / "stoker.db")
    await backend.migrate()
    store = backend.tenant(ACME)
    await fill(store)
    with closing(sqlite3.connect(tmp_path / "stoker.db")) as db, db:
        db.execute("UPDATE budgets SET settled = settled + 1")
    assert len((await verify_ledger(store, now=LATER)).problems) == 4
    await backend.close()


async def test_attempts_are_numbered_on_from_the_latest_that_is_left(backend, store):
    request = build_request("lusha/abc")
    for number in (*range(1, 12), 12):
        now = LATER if number == 12 else NOW
        await reserve(store, to_attempt(request, number).key, now=now, number=1)
        if number != 5:
            await store.budgets.settle(f"lusha/abc/{number}", {}, now=now)
    await reserve(store, "lusha/abcd/99", now=LATER)
    assert (await store.budgets.find_latest_attempt("lusha/abc"))[0] == 12
    await prune(backend, store)
    assert await list_keys(store) == {"lusha/abc/5", "lusha/abc/12", "lusha/abcd/99"}
    number, latest = await store.budgets.find_latest_attempt("lusha/abc")
    assert (number, latest.key) == (12, "lusha/abc/12")
    assert await store.budgets.find_latest_attempt("lusha/ab") == (0, None)


async def test_a_key_is_good_again_only_after_its_reservation_was_deleted(backend, store):
    await fill(store)
    assert (await reserve(store, "settled", now=LATER)).status is ReservationStatus.SETTLED
    await prune(backend, store)
    assert (await reserve(store, "settled", now=LATER)).status is ReservationStatus.SENT
    assert await find_problems(backend, store) == []


async def test_idle_rates_and_expired_slots_are_deleted_after_a_day(backend):
    shared, rate = backend.shared(), Rate(calls=1, per=timedelta(hours=2))
    for key in ("a", "b", "c"):
        await shared.acquire_call(key, rate, now=NOW)
    await shared.acquire_call("busy", rate, now=NOW + DAY)
    for owner, until in (("dead", NOW), ("alive", NOW + 2 * DAY)):
        await shared.acquire_slot("lusha", places=2, owner=owner, until=until, now=NOW - DAY)
    delete = lambda: shared.delete_idle(now=NOW + DAY + timedelta(hours=3), limit=2)  # noqa: E731
    assert await delete_in_batches(delete) == 4
    assert [await shared.find_next_at(key) is None for key in ("a", "busy")] == [True, False]
    assert not await shared.acquire_slot("lusha", places=1, owner="x", until=LATER, now=NOW)
    assert await delete_in_batches(delete) == 0


# The nightly verification


async def spend_daily(store, days, *, first=0):
    for day in range(first, first + days):
        now = NOW + day * DAY
        await reserve(store, f"k{day}", now=now, run=f"{now:%Y%m%d_%H%M%S}")
        await store.budgets.settle(f"k{day}", {"credits": 9}, now=now)


async def test_each_night_reads_what_is_recent_and_a_full_check_comes_round(store):
    read = []
    for day in range(60):
        await spend_daily(store, 1, first=day)
        report = await verify_recent(store, now=NOW + day * DAY)
        assert report.problems == ()
        read.append(report.entries)
    recent = 2 * (RECENT.days + 2)
    assert [day for day, many in enumerate(read) if many > recent] == [FULL_CHECK_INTERVAL.days]
    assert (await store.ledger.find_checkpoint()).head.seq == 120


async def test_what_was_reserved_before_the_checkpoint_may_end_after_it(store):
    await reserve(store, "old")
    await reserve(store, "older")
    await spend_daily(store, 40, first=1)
    now = NOW + 40 * DAY
    assert (await verify_recent(store, now=now)).problems == ()
    await store.budgets.settle("old", {"credits": 1}, now=now)
    report = await verify_recent(store, now=now)
    assert (report.problems, report.entries < 40) == ((), True)


@pytest.mark.parametrize(
    ("statement", "nightly"),
    [
        ("UPDATE ledger SET reason = 'x' WHERE seq = 2", ""),  # only the full check reads it
        ("UPDATE ledger SET reason = 'x' WHERE seq = 79", "the chain breaks at entry 79"),
        ("DELETE FROM ledger WHERE seq > 79", "it ends with entry 79, but had come to 80"),
        ("UPDATE budgets SET settled = 8 WHERE window_name LIKE 'day 2026-03-18%'", "add up to 9"),
        ("UPDATE budgets SET settled = 8 WHERE window_name LIKE 'run 20260318%'", "add up to 9"),
        ("UPDATE holds SET closed_at = NULL, phase = 'SENT' WHERE key = 'k39'", "the store says S"),
        (
            "DELETE FROM ledger WHERE seq = (SELECT start_seq FROM ledger_checkpoints)",
            "was changed",
        ),
    ],
)
async def test_what_was_tampered_with_is_found(tmp_path, statement, nightly):
    backend = SqliteBackend(tmp_path / "stoker.db")
    await backend.migrate()
    store, now = backend.tenant(ACME), NOW + 39 * DAY
    await spend_daily(store, 40)
    assert (await verify_recent(store, now=now)).problems == ()
    with closing(sqlite3.connect(tmp_path / "stoker.db")) as db, db:
        for guard in ("ledger_is_not_changed", "ledger_is_not_deleted"):
            db.execute(f"DROP TRIGGER {guard}")
        assert db.execute(statement).rowcount
    problems = (await verify_recent(store, now=now)).problems
    assert (nightly in problems[0]) if nightly else not problems
    # Nothing is forgotten: what is wrong is found each night until it is put right.
    assert (await verify_recent(store, now=now)).problems == problems
    assert (await verify_recent(store, now=now + FULL_CHECK_INTERVAL)).problems
    await backend.close()
