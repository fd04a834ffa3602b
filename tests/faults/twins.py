"""The naive twins: what people write first, each losing something the stores must not lose.

They stay here so that every fault test can show that it would have noticed. Each appends numbered
steps; the judge is the same as for the stores.
"""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from faults.subjects import STORES, BrokenError, beginning
from stoker.files.durable import Disk

FILLING = "x" * 200


class RowPerCommit:
    """A table in SQLite, one commit for each step."""

    def __init__(self, path: Path, *, synchronous: str = "FULL") -> None:
        self._path = path / "twin.db"
        self._settings = ("PRAGMA journal_mode=WAL", f"PRAGMA synchronous={synchronous}")

    async def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        for setting in self._settings:
            self._db.execute(setting)
        self._db.execute("CREATE TABLE IF NOT EXISTS step (n INTEGER PRIMARY KEY, text TEXT)")
        self._db.execute("CREATE TABLE IF NOT EXISTS line (n INTEGER PRIMARY KEY, text TEXT)")

    async def perform(self, lane: int, step: int) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT INTO step VALUES (?, ?)", (step, FILLING))
        self._db.execute("INSERT INTO line VALUES (?, ?)", (step, FILLING))
        self._db.execute("COMMIT")

    async def kept(self, lane: int) -> int:
        steps = {n for (n,) in self._db.execute("SELECT n FROM step")}
        lines = {n for (n,) in self._db.execute("SELECT n FROM line")}
        if steps != lines:
            raise BrokenError(
                f"a step without its line, or a line without its step: {steps ^ lines}"
            )
        return beginning([n in steps for n in range(max(steps, default=-1) + 1)])

    async def close(self) -> None:
        self._db.close()


class TwoCommits(RowPerCommit):
    """The step in one transaction, the line about it in the next."""

    async def perform(self, lane: int, step: int) -> None:
        self._db.execute("INSERT INTO step VALUES (?, ?)", (step, FILLING))
        self._db.execute("INSERT INTO line VALUES (?, ?)", (step, FILLING))


class WholeFile:
    """All steps in one JSON file that is written anew each time."""

    def __init__(self, path: Path, write: Callable[[Path, bytes], None]) -> None:
        self._path, self._write = path / "twin.json", write

    async def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)

    async def perform(self, lane: int, step: int) -> None:
        steps = [[nth, FILLING] for nth in range(step + 1)]
        self._write(self._path, json.dumps(steps).encode())

    async def kept(self, lane: int) -> int:
        if not self._path.exists():
            return 0
        try:
            steps = json.loads(self._path.read_bytes())
        except ValueError as error:
            raise BrokenError(f"the file does not parse: {error}") from error
        return beginning([[nth, FILLING] == step for nth, step in enumerate(steps)])

    async def close(self) -> None:
        """Nothing is held open."""


def overwritten(path: Path, data: bytes) -> None:
    """Write over the file: for a moment it is empty."""
    with path.open("wb", buffering=0) as file:
        # In pieces, as any file larger than a buffer is written.
        for start in range(0, len(data), 512):
            file.write(data[start : start + 512])


def renamed(path: Path, data: bytes) -> None:
    """Write beside the file and rename: whole after a kill, gone after a power loss."""
    beside = path.with_suffix(".tmp")
    beside.write_bytes(data)
    beside.replace(path)


def renamed_without_its_folder(path: Path, data: bytes) -> None:
    """The right recipe but for its last line: a power cut may bring the old file back."""
    beside = path.with_suffix(".tmp")
    with beside.open("wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    beside.replace(path)


def synced_twice(path: Path, data: bytes) -> None:
    """The right recipe, but for an fsync that failed and is simply tried again.

    The kernel drops what it could not write and forgets the failure, so the second fsync says yes.
    """
    beside = path.with_suffix(".tmp")
    with beside.open("wb", buffering=0) as file:
        file.write(data)
        try:
            os.fsync(file.fileno())
        except OSError:
            os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


SUBJECTS = {
    **STORES,
    # Not a twin but the real thing, alone: in the JSON store, the sync of the index that follows
    # a rename makes it durable on ext4 too, and would hide that the folder's own was forgotten.
    "durable replace": lambda path: WholeFile(path, Disk().replace),
    "row per commit": RowPerCommit,
    "synchronous=NORMAL": lambda path: RowPerCommit(path, synchronous="NORMAL"),
    "two commits": TwoCommits,
    "overwrite": lambda path: WholeFile(path, overwritten),
    "rename without fsync": lambda path: WholeFile(path, renamed),
    "no folder fsync": lambda path: WholeFile(path, renamed_without_its_folder),
    "fsync again": lambda path: WholeFile(path, synced_twice),
}
