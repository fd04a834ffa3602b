"""A7 to A9: disks that are full, fail or may not be written, and processes out of files.

Whoever is refused says so in one clear line, and what was there before stays and can be read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faults.lab import SYNCS, WRITES, Workers, calls_in
from faults.subjects import VERBS
from faults.tally import Tally
from faults.trials import Fault, inject, judged, laid, prepared


def disk_full(workers: Workers, subject: str, *, steps: int = len(VERBS)) -> Tally:
    """A7: from the k-th write on the disk is full; the worker says so, and what was there stays."""
    tally = Tally()
    for fault in inject(workers, subject, "error=ENOSPC:when={}+", calls=WRITES, steps=steps):
        tally.n += fault.injected
        _refused(tally, f"disk full at {fault.call} {fault.k}", subject, fault, steps=steps)
    return tally


def failed_syncs(workers: Workers, subject: str, *, steps: int = len(VERBS)) -> Tally:
    """A8: the k-th fsync fails; the worker stops, and nobody asks that file again.

    A second fsync may say yes although what was to be synced is gone. SQLite does not look at
    the answer of a directory's sync, and we cannot make it; those (fdatasync) are passed over.
    """
    tally, ground = Tally(), prepared(workers, subject)
    how = {"calls": SYNCS, "steps": steps, "ground": ground}
    for fault in inject(workers, subject, "error=EIO:when={}", **how):
        calls, acks = calls_in(fault.log), fault.acks
        failed = [nth for nth, (_, _, line) in enumerate(calls) if "(INJECTED)" in line]
        file = _file_of(calls[failed[0]][2]) if failed else ""
        if not failed or (fault.call == "fdatasync" and Path(file).is_dir()):
            continue
        tally.n += 1
        what = f"EIO at {fault.call} {fault.k} of {Path(file).name}"
        if any(_file_of(line) == file for _, _, line in calls[failed[0] + 1 :]):
            tally.broken.append(f"{what}: it was synced again after it had failed")
        if acks[-1] != ["done"] and acks[-1][:2] != ["error", "UncertainError"]:
            tally.broken.append(f"{what}: the worker did not say that it cannot know: {acks[-1]}")
        _refused(tally, what, subject, fault, steps=steps)
    return tally


def failed_migrations(workers: Workers, subject: str) -> Tally:
    """A8, while the store is made: one clear line, and making it again succeeds."""
    tally = Tally()
    for fault in inject(workers, subject, "error=EIO:when={}", calls=SYNCS, steps=0):
        tally.n += fault.injected
        what = f"EIO at {fault.call} {fault.k} while migrating"
        _refused(tally, what, subject, fault, steps=len(VERBS))
    return tally


def _refused(tally: Tally, what: str, subject: str, fault: Fault, *, steps: int) -> None:
    tally.broken += _unclear(what, fault.acks)
    judged(tally, what, subject, fault.path, fault.acks, steps=steps)


def out_of_room(workers: Workers, disk: Path, subject: str) -> Tally:
    """A7: write until the disk is really full; what was there can still be read."""
    path, tally = disk / "s", Tally(n=1)
    acks = workers.run("work", subject=subject, path=path, steps=1_000_000).acks()
    tally.acked = sum(ack[0] == "step" for ack in acks)
    tally.broken += _unclear("disk full", acks)
    if acks[-1][0] != "error" or "full" not in acks[-1][2]:
        tally.broken.append(f"the worker did not say that the disk is full: {acks[-1]}")
    return tally + still_readable(workers, path, subject, steps=tally.acked)


def out_of_files(workers: Workers, subject: str, *, most: int) -> Tally:
    """A9: the process may open only so many more files, from none on."""
    tally, ground = Tally(), prepared(workers, subject)
    for more in range(most):
        path, what = laid(workers.room(), ground), f"{more} more files"
        order = {"subject": subject, "steps": len(VERBS), "open_files": more}
        acks = workers.run("work", path=path, **order).acks()
        tally.n += 1
        tally.broken += _unclear(what, acks)
        judged(tally, what, subject, path, acks, steps=len(VERBS))
    return tally


def refused_writes(workers: Workers, path: Path, subject: str, **order: Any) -> Tally:
    """A9: nothing here can be written (any more); say so, and let it be read."""
    worker = workers.run("work", subject=subject, path=path, steps=2 * len(VERBS), **order)
    acks, tally = worker.acks(), Tally(n=1)
    tally.broken += _unclear("read-only", acks)
    if acks[-1][:2] != ["error", "ConfigError"]:
        tally.broken.append(f"the worker did not say what to change: {acks[-1]}")
    return tally + still_readable(workers, path, subject, steps=len(VERBS), **order)


def refused_openings(workers: Workers, path: Path, subject: str, **order: Any) -> Tally:
    """A9: nothing here may be opened; reading and writing end with one clear line."""
    tally = Tally(n=2)
    for task in ("work", "read"):
        acks = workers.run(task, subject=subject, path=path, steps=1, **order).acks()
        if acks[-1:] != [] and acks[-1][:2] == ["error", "ConfigError"]:
            continue
        tally.broken.append(f"{task} in a closed folder: {acks}")
    return tally


def still_readable(
    workers: Workers, path: Path, subject: str, *, steps: int, **order: Any
) -> Tally:
    """Broken unless a reader finds this many steps."""
    said = workers.run("read", subject=subject, path=path, **order).acks()
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
