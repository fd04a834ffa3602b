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
from pathlib import Path
from typing import Any

from faults.disks import LoopDisk
from faults.lab import DURABLE, SYNCS, WRITES, Workers, calls_in, points_in, traced
from faults.subjects import VERBS, BrokenError
from faults.tally import Tally
from faults.twins import SUBJECTS
from stoker.errors import StokerError


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


def judge(
    subject: str, path: Path, acks: Sequence[Any], *, lanes: int = 1, killed: int = 1
) -> None:
    """Raise BrokenError unless everything acknowledged is there and nothing was made up.

    Each worker that was killed may have finished one step it did not live to acknowledge.
    """
    for lane, steps in enumerate(kept(subject, path, lanes=lanes)):
        said = [ack[2] for ack in acks if ack[0] == "step" and ack[1] == lane]
        acked = said[-1] + 1 if said else 0
        if steps < acked:
            raise BrokenError(f"lane {lane}: {acked} steps were acknowledged, {steps} are there")
        if said and steps > acked + killed:
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
    workers: Workers, subject: str, *, calls: str, steps: int, ground: Path | None = None
) -> list[tuple[str, int]]:
    """Return every place where a fault can be injected while these steps are performed."""
    room = workers.room()
    worker = workers.start("work", subject=subject, path=_laid(room, ground), steps=steps)
    with traced(worker, room / "log", calls=calls):
        outcome = worker.wait()
    assert outcome.code == 0, worker.acks()
    return points_in(room / "log")


def prepared(workers: Workers, subject: str, *, steps: int = 0) -> Path:
    """Return a store that has been made and properly closed."""
    path = workers.room() / "s"
    worker = workers.start("work", subject=subject, path=path, steps=steps)
    worker.release()
    assert worker.wait().code == 0, worker.acks()
    return path


def _laid(room: Path, ground: Path | None) -> Path:
    if ground is not None:
        shutil.copytree(ground, room / "s")
    return room / "s"


def kill_sweep(workers: Workers, subject: str, *, steps: int = len(VERBS), every: int = 1) -> Tally:
    """A1: kill -9 at the k-th durable call, for every k (or every so many)."""
    tally = Tally()
    for call, k in crash_points(workers, subject, calls=DURABLE, steps=steps)[::every]:
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
        longest_lives = (0.12, 0.05) if again else (0.12,)
        for longest in longest_lives:
            order = {"subject": subject, "path": room, "steps": far, "lanes": lanes}
            worker = workers.start("work", **order)
            worker.release()
            if rng.random() < 0.7:
                worker.first_word()  # most kills while it works, some while it opens
            time.sleep(rng.uniform(0, longest))
            worker.kill()
            tally.n += worker.wait().killed
            acks += worker.acks()
        killed = len(longest_lives)
        _judged(tally, f"kill {nth}", subject, room, acks, lanes=lanes, killed=killed)
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
        worker.first_word()  # a cut before the first step has nothing to lose
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
    """A8: the k-th fsync fails; the worker stops, and nobody asks that file again.

    A second fsync may say yes although what was to be synced is gone. SQLite does not look at
    the answer of a directory's sync, and we cannot make it; those (fdatasync) are passed over.
    """
    tally, ground = Tally(), prepared(workers, subject)
    for call, k in crash_points(workers, subject, calls=SYNCS, steps=steps, ground=ground):
        room = workers.room()
        path = _laid(room, ground)
        worker = workers.start("work", subject=subject, path=path, steps=steps)
        with traced(worker, room / "log", calls=call, inject=f"error=EIO:when={k}"):
            worker.wait()
        calls = calls_in(room / "log")
        failed = [nth for nth, (_, _, line) in enumerate(calls) if "(INJECTED)" in line]
        file = _file_of(calls[failed[0]][2]) if failed else ""
        if not failed or (call == "fdatasync" and Path(file).is_dir()):
            continue
        tally.n += 1
        what, acks = f"EIO at {call} {k} of {Path(file).name}", worker.acks()
        if any(_file_of(line) == file for _, _, line in calls[failed[0] + 1 :]):
            tally.broken.append(f"{what}: it was synced again after it had failed")
        if acks[-1] != ["done"] and acks[-1][:2] != ["error", "UncertainError"]:
            tally.broken.append(f"{what}: the worker did not say that it cannot know: {acks[-1]}")
        tally.broken += _unclear(what, acks)
        _judged(tally, what, subject, path, acks, steps=steps)
    return tally


