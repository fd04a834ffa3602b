"""How fast postings are discovered, and in how much memory, beside a bare csv and sqlite3 loop.

Ours reads a file, makes postings of its rows, enriches, scores and stores them, remembers what the
source lists, matches employers with accounts, tells signals and writes three files. The bare loop
reads the same rows and puts them into the same three tables, trusting everything, in one
transaction. Each side runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stoker.accounts.model import Company, CompanyId
from stoker.backends.schema import SCHEMA
from stoker.base.types import TenantId
from stoker.discovery.service import build_discovery_run, build_posting_files
from stoker.enrichment.runner import run_now

ROWS, FEW, ROUNDS = 100_000, 10_000, 3
EMPLOYERS, ACCOUNTS = 2_000, 200
START = datetime(2026, 11, 1, tzinfo=UTC)
TITLES = ("Senior Data Engineer", "Account Executive", "Python Developer (Remote)", "Head of Sales")
DEFAULT = TenantId("default")


def write_postings(path: Path, rows: int) -> None:
    """Write a file of made-up postings."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["title", "url", "company", "location", "posted_at", "description"])
        for nth in range(rows):
            writer.writerow(
                [
                    f"{TITLES[nth % len(TITLES)]} {nth % 97}",
                    f"https://jobs.example.com/{nth}",
                    f"Company {nth % EMPLOYERS} Pte Ltd",
                    "Singapore",
                    (START - timedelta(minutes=nth % 50_000)).isoformat(),
                    "We use Python, PostgreSQL and AWS to look after what our customers need.",
                ]
            )


async def ours(home: Path) -> float:
    """Return the seconds one discovery takes, from the file to the run's end."""
    from stoker.app import open_app, read_settings
    from stoker.runs.model import RunState

    (home / "stoker.toml").write_text('[discovery]\nsources = ["file:jobs.csv"]\nenrich = true\n')
    own = read_settings(directory=home, config=None, flags={}, environment={})
    async with open_app(own, observer=lambda _: None) as app:
        accounts = [
            Company(id=CompanyId(f"T{nth}"), name=f"Company {nth} Pte. Ltd.")
            for nth in range(ACCOUNTS)
        ]
        store = app.backend.tenant(DEFAULT)
        await store.accounts.upsert_companies(accounts, now=app.clock.now())
        work = build_discovery_run(
            app.for_tenant(DEFAULT), files=build_posting_files(app.for_tenant(DEFAULT))
        )
        began = time.perf_counter()
        run = await run_now(app.for_tenant(DEFAULT), work)
        took = time.perf_counter() - began
    counts = run.manifest.counts
    assert run.state is RunState.DONE, run.reason
    assert counts["kept"] == counts["scored"] == counts["listed"]
    assert counts["signals"] == counts["matched"] > 0
    return took


def bare(home: Path) -> float:
    """Return the seconds a loop takes that only reads and inserts."""
    db = sqlite3.connect(home / "bare.db", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        db.execute(f"PRAGMA {pragma}")
    for step in SCHEMA.sqlite[:1]:
        db.executescript(step.script)
    at = "2026-11-16T01:30:00.000000+00:00"
    run = ("default", at, "discovery", "RUNNING", None, 1, None, "", "", "{}")
    began = time.perf_counter()
    jobs, enriched, scores = [], [], []
    with (home / "jobs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            job = hashlib.sha256(f"file|{row['url']}".encode()).hexdigest()
            words = row["title"].lower()
            stack = [tag for tag in ("aws", "python") if tag in row["description"].lower()]
            remote = "remote" in words
            score = 0.5 * ("engineer" in words) + 0.3 * len(stack) / 2 + 0.2 * remote
            jobs.append(
                (
                    "default",
                    at,
                    job,
                    "file",
                    row["url"],
                    row["title"],
                    row["company"],
                    row["location"],
                    row["posted_at"],
                )
            )
            enriched.append(("default", at, job, words, "", json.dumps(stack), remote))
            scores.append(("default", at, job, score, "weak", json.dumps({"role_fit": score})))
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", run)
    db.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", jobs)
    db.executemany("INSERT INTO enriched VALUES (?, ?, ?, ?, ?, ?, ?)", enriched)
    db.executemany("INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?)", scores)
    db.execute("COMMIT")
    took = time.perf_counter() - began
    db.close()
    return took


def measured(side: str, rows: int) -> tuple[float, float]:
    """Return the seconds and the megabytes that one side needs, in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        write_postings(home / "jobs.csv", rows)
        words = [sys.executable, "-m", "bench.discovery", side, str(home)]
        told = subprocess.run(words, stdout=subprocess.PIPE, check=True)
        seconds, megabytes = json.loads(told.stdout)
    return seconds, megabytes


def main(rows: int = ROWS, few: int = FEW, rounds: int = ROUNDS) -> list[tuple[str, str, str, str]]:
    both = [(measured("ours", rows), measured("bare", rows)) for _ in range(rounds)]
    mine = rows / min(one[0] for one, _ in both)
    theirs = rows / min(other[0] for _, other in both)
    large = max(one[1] for one, _ in both)
    small = measured("ours", few)[1]
    return [
        (
            f"discovery: {rows:,} postings read, enriched, scored, matched, stored, exported",
            f"{mine:,.0f} postings/s",
            f"{theirs:,.0f} postings/s (csv + sqlite3)",
            f"{mine / theirs:.2f}",
        ),
        (
            f"discovery: memory of {rows:,} postings, beside that of {few:,}",
            f"{large:,.0f} MB",
            f"{small:,.0f} MB",
            f"{large / small:.2f}",
        ),
    ]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        side, home = sys.argv[1], Path(sys.argv[2])
        took = asyncio.run(ours(home)) if side == "ours" else bare(home)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([took, peak]))
    else:
        for row in main():
            print(*row, sep=" | ")
