"""The means of breaking things: workers that can be killed, and strace to say exactly where.

A worker is forked from a program that has everything imported, so that one crash costs a fork
and not a start of Python. It waits at a gate until the fault is in place. Disks that lose power,
fill up or refuse writes are in `disks.py`; what is being broken is in `subjects.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.forks import PATIENCE, Forks

# Every way a store can ask the kernel to keep something.
DURABLE = "fsync,fdatasync,pwrite64,write,rename,unlink,ftruncate"
WRITES = "pwrite64,write,ftruncate"
SYNCS = "fsync,fdatasync"
# Asking for one of these asks for its cousins too: Python and SQLite each have their favourites.
_COUSINS = {"rename": "renameat,renameat2", "unlink": "unlinkat", "ftruncate": "fallocate"}


class Worker:
    """One forked process, standing at its gate."""

    def __init__(self, forks: Forks, pid: int, acks: Path) -> None:
        self._forks, self.pid, self._acks = forks, pid, acks

    def acks(self) -> list[Any]:
        """Return what it has said so far, in order. A last line cut short was never said."""
        text = self._acks.read_text() if self._acks.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def words(self, number: int) -> None:
        """Wait until it has said something so many times."""
        deadline = time.monotonic() + PATIENCE
        while len(self.acks()) < number:
            assert time.monotonic() < deadline, f"worker {self.pid} said {self.acks()}"
            time.sleep(0.001)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def release(self) -> None:
        """Open its gate."""
        self.signal(signal.SIGUSR1)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def wait(self) -> int:
        """Return its exit code, -9 if it was killed. One that hangs fails the test."""
        return self._forks.wait(self.pid, patience=PATIENCE)


class Workers(Forks):
    """A warm program that forks a worker for every order. One thread at a time may use it."""

    def __init__(self, ledge: Path) -> None:
        super().__init__("faults.worker")
        self._ledge = ledge  # where workers speak: a disk that is not being broken
        self._started = self._rooms = 0

    def room(self) -> Path:
        """Return a new, empty directory on the disk that is not being broken."""
        self._rooms += 1
        room = self._ledge / f"room-{self._rooms}"
        room.mkdir()
        return room

    def prepare(self, task: str, **order: Any) -> Worker:
        """Fork a worker with this to do. It waits for `release`."""
        self._started += 1
        acks = self._ledge / f"acks-{self._started}"
        acks.unlink(missing_ok=True)
        return Worker(self, self.start({"task": task, "acks": acks, **order}), acks)

    def run(self, task: str, **order: Any) -> Worker:
        """Fork a worker, let it through its gate and wait for its end."""
        worker = self.prepare(task, **order)
        worker.release()
        worker.wait()
        return worker


@contextmanager
def traced(worker: Worker, log: Path, *, calls: str, inject: str = "") -> Iterator[None]:
    """Watch these system calls of a worker at its gate; release it; stay until the caller is done.

    `inject` is strace's own: `error=EIO:when=3` or `signal=KILL:when=3`. Counting is for each
    thread and each kind of call by itself.
    """
    wanted = ",".join([calls, *(_COUSINS[call] for call in calls.split(",") if call in _COUSINS)])
    command = ["strace", "-f", "-y", "-p", str(worker.pid), "-o", str(log), "-e", f"trace={wanted}"]
    if inject:
        command += ["-e", f"inject={wanted}:{inject}"]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    # Until strace says so, the worker could slip through its gate unwatched.
    first = strace.stderr.readline()
    if "attached" not in first:
        worker.kill()
        strace.wait()
        raise AssertionError(f"strace did not attach: {first}")
    worker.release()
    try:
        yield
    finally:
        strace.communicate(timeout=PATIENCE)


_CALL = re.compile(r"^(\d+)\s+(\w+)\(")


def calls_in(log: Path) -> list[tuple[int, str, str]]:
    """Return the traced calls in order: thread, call, and the whole line."""
    lines = log.read_text(errors="replace").splitlines()
    matches = ((_CALL.match(line), line) for line in lines)
    return [(int(match[1]), match[2], line) for match, line in matches if match]


def points_in(log: Path) -> list[tuple[str, int]]:
    """Return every (call, k) at which a fault can be injected into a worker traced like this."""
    most: dict[str, int] = {}
    for (_, call), times in Counter((tid, call) for tid, call, _ in calls_in(log)).items():
        most[call] = max(times, most.get(call, 0))
    return [(call, k) for call, times in sorted(most.items()) for k in range(1, times + 1)]


def why_no_strace(workers: Workers, ledge: Path) -> str | None:
    """Return what is missing for `traced`, or None when it works here."""
    if shutil.which("strace") is None:
        return "strace is not installed, so no fault can be injected at a system call"
    worker = workers.prepare("nothing")
    try:
        with traced(worker, ledge / "strace-works", calls="fsync"):
            worker.wait()
    except AssertionError as error:
        return f"this machine does not let us trace a process: {error}"
    return None