def failed_migrations(workers: Workers, subject: str) -> Tally:
    """A8, while the store is made: one clear line, and making it again succeeds."""
    tally = Tally()
    for call, k in crash_points(workers, subject, calls=SYNCS, steps=0):
        room = workers.room()
        worker = workers.start("work", subject=subject, path=room / "s", steps=0)
        with traced(worker, room / "log", calls=call, inject=f"error=EIO:when={k}"):
            worker.wait()
        tally.n += "(INJECTED)" in (room / "log").read_text()
        what = f"EIO at {call} {k} while migrating"
        tally.broken += _unclear(what, worker.acks())
        _judged(tally, what, subject, room / "s", worker.acks(), steps=len(VERBS))
    return tally


def out_of_room(workers: Workers, disk: Path, subject: str) -> Tally:
    """A7: write until the disk is really full; what was there can still be read."""
    path, tally = disk / "s", Tally(n=1)
    worker = workers.start("work", subject=subject, path=path, steps=1_000_000)
    worker.release()
    worker.wait()
    acks = worker.acks()
    tally.acked = sum(ack[0] == "step" for ack in acks)
    tally.broken += _unclear("disk full", acks)
    if acks[-1][0] != "error" or "full" not in acks[-1][2]:
        tally.broken.append(f"the worker did not say that the disk is full: {acks[-1]}")
    return tally + still_readable(workers, path, subject, steps=tally.acked)


def out_of_files(workers: Workers, subject: str, *, most: int) -> Tally:
    """A9: the process may open only so many more files, from none on."""
    tally, ground = Tally(), prepared(workers, subject)
    for more in range(most):
        room = workers.room()
        order = {"subject": subject, "steps": len(VERBS), "open_files": more}
        worker = workers.start("work", path=_laid(room, ground), **order)
        worker.release()
        worker.wait()
        tally.n += 1
        tally.broken += _unclear(f"{more} files", worker.acks())
        what = f"{more} more files"
        _judged(tally, what, subject, room / "s", worker.acks(), steps=len(VERBS))
    return tally


def refused_writes(workers: Workers, path: Path, subject: str, **order: Any) -> Tally:
    """A9: nothing here can be written (any more); say so, and let it be read."""
    worker = workers.start("work", subject=subject, path=path, steps=2 * len(VERBS), **order)
    worker.release()
    worker.wait()
    acks, tally = worker.acks(), Tally(n=1)
    tally.broken += _unclear("read-only", acks)
    if acks[-1][:2] != ["error", "ConfigError"]:
        tally.broken.append(f"the worker did not say what to change: {acks[-1]}")
    return tally + still_readable(workers, path, subject, steps=len(VERBS), **order)


def still_readable(
    workers: Workers, path: Path, subject: str, *, steps: int, **order: Any
) -> Tally:
    """Broken unless a reader finds this many steps."""
    worker = workers.start("read", subject=subject, path=path, **order)
    worker.release()
    worker.wait()
    said = worker.acks()
    broken = [] if said == [["kept", steps]] else [f"of {steps} steps, a reader found {said}"]
    return Tally(n=1, broken=broken)


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
    killed: int = 1,
    steps: int | None = None,
) -> None:
    tally.acked += sum(ack[0] == "step" for ack in acks)
    try:
        judge(subject, path, acks, lanes=lanes, killed=killed)
        if steps is not None:
            finish(subject, path, steps=steps, lanes=lanes)
    except BrokenError as broken:
        tally.broken.append(f"{what}: {broken}")
