"""How fast the register goes into a store, beside a bare csv reader with executemany.

Both sides read the same made-up file and end with the same rows in the same tables, durably. Ours
looks the file through first, checks every row, compares it with what is known and dates changes, in
batches that another process can read between; the bare loop trusts everything, knows only how to
insert, and uses one transaction. The second release is ours alone: a bare loop has no difference.
"""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
import statistics
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.base.clock import SystemClock
from stoker.registry.files import open_register_files
from stoker.registry.releases import RegistryFile
from stoker.registry.schema import ENTITIES, RAW_ENTITIES, SEEN
from stoker.registry.service import RegistryLoader
from stoker.sandbox.world.companies import World
from stoker.sandbox.world.register import RELEASES, iterate_lines

ROWS, ROUNDS, SEED = 50_000, 3, 7


def written(home: Path) -> list[Path]:
    """Write both releases of a made-up register; return where they are."""
    world, paths = World(seed=SEED, size=ROWS), []
    for release in RELEASES:
        paths.append(home / f"register-{release}.csv")
        with paths[-1].open("w", encoding="utf-8") as file:
            file.writelines(iterate_lines(world, release=release))
    return paths


async def imported(backend, path: Path, release: str):
    """Read one file through the product; return how it went and how long all of it took."""
    began = time.perf_counter()
    [file] = open_register_files(path)
    source = RegistryFile(
        digest=file.digest,
        name=file.name,
        release=release,
        part=file.name,
        lines=file.lines,
        rows=file.iter_rows,
    )
    reading = RegistryLoader(backend.registry(), clock=SystemClock(), observer=lambda _: None)
    done = await reading.load_file(source)
    return done.load.count, time.perf_counter() - began


async def ours(backend, paths):
    """Return rows a minute of a first release, of the next, and of the same file once more."""
    first, took = await imported(backend, paths[0], RELEASES[0])
    second, again = await imported(backend, paths[1], RELEASES[1])
    _, idle = await imported(backend, paths[1], RELEASES[1])
    assert first.rejected == second.rejected == 0
    return 60 * first.rows_read / took, 60 * second.rows_read / again, idle


def bare(home: Path, path: Path) -> float:
    """Return rows a minute of a loop that trusts everything, into the same tables."""
    db = sqlite3.connect(home / "bare.db", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        db.execute(f"PRAGMA {pragma}")
    for step in SCHEMA.sqlite:
        db.executescript(step.script)
    began = time.perf_counter()
    seen, companies, raws = [], [], []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            raw = json.dumps({name: cell for name, cell in row.items() if cell != "na"})
            digest = sha256(raw.encode()).hexdigest()[:32]
            uen = row["uen"]
            street = " ".join((row["block"], row["street_name"], row["level_no"], row["unit_no"]))
            former = json.dumps([row[f"former_entity_name{nth}"] for nth in range(1, 16)])
            seen.append((uen, RELEASES[0], digest, "2026-01-01T00:00:00.000000+00:00", None))
            companies.append(
                (
                    uen,
                    row["entity_name"],
                    row["entity_type_description"],
                    row["company_type_description"],
                    row["entity_status_description"],
                    row["entity_status_description"].startswith("Live"),
                    row["registration_incorporation_date"],
                    row["primary_ssic_code"].zfill(5),
                    row["secondary_ssic_code"],
                    row["primary_user_described_activity"],
                    street,
                    row["postal_code"],
                    row["no_of_officers"],
                    former,
                    digest,
                )
            )
            raws.append((uen, raw))
    db.execute("BEGIN")
    db.executemany(SEEN.upsert, seen)
    db.executemany(ENTITIES.upsert, companies)
    db.executemany(RAW_ENTITIES.upsert, raws)
    db.execute("COMMIT")
    took = time.perf_counter() - began
    db.close()
    return 60 * len(seen) / took


async def on_sqlite(home: Path, paths):
    backend = SqliteBackend(home / "ours.db")
    await backend.migrate()
    try:
        return await ours(backend, paths)
    finally:
        await backend.close()


def main():
    firsts, seconds, idles, bares = [], [], [], []
    with tempfile.TemporaryDirectory() as made:
        paths = written(Path(made))
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as home:
                # In turns, so that a busy moment of the machine is nobody's alone.
                bares.append(bare(Path(home), paths[0]))
                first, second, idle = asyncio.run(on_sqlite(Path(home), paths))
                firsts.append(first)
                seconds.append(second)
                idles.append(idle)
    first, second, plain = map(statistics.median, (firsts, seconds, bares))
    return [
        (
            f"registry: first release, {ROWS:,} rows into SQLite",
            f"{first:,.0f} rows/min",
            f"{plain:,.0f} rows/min (csv + executemany)",
            first / plain,
        ),
        (
            "registry: next release, 8 % of rows differ",
            f"{second:,.0f} rows/min",
            f"{plain:,.0f} rows/min (all inserted anew)",
            second / plain,
        ),
        ("registry: the same file again", f"{statistics.median(idles):.2f} s", "–", "–"),
    ]


if __name__ == "__main__":
    for line in main():
        print(*line, sep=" | ")
