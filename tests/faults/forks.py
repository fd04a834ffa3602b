"""A warm program that forks a process for every order, so that a kill costs a fork, not a start.

Orders are lines of JSON on standard input. The program answers with the process id, and to
`{"wait": pid}` with how that process ended.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 60.0  # seconds after which a process hangs, and is not merely slow
KILLED = -signal.SIGKILL
HUNG = 1000  # no exit code
Order = dict[str, Any]


def environment() -> dict[str, str]:
    """Return the variables for a process that imports what this one imports, and these tests."""
    looked_in = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *looked_in])}


class Forks:
    """The client of a program that calls `serve`."""

    def __init__(self, module: str) -> None:
        self._module = module

    def start(self, order: Order) -> int:
        """Fork a process that carries out the order; return its id."""
        return self._ask(order)

    def wait(self, pid: int, *, patience: float = 10 * PATIENCE) -> int:
        """Return the exit code of a process, -9 if it was killed; fail the test if it hangs."""
        code = self._ask({"wait": pid, "patience": patience})
        assert code != HUNG, f"a process of {self._module} hung"
        return code

    def _ask(self, order: Order) -> int:
        self._program.stdin.write(json.dumps(order, default=str) + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        assert answer, f"{self._module} has died"
        return int(answer)

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", self._module]
        self._program = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment()
        )
        self._program.stdout.readline()  # it is ready
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate(timeout=PATIENCE)


def serve(life: Callable[[Order], Awaitable[int | None]], *, waits: bool = True) -> None:
    """Fork a process for every order until input ends; without waits, ended ones are forgotten."""
    if not waits:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            print(_wait(order["wait"], order["patience"]), flush=True)
        else:
            print(_fork(life, order), flush=True)


def _wait(pid: int, patience: float) -> int:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return HUNG


def _fork(life: Callable[[Order], Awaitable[int | None]], order: Order) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        os.close(0)
        code = asyncio.run(life(order)) or 0
    except BaseException:  # noqa: BLE001 – there is nothing above that could report it
        traceback.print_exc()
    finally:
        os._exit(code)
