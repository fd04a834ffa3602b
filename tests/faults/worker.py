"""The program whose processes are killed: everything imported, one fork for every order.

Orders come as lines of JSON on standard input (see `lab.Workers`). A worker says on its standard
output what has been acknowledged, each time after the verb returned and never before.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any

from faults import tasks
from stoker.backends.stores import import_stores
from stoker.base.errors import StokerError

import_stores()

_GATE = {signal.SIGUSR1}
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1


def acknowledge(*words: Any) -> None:
    """Say that something is done.

    One writev, and the only one in the program: faults are injected into write, fsync and their
    kin, so what a worker says never counts as a crash point and is never refused.
    """
    os.writev(1, [json.dumps(words, default=str).encode() + b"\n"])


def work(order: dict[str, Any]) -> int:
    """Do what was ordered; return the exit code."""
    if order.get("user") is not None:
        os.setgid(order["user"])
        os.setuid(order["user"])
    try:
        asyncio.run(tasks.TASKS[order["task"]](order, acknowledge))
    except StokerError as error:
        acknowledge("error", type(error).__name__, str(error))
        return 3
    except BaseException as error:  # noqa: BLE001  # the test wants to know, whatever it is
        acknowledge("crash", type(error).__name__, str(error))
        return 4
    return 0


def _start(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 5
    try:
        out = os.open(order["acks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, 1)
        os.close(out)
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)
        # Where only parents may trace their children, the test that ordered us may as well.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
        signal.sigwait(_GATE)
        code = work(order)
    finally:
        os._exit(code)


def _wait(pid: int, patience: float) -> int | None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def main() -> None:
    """Fork and wait, as ordered, until nobody orders anything."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _GATE)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "start":
            answer: dict[str, Any] = {"pid": _start(order)}
        else:
            answer = {"status": _wait(order["pid"], order["patience"])}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
