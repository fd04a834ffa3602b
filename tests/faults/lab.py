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
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]

# Every way a store can ask the kernel to keep something.
DURABLE = "fsync,fdatasync,pwrite64,write,rename,unlink,ftruncate"
WRITES = "pwrite64,write,ftruncate"
SYNCS = "fsync,fdatasync"
# Asking for one of these asks for its cousins too: Python and SQLite each have their favourites.
_COUSINS = {"rename": "renameat,renameat2", "unlink": "unlinkat", "ftruncate": "fallocate"}

PATIENCE = 60.0  # seconds after which a worker is hung, not slow


@dataclass(frozen=True)
class Outcome:
    """How a worker ended: by which signal or with which code."""

    signal: int
    code: int

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL


class Worker:
    """One forked process, standing at its gate."""

    def __init__(self, workers: Workers, pid: int, acks: Path) -> None:
        self._workers = workers
        self.pid = pid
        self._acks = acks

    def acks(self) -> list[Any]:
        """Return what it has said so far, in order. A last line cut short was never said."""
        text = self._acks.read_text() if self._acks.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def first_word(self) -> None:
        """Wait until it has said something."""
        self.words(1)

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

    def wait(self) -> Outcome:
        """Return how it ended. One that hangs fails the test instead of holding it up."""
        status = self._workers.ask({"do": "wait", "pid": self.pid, "patience": PATIENCE})["status"]
        assert status is not None, f"worker {self.pid} hung; it said {self.acks()}"
        if os.WIFSIGNALED(status):
            return Outcome(signal=os.WTERMSIG(status), code=-1)
        return Outcome(signal=0, code=os.WEXITSTATUS(status))


class Workers:
    """A warm program that forks a worker for every order. One thread at a time may use it."""

    def __init__(self, ledge: Path) -> None:
        self._ledge = ledge  # where workers speak: a disk that is not being broken
        self._started = self._semaphores = 0
        self._program = subprocess.Popen(
            [sys.executable, "-m", "faults.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def room(self) -> Path:
        """Return a new, empty directory on the disk that is not being broken."""
        self._semaphores += 1
        room = self._ledge / f"room-{self._semaphores}"
        room.mkdir()
        return room

    def start(self, task: str, **order: Any) -> Worker:
        """Fork a worker with this to do. It waits for `release`."""
        self._started += 1
        acks = self._ledge / f"acks-{self._started}"
        acks.unlink(missing_ok=True)
        pid = self.ask({"do": "start", "task": task, "acks": str(acks), **order})["pid"]
        return Worker(self, pid, acks)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps(request, default=str) + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        assert answer, "the program that forks workers has died"
        return dict(json.loads(answer))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate(timeout=PATIENCE)  # an empty line of input sends it home


def environment() -> dict[str, str]:
    """Return the variables for a process that imports what this one imports, and these tests."""
    looked_in = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *looked_in])}


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
    worker = workers.start("nothing")
    try:
        with traced(worker, ledge / "strace-works", calls="fsync"):
            worker.wait()
    except AssertionError as error:
        return f"this machine does not let us trace a process: {error}"
    return None
