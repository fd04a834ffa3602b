"""A6: logs that were torn, cut, zeroed or flipped, and what a reader makes of them.

A reader may lose what came last. It may not make anything up, and it may not keep quiet.
"""

import asyncio
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
from stoker.base.errors import StokerError
from stoker.db.database import Result, Transaction
from stoker.db.sqlite import SqliteTransaction
from stoker.db.sqlite_file import open_reader, wrap_sqlite_errors

SECTOR = 512


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
    worker = workers.prepare("work", subject="sqlite", path=path, steps=10_000)
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
