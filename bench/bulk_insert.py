"""How fast a million postings go into SQLite, and how fast single writes do, beside bare sqlite3.

Both sides have the same tables, pragmas and rows, and one transaction. Ours begins with postings
as the engine has them, checks each and puts them into key order; the baseline is handed ready
tuples, once in the order they were found and once already in key order.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import Job, TenantId
from stoker.ledger.chain import NewEntry
from stoker.runs.model import Run, RunKey

ACME = TenantId("acme")
START = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
INSERT = "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
BARE_ROW = "INSERT INTO ledger VALUES ('acme', ?, ?, 'BENCH', 'row', '', '{}', '', '')"
CALLERS = 32


def postings(count: int) -> list[Job]:
    return [
        Job.create(
            source="greenhouse:acme",
            url=f"https://boards.example.com/acme/jobs/{number}",
            title=f"Senior Engineer, Platform {number % 997}",
            company="Acme Pte Ltd",
            location="Singapore",
            posted_at=START - timedelta(minutes=number % 50_000),
        )
        for number in range(count)
    ]


def bare(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        db.execute(f"PRAGMA {pragma}")
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
        db.execute(f"PRAGMA {pragma}")
    for step in SCHEMA.sqlite:
        db.executescript(step.script)
    return db


def seconds_bare(rows: list[tuple[object, ...]]) -> float:
    with tempfile.TemporaryDirectory() as directory:
        db = bare(Path(directory) / "bare.db")
        run = ("acme", rows[0][1], "discover", "RUNNING", None, 1, None, "", "", "{}")
        db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", run)
        began = time.perf_counter()
        db.execute("BEGIN IMMEDIATE")
        db.executemany(INSERT, rows)
        db.execute("COMMIT")
        took = time.perf_counter() - began
        db.close()
    return took


async def seconds_ours(jobs: list[Job]) -> float:
    with tempfile.TemporaryDirectory() as directory:
        backend = SqliteBackend(Path(directory) / "ours.db")
        await backend.migrate()
        runs = backend.tenant(ACME).runs
        key = RunKey(START, 1)
        await runs.insert_run(Run(key=key, kind="discover"))
        began = time.perf_counter()
        new = await runs.insert_jobs(key, jobs)
        took = time.perf_counter() - began
        await backend.close()
    assert new == len(jobs)
    return took


def singles_bare(count: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        db = bare(Path(directory) / "bare.db")
        began = time.perf_counter()
        for seq in range(count):
            db.execute(BARE_ROW, (seq, START.isoformat()))
        took = time.perf_counter() - began
        db.close()
    return count / took


async def singles_ours(count: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        backend = SqliteBackend(Path(directory) / "ours.db")
        await backend.migrate()
        book = backend.tenant(ACME).ledger
        note = NewEntry(at=START, kind="BENCH", subject="row", reason="")

        async def caller() -> None:
            for _ in range(count // CALLERS):
                await book.append([note])

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        took = time.perf_counter() - began
        await backend.close()
    return count / took


def main(rows: int = 1_000_000, rounds: int = 2) -> list[tuple[str, str, str, str]]:
    jobs = postings(rows)
    at = START.isoformat(timespec="microseconds")
    ready: list[tuple[object, ...]] = [
        (
            "acme",
            at,
            job.id,
            job.source,
            job.url,
            job.title,
            job.company,
            job.location,
            job.posted_at and job.posted_at.isoformat(timespec="microseconds"),
        )
        for job in jobs
    ]
    sorted_ready = sorted(ready, key=lambda row: str(row[2]))
    ours, baseline, in_order = [], [], []
    for _ in range(rounds):  # in turn, so that a busy machine slows all
        ours.append(rows / asyncio.run(seconds_ours(jobs)))
        baseline.append(rows / seconds_bare(ready))
        in_order.append(rows / seconds_bare(sorted_ready))
    singles = min(6_400, rows)
    many = [(asyncio.run(singles_ours(singles)), singles_bare(singles)) for _ in range(rounds)]
    grouped, alone = max(pair[0] for pair in many), max(pair[1] for pair in many)
    return [
        line(f"bulk insert of {rows:,} postings (at least 0.80)", max(ours), max(baseline)),
        line("the same, the baseline's rows sorted beforehand", max(ours), max(in_order)),
        line(f"single durable writes, {CALLERS} callers (n={singles:,})", grouped, alone),
    ]


def line(what: str, ours: float, baseline: float) -> tuple[str, str, str, str]:
    return what, f"{ours:,.0f} rows/s", f"{baseline:,.0f} rows/s", f"{ours / baseline:.2f}"


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
