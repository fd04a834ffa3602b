"""A1 to A5: crashes and power cuts, and the judge of what is left after any fault.

Each function returns a tally; whether broken promises are bad news is for the caller to say,
because the naive twins must break theirs. Disks that say no are in `refusals.py`.
"""

import asyncio
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.disks import LoopDisk
from faults.forks import KILLED
from faults.lab import DURABLE, Worker, Workers, points_in, traced
from faults.subjects import VERBS, BrokenError
from faults.tally import Tally
from faults.twins import SUBJECTS
from stoker.base.errors import StokerError


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


def prepared(workers: Workers, subject: str, *, steps: int = 0) -> Path:
    """Return a store that has been made and properly closed."""
    path = workers.room() / "s"
    worker = workers.prepare("work", subject=subject, path=path, steps=steps)
    worker.release()
    assert worker.wait() == 0, worker.acks()
    return path


def laid(room: Path, ground: Path | None) -> Path:
    """Return where a store goes in this room, with a copy of the ground if there is one."""
    if ground is not None:
        shutil.copytree(ground, room / "s")
    return room / "s"


@dataclass(frozen=True)
class Fault:
    """One fault at one system call, and what became of the worker that met it."""

    call: str
    k: int
    path: Path
    log: Path
    acks: list[Any]
    killed: bool

    @property
    def injected(self) -> bool:
        return "(INJECTED)" in self.log.read_text()


def inject(
    workers: Workers,
    subject: str,
    fault: str,
    *,
    calls: str,
    steps: int,
    ground: Path | None = None,
    every: int = 1,
) -> Iterator[Fault]:
    """Have the steps performed once for every place (or every so many) where a fault can be."""
    room = workers.room()
    order = {"subject": subject, "steps": steps}
    worker = workers.prepare("work", path=laid(room, ground), **order)
    with traced(worker, room / "log", calls=calls):
        assert worker.wait() == 0, worker.acks()
    for call, k in points_in(room / "log")[::every]:
        room = workers.room()
        path = laid(room, ground)
        worker = workers.prepare("work", path=path, **order)
        with traced(worker, room / "log", calls=call, inject=fault.format(k)):
            killed = worker.wait() == KILLED
        yield Fault(call, k, path, room / "log", worker.acks(), killed)


def kill_sweep(workers: Workers, subject: str, *, steps: int = len(VERBS), every: int = 1) -> Tally:
    """A1: kill -9 at the k-th durable call, for every k (or every so many)."""
    tally = Tally()
    how = {"calls": DURABLE, "steps": steps, "every": every}
    for fault in inject(workers, subject, "signal=KILL:when={}", **how):
        what = f"killed at {fault.call} {fault.k}"
        tally.n += fault.killed
        tally.broken += _stumbled(what, fault.acks)
        judged(tally, what, subject, fault.path, fault.acks, steps=steps)
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
            worker = workers.prepare("work", **order)
            worker.release()
            if rng.random() < 0.7:
                worker.words(1)  # most kills while it works, some while it opens
            time.sleep(rng.uniform(0, longest))
            worker.kill()
            tally.n += worker.wait() == KILLED
            acks += worker.acks()
        tally.broken += _stumbled(f"kill {nth}", acks)
        killed = len(longest_lives)
        judged(tally, f"kill {nth}", subject, room, acks, lanes=lanes, killed=killed)
    return tally


def power_cuts(
    workers: Workers, disk: LoopDisk, subject: str, *, n: int, rng: random.Random
) -> Tally:
    """A4, A5: the power fails at a random moment; what had been acknowledged must be there.

    Half the workers rest after each step, so that the last one heard is often the last one done:
    that is the one a forgotten sync of a folder loses.
    """
    tally = Tally()
    for nth in range(n):
        order = {"subject": subject, "steps": 10_000, "rest": rng.choice([0, 0.02])}
        worker = workers.prepare("work", path=disk.path / f"{nth}", **order)
        worker.release()
        worker.words(1)  # a cut before the first step has nothing to lose
        time.sleep(rng.uniform(0.005, 0.1))
        _cut(tally, disk, worker, subject, disk.path / f"{nth}")
    return tally


def cuts_at_rest(workers: Workers, disk: LoopDisk, subject: str, *, n: int) -> Tally:
    """A4, A5: the power fails right after the first step was acknowledged, the second, and so on.

    The worker rests then, so that nothing it does later can make the last step durable.
    """
    tally = Tally()
    for steps in range(1, n + 1):
        order = {"subject": subject, "steps": 10_000, "rests_after": steps}
        worker = workers.prepare("work", path=disk.path / f"rest-{steps}", **order)
        worker.release()
        worker.words(1 + steps)
        _cut(tally, disk, worker, subject, disk.path / f"rest-{steps}")
    return tally


def _cut(tally: Tally, disk: LoopDisk, worker: Worker, subject: str, path: Path) -> None:
    """Cut the power and judge what is there when it is back.

    Only what was heard before the cut counts. Here the worker outlives its disk for a moment, and
    an fsync caught by the cut may still answer yes; a machine without power says nothing more.
    """
    heard, what = worker.acks(), f"power cut {tally.n}"
    tally.broken += _stumbled(what, heard)
    disk.cut_power()
    worker.kill()
    worker.wait()
    late = _steps(worker.acks()) - _steps(heard)
    disk.restore_power()
    tally.n += 1
    judged(tally, what, subject, path, heard, killed=1 + late)
    shutil.rmtree(path, ignore_errors=True)


def _stumbled(what: str, acks: Sequence[Any]) -> list[str]:
    """Return the complaint about a worker that failed before anything was done to it.

    Without it, a worker that never gets anywhere would have nothing to lose, and always pass.
    """
    return [f"{what}: failed by itself: {ack}" for ack in acks if ack[0] in ("error", "crash")]


def _steps(acks: Sequence[Any]) -> int:
    return sum(ack[0] == "step" for ack in acks)


def judged(
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
    """Judge what is left, and with `steps` bring it to its end; add what is broken to the tally."""
    tally.acked += _steps(acks)
    try:
        judge(subject, path, acks, lanes=lanes, killed=killed)
        if steps is not None:
            finish(subject, path, steps=steps, lanes=lanes)
    except BrokenError as broken:
        tally.broken.append(f"{what}: {broken}")
