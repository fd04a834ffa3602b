"""Breaking something many times and judging what is left: the small counts and the large ones.

Each function returns a tally; whether broken promises are bad news is for the caller to say,
because the naive twins must break theirs.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.disks import LoopDisk
from faults.lab import DURABLE, SYNCS, WRITES, Workers, calls_in, points_in, traced
from faults.subjects import VERBS, BrokenError
from faults.twins import SUBJECTS
from stoker.errors import StokerError


@dataclass
class Tally:
    """How often something was broken, and each promise that did not survive it."""

    n: int = 0
    acked: int = 0
    broken: list[str] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.n + other.n, self.acked + other.acked, self.broken + other.broken)


def kept(subject: str, path: Path, *, lanes: int = 1) -> list[int]:
    """Open what is left as a new process would; return the steps kept in each lane."""

    async def look() -> list[int]:
        opened = SUBJECTS[subject](path)
        try:
            await opened.open()
            return [await opened.kept(lane) for lane in range(lanes)]
        finally:
            await opened.close()

    try:
        return asyncio.run(look())
    except (StokerError, sqlite3.Error) as error:
        raise BrokenError(f"cannot be opened: {type(error).__name__}: {error}") from error


def judge(subject: str, path: Path, acks: Sequence[Any], *, lanes: int = 1) -> None:
    """Raise BrokenError unless everything acknowledged is there and nothing was made up."""
    for lane, steps in enumerate(kept(subject, path, lanes=lanes)):
        said = [ack[2] for ack in acks if ack[0] == "step" and ack[1] == lane]
        acked = said[-1] + 1 if said else 0
        if steps < acked:
            raise BrokenError(f"lane {lane}: {acked} steps were acknowledged, {steps} are there")
        if said and steps > acked + 1:
            raise BrokenError(f"lane {lane}: {steps} steps are there, {acked} were acknowledged")


def finish(subject: str, path: Path, *, steps: int, lanes: int = 1) -> None:
    """Raise BrokenError unless what was left can be taken up again and brought to its end."""

    async def go_on() -> None:
        opened = SUBJECTS[subject](path)
        try:
            await opened.open()
            for lane in range(lanes):
                for step in range(await opened.kept(lane), steps):
                    await opened.perform(lane, step)
        finally:
            await opened.close()

    try:
        asyncio.run(go_on())
    except (StokerError, sqlite3.Error) as error:
        raise BrokenError(f"cannot be finished: {type(error).__name__}: {error}") from error
    if kept(subject, path, lanes=lanes) != [steps] * lanes:
        raise BrokenError("was finished, but not all of it is there")


def crash_points(
    workers: Workers, subject: str, *, calls: str, steps: int
) -> list[tuple[str, int]]:
    """Return every place where a fault can be injected while these steps are performed."""
    room = workers.room()
    worker = workers.start("work", subject=subject, path=room, steps=steps)
    with traced(worker, room / "log", calls=calls):
        outcome = worker.wait()
    assert outcome.code == 0, worker.acks()
    return points_in(room / "log")


def kill_sweep(
    workers: Workers, subject: str, *, steps: int = len(VERBS), every: int = 1, first: int = 0
) -> Tally:
    """A1: kill -9 at the k-th durable call, for every k (or every so many)."""
    tally = Tally()
    points = crash_points(workers, subject, calls=DURABLE, steps=steps)[first::every]
    for call, k in points:
        room = workers.room()
        worker = workers.start("work", subject=subject, path=room / "s", steps=steps)
        with traced(worker, room / "log", calls=call, inject=f"signal=KILL:when={k}"):
            killed = worker.wait().killed
        tally.n += killed
        _judged(tally, f"killed at {call} {k}", subject, room / "s", worker.acks(), steps=steps)
    return tally


def random_kills(
    workers: Workers,
    subject: str,
    *,
    n: int,
    rng: random.Random,
    lanes: int = 3,
    again: bool = False,
) -> Tally:
    """A2: kill -9 at a random moment, with several tenants at work.

    A3 (`again`): and once more while what was left is being taken up. Every kill hits the store
    that the last one left behind.
    """
    tally = Tally()
    room, far, broken = workers.room(), 10_000, 0
    for nth in range(n):
        if nth % 10 == 0 or len(tally.broken) > broken:
            room, broken = workers.room(), len(tally.broken)
        acks: list[Any] = []
        for longest in (0.12, 0.05) if again else (0.12,):
            order = {"subject": subject, "path": room, "steps": far, "lanes": lanes}
            worker = workers.start("work", **order)
            worker.release()
            time.sleep(rng.uniform(0, longest))
            worker.kill()
            tally.n += worker.wait().killed
            acks += worker.acks()
        _judged(tally, f"kill {nth}", subject, room, acks, lanes=lanes)
    return tally


def power_cuts(
    workers: Workers, disk: LoopDisk, subject: str, *, n: int, rng: random.Random
) -> Tally:
    """A4, A5: the power fails at a random moment; what had been acknowledged must be there."""
    tally = Tally()
    for nth in range(n):
        path = disk.path / f"{nth}"
        worker = workers.start("work", subject=subject, path=path, steps=10_000)
        worker.release()
        while not worker.acks():  # a cut before the first step has nothing to lose
            time.sleep(0.002)
        time.sleep(rng.uniform(0.005, 0.1))
        disk.cut_power()
        worker.kill()
        worker.wait()
        disk.restore_power()
        tally.n += 1
        _judged(tally, f"power cut {nth}", subject, path, worker.acks())
        shutil.rmtree(path, ignore_errors=True)
    return tally


def disk_full(workers: Workers, subject: str, *, steps: int = len(VERBS), every: int = 1) -> Tally:
    """A7: from the k-th write on the disk is full; the worker says so, and what was there stays."""
    tally = Tally()
    for call, k in crash_points(workers, subject, calls=WRITES, steps=steps)[::every]:
        room = workers.room()
        worker = workers.start("work", subject=subject, path=room / "s", steps=steps)
        with traced(worker, room / "log", calls=call, inject=f"error=ENOSPC:when={k}+"):
            worker.wait()
        tally.n += "(INJECTED)" in (room / "log").read_text()
        what = f"disk full at {call} {k}"
        tally.broken += _unclear(what, worker.acks())
        _judged(tally, what, subject, room / "s", worker.acks(), steps=steps)
    return tally


def failed_syncs(workers: Workers, subject: str, *, steps: int = len(VERBS)) -> Tally:
    """A8: the k-th fsync fails; nobody may ask that file again and believe the answer."""
    tally = Tally()
    for call, k in crash_points(workers, subject, calls=SYNCS, steps=steps):
        room = workers.room()
        worker = workers.start("work", subject=subject, path=room / "s", steps=steps)
        with traced(worker, room / "log", calls=call, inject=f"error=EIO:when={k}"):
            worker.wait()
        calls = calls_in(room / "log")
        failed = [nth for nth, (_, _, line) in enumerate(calls) if "(INJECTED)" in line]
        if not failed:
            continue
        tally.n += 1
        what = f"EIO at {call} {k}"
        acks = worker.acks()
        file = _file_of(calls[failed[0]][2])
        if any(_file_of(line) == file for _, _, line in calls[failed[0] + 1 :]):
            tally.broken.append(f"{what}: {file} was synced again after it had failed")
        tally.broken += _unclear(what, acks)
        _judged(tally, what, subject, room / "s", acks, steps=steps)
    return tally


def _file_of(line: str) -> str:
    return line.partition("<")[2].partition(">")[0]


def _unclear(what: str, acks: Sequence[Any]) -> list[str]:
    """Return the complaint when a worker that met an error did not stop with one clear line."""
    if acks and acks[-1] == ["done"]:
        return []  # the error hit something that could be done without
    if not acks or acks[-1][0] != "error" or "\n" in acks[-1][2] or not acks[-1][2]:
        return [f"{what}: the worker did not stop with one clear line but with {acks[-1:]}"]
    return []


def _judged(
    tally: Tally,
    what: str,
    subject: str,
    path: Path,
    acks: Sequence[Any],
    *,
    lanes: int = 1,
    steps: int | None = None,
) -> None:
    tally.acked += sum(ack[0] == "step" for ack in acks)
    try:
        judge(subject, path, acks, lanes=lanes)
        if steps is not None:
            finish(subject, path, steps=steps, lanes=lanes)
    except BrokenError as broken:
        tally.broken.append(f"{what}: {broken}")
