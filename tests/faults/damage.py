"""A6: files that were torn, cut, zeroed or flipped, and what a reader makes of them.

A reader may lose what came last. It may not make anything up, and it may not keep quiet.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from faults.lab import Workers
from faults.subjects import BrokenError, Stored
from faults.tally import Tally
from faults.trials import prepared
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError, StokerError
from stoker.db.database import Result, Transaction
from stoker.db.sqlite import SqliteTransaction
from stoker.db.sqlite_file import open_reader, wrap_sqlite_errors
from stoker.files.durable import Disk
from stoker.runs.json_lines import ChecksummedLines

SECTOR = 512
Read = Callable[[Path], tuple[list[object], bool]]
"""Returns the records a file holds, and whether anything was found to be wrong with it."""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return the data as a dying disk might: cut, zeroed, garbled, shuffled or one bit off."""
    torn = bytearray(data)
    start = rng.randrange(len(torn))
    end = min(len(torn), start + rng.randrange(1, 4 * SECTOR))
    match rng.choice(["cut", "zero", "garbage", "sectors", "flip"]):
        case "cut":
            del torn[start:]
        case "zero":
            torn[start:end] = bytes(end - start)
        case "garbage":
            torn[start:end] = rng.randbytes(end - start)
        case "sectors":
            for at in range(start - start % SECTOR, len(torn), SECTOR):
                if rng.random() < 0.5:  # this sector was never written
                    torn[at : at + SECTOR] = bytes(len(torn[at : at + SECTOR]))
        case "flip":
            torn[start] ^= 1 << rng.randrange(8)
    return bytes(torn)


def crashed_store(workers: Workers, *, steps: int) -> Path:
    """Return a SQLite store whose writer was killed, its log not yet folded back."""
    path = prepared(workers, "sqlite")
    worker = workers.start("work", subject="sqlite", path=path, steps=10_000)
    worker.release()
    while len(worker.acks()) < steps:
        time.sleep(0.002)
    worker.kill()
    worker.wait()
    return path


def torn_wal_images(crashed: Path, image: Path, *, n: int, rng: random.Random) -> Tally:
    """Damage the log of a store that was killed, n times; each must open to a beginning."""
    tally = Tally()
    database = (crashed / "stoker.db").read_bytes()
    log = (crashed / "stoker.db-wal").read_bytes()
    image.mkdir()
    for nth in range(n):
        for old in image.iterdir():
            old.unlink()
        (image / "stoker.db").write_bytes(database)
        (image / "stoker.db-wal").write_bytes(damaged(log, rng))
        try:
            tally.acked += asyncio.run(_kept(image / "stoker.db"))
        except (BrokenError, StokerError) as broken:
            tally.broken.append(f"image {nth}: {broken}")
        tally.n += 1
    return tally


class _Reading(SqliteBackend):
    """The store's own verbs on one connection, without its threads: 3,000 images take a while."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._connection = open_reader(path, busy=timedelta(seconds=1))

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        with wrap_sqlite_errors(self._path):
            self._connection.execute("BEGIN")
            try:
                return work(SqliteTransaction(self._connection))
            finally:
                self._connection.execute("ROLLBACK")

    async def close(self) -> None:
        self._connection.close()


async def _kept(path: Path) -> int:
    subject = Stored(lambda: _Reading(path))
    subject.look()
    try:
        return await subject.kept(0)
    finally:
        await subject.close()


def written(path: Path, *, batches: int = 8) -> list[tuple[int, list[object]]]:
    """Write a chained file; return after each batch how long it was and what it held."""
    lines, disk = ChecksummedLines(path), Disk()
    so_far: list[object] = []
    marks = [(0, so_far)]
    for nth in range(batches):
        batch = [{"id": f"{nth}-{row}", "title": "Rôle " + "x" * row} for row in range(1 + nth % 4)]
        list(lines.append(batch, disk=disk))
        so_far = [*so_far, *batch]
        marks.append((path.stat().st_size, so_far))
    return marks


def chained(path: Path) -> tuple[list[object], bool]:
    """Read as the JSON store does."""
    lines = ChecksummedLines(path)
    try:
        records: list[object] = [json.loads(row.line) for row in lines.read_new()]
    except ConfigError:
        return [], True
    return records, lines.partial_bytes > 0


def plain(path: Path) -> tuple[list[object], bool]:
    """The twin: a line that does not parse is skipped, what does is believed."""
    records: list[object] = []
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "chain" not in record:
            records.append(record)
    return records, False


def cut_everywhere(room: Path, read: Read) -> Tally:
    """Cut a file at each of its bytes: the whole batches before the cut, and a word about it."""
    tally, path = Tally(), room / "lines.jsonl"
    marks = written(path)
    data = path.read_bytes()
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        end, expected = max(mark for mark in marks if mark[0] <= cut)
        records, told = read(path)
        tally.n += 1
        if records != expected:
            tally.broken.append(f"cut at {cut}: not the whole batches before it")
        elif told != (cut > end):
            tally.broken.append(f"cut at {cut}: it was not reported")
    return tally


def flipped_bits(room: Path, read: Read, *, n: int, rng: random.Random) -> Tally:
    """Flip one bit, n times: what is read is a beginning, and the flip is reported."""
    tally, path = Tally(), room / "lines.jsonl"
    whole = written(path)[-1][1]
    data = path.read_bytes()
    for _ in range(n):
        at, bit = rng.randrange(len(data)), rng.randrange(8)
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
        records, told = read(path)
        tally.n += 1
        if records != whole[: len(records)]:
            tally.broken.append(f"bit {bit} of byte {at}: something was made up")
        elif not told:
            tally.broken.append(f"bit {bit} of byte {at}: it was not reported")
    return tally
