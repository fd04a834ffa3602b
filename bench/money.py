"""How many promises a second can be given and settled, beside bare loops that write the same rows.

A pair is a reservation under two caps and its settlement: two transactions, each of which changes
both totals, writes the promise and adds a ledger entry. The bare loops write the same rows, as the
same role; they are handed ready values and neither check, decide nor chain anything. `lean` is less
still: one UPDATE of one total each time, so it says what all the rest costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench.bulk_insert import bare

from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.reservations import Reservation
from stoker.budgets.schema import RESERVATIONS
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.context import Backend

ACME = TenantId("acme")
START = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
CAPS = (
    Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=10**12),
    Cap(
        scope=Scope.TENANT_CONNECTOR,
        unit="credits",
        window=WindowKind.HOUR,
        limit=10**12,
        connector="lusha",
    ),
)
TASKS, WORKERS = 64, 8
PAIRS, ROUNDS = 3_200, 3

TABLE_OF_HOLD = (
    "key, connector, fingerprint, phase, owner, until_at, reserved_at, closed_at, run, account, "
    "reason, amounts, charges, actual"
)
PROMISE = f"INSERT INTO holds (tenant_id, {TABLE_OF_HOLD}) VALUES ('acme', {', '.join('?' * 14)})"
CHARGE = """
UPDATE budgets SET reserved = reserved + 7
WHERE tenant_id = 'acme' AND cap = ? AND window_name = ? AND settled + reserved + 7 <= ?
"""
SETTLE = """
UPDATE holds SET phase = 'SETTLED', closed_at = ?, actual = ?
WHERE tenant_id = 'acme' AND key = ? AND phase = 'SENT'
"""
SPEND = """
UPDATE budgets SET reserved = reserved - 7, settled = settled + 5
WHERE tenant_id = 'acme' AND cap = ? AND window_name = ?
"""
ENTRY = "INSERT INTO ledger VALUES ('acme', ?, ?, 'BENCH', 'k', '', ?, '', '')"
DATA = '{"amounts":{"credits":7},"charges":[["tenant/*/credits/day","day 2026-02-07",7]]}'


async def pairs(backend: Backend, *, tasks: int, each: int, who: str) -> None:
    money = backend.tenant(ACME).budgets

    async def caller(nth: int) -> None:
        for turn in range(each):
            key = f"{who}/{nth}/{turn}"
            request = SpendRequest(key=key, connector="lusha", amounts={"credits": 7})
            hold = await money.reserve(
                request,
                caps=CAPS,
                reset=ResetRule("Asia/Singapore"),
                owner=who,
                until=START + timedelta(minutes=1),
                now=START,
            )
            assert not isinstance(hold, Refusal)
            await money.settle(key, {"credits": 5}, now=START)

    await asyncio.gather(*(caller(nth) for nth in range(tasks)))


async def sqlite_ours(count: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        backend = SqliteBackend(Path(directory) / "ours.db")
        await backend.migrate()
        began = time.perf_counter()
        await pairs(backend, tasks=TASKS, each=count // TASKS, who="bench")
        took = time.perf_counter() - began
        await backend.close()
    return count / took


def sample_hold() -> Reservation:
    """A promise as the store writes it, so that the bare loops write rows of the same size."""

    async def made() -> Reservation:
        with tempfile.TemporaryDirectory() as directory:
            backend = SqliteBackend(Path(directory) / "sample.db")
            await backend.migrate()
            await pairs(backend, tasks=1, each=1, who="bench")
            hold = await backend.tenant(ACME).budgets.find_reservation("bench/0/0")
            await backend.close()
            assert hold is not None
            return hold

    return asyncio.run(made())


def sqlite_bare(count: int, hold: Reservation) -> float:
    values, at = (
        list(RESERVATIONS.to_row(hold)),
        START.isoformat(timespec="microseconds"),
    )
    windows = [(charge.cap, charge.window) for charge in hold.charges]
    with tempfile.TemporaryDirectory() as directory:
        db = bare(Path(directory) / "bare.db")
        for window in windows:
            db.execute("INSERT INTO budgets VALUES ('acme', ?, ?, 0, 0)", window)
        began = time.perf_counter()
        for turn in range(count):
            key = f"bench/0/{turn}"
            db.execute("BEGIN IMMEDIATE")
            db.execute(PROMISE, (key, *values[1:3], "SENT", *values[4:7], None, *values[8:]))
            for window in windows:
                db.execute(CHARGE, (*window, 10**12))
            db.execute(ENTRY, (2 * turn + 1, at, DATA))
            db.execute("COMMIT")
            db.execute("BEGIN IMMEDIATE")
            db.execute(SETTLE, (at, '{"credits":5}', key))
            for window in windows:
                db.execute(SPEND, window)
            db.execute(ENTRY, (2 * turn + 2, at, DATA))
            db.execute("COMMIT")
        took = time.perf_counter() - began
        db.close()
    return count / took


def sqlite_lean(count: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        db = bare(Path(directory) / "bare.db")
        db.execute("INSERT INTO budgets VALUES ('acme', 'cap', 'day', 0, 0)")
        began = time.perf_counter()
        for _ in range(count):
            db.execute(CHARGE, ("cap", "day", 10**12))
            db.execute(SPEND, ("cap", "day"))
        took = time.perf_counter() - began
        db.close()
    return count / took


def crowd(work: Callable[..., None], *arguments: object, count: int) -> float:
    """Return pairs a second of so many processes, from when all were ready."""
    fork = multiprocessing.get_context("fork")
    ready = fork.Barrier(WORKERS + 1)
    processes = [
        fork.Process(target=work, args=(nth, count // WORKERS, ready, *arguments))
        for nth in range(WORKERS)
    ]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return count / (time.perf_counter() - began)


def postgres_ours(nth: int, each: int, ready: multiprocessing.Barrier, app_url: str) -> None:
    from stoker.backends.postgres import PostgresBackend

    async def work() -> None:
        backend = PostgresBackend(app_url, connections=1)
        await backend.tenant(ACME).budgets.list_usage()
        await asyncio.to_thread(ready.wait)
        await pairs(backend, tasks=1, each=each, who=f"worker {nth}")
        await backend.close()

    asyncio.run(work())


def postgres_bare(
    nth: int, each: int, ready: multiprocessing.Barrier, url: str, hold: Reservation, lean: bool
) -> None:
    import psycopg

    values, at = (
        list(RESERVATIONS.to_row(hold)),
        START.isoformat(timespec="microseconds"),
    )
    windows = [(charge.cap, charge.window) for charge in hold.charges]
    promise, charge, settle, spend, entry = (
        query.replace("?", "%s") for query in (PROMISE, CHARGE, SETTLE, SPEND, ENTRY)
    )
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET search_path = stoker")
        db.execute("SET request.tenant_id = 'acme'")  # once and for all; row security binds it too
        ready.wait()
        for turn in range(each):
            if lean:
                db.execute(charge, (*windows[0], 10**12))
                db.execute(spend, windows[0])
                continue
            key, seq = f"worker {nth}/{turn}", nth * 10**9 + 2 * turn
            with db.transaction():
                held = (key, *values[1:3], "SENT", *values[4:7], None, *values[8:])
                db.execute(promise, held)
                db.execute(entry, (seq, at, DATA))
                for window in windows:
                    db.execute(charge, (*window, 10**12))
            with db.transaction():
                db.execute(settle, (at, '{"credits":5}', key))
                db.execute(entry, (seq + 1, at, DATA))
                for window in windows:
                    db.execute(spend, window)


@contextlib.contextmanager
def server() -> Iterator[Callable[[], tuple[str, str]]]:
    import pg

    home = pg.Server(pg.new_home())
    try:
        home.make()
        yield lambda: pg.fresh_database(home)
    finally:
        home.remove()


def with_totals(admin_url: str, app_url: str, hold: Reservation) -> str:
    import psycopg

    with psycopg.connect(admin_url, autocommit=True) as admin:
        for charge in hold.charges:
            admin.execute(
                "INSERT INTO stoker.budgets VALUES ('acme', %s, %s, 0, 0)",
                (charge.cap, charge.window),
            )
    return app_url


def postgres_rates(count: int, hold: Reservation) -> tuple[float, float, float]:
    with server() as database:
        ours, baseline, lean = [], [], []
        for _ in range(ROUNDS):  # in turn, so that a busy machine slows all
            ours.append(crowd(postgres_ours, database()[1], count=count))
            for rates, leaner in ((baseline, False), (lean, True)):
                url = with_totals(*database(), hold)
                rates.append(crowd(postgres_bare, url, hold, leaner, count=count))
    return max(ours), max(baseline), max(lean)


def main(count: int = PAIRS) -> list[tuple[str, str, str, str]]:
    import pg

    hold = sample_hold()
    ours, baseline, lean = [], [], []
    for _ in range(ROUNDS):
        ours.append(asyncio.run(sqlite_ours(count)))
        baseline.append(sqlite_bare(count, hold))
        lean.append(sqlite_lean(count))
    what = f"reserve + settle, SQLite, {TASKS} tasks (n={count:,}, best of {ROUNDS})"
    rows = [
        line(f"{what}, bare writes the same rows (at least 0.50)", max(ours), max(baseline)),
        line(f"{what}, bare adds to one total", max(ours), max(lean)),
    ]
    if reason := pg.why_no_postgres():
        return [*rows, (f"reserve + settle on Postgres: {reason}", "-", "-", "-")]
    fast, same, leaner = postgres_rates(count, hold)
    what = f"reserve + settle, Postgres, {WORKERS} workers (n={count:,}, best of {ROUNDS})"
    return [
        *rows,
        line(f"{what}, bare writes the same rows (at least 0.50)", fast, same),
        line(f"{what}, bare adds to one total", fast, leaner),
    ]


def line(what: str, ours: float, baseline: float) -> tuple[str, str, str, str]:
    return what, f"{ours:,.0f} pairs/s", f"{baseline:,.0f} pairs/s", f"{ours / baseline:.2f}"


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
