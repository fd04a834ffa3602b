"""The program whose processes are killed: everything imported, one fork for every order.

Orders come from `lab.Workers`. A worker says on its standard
output what has been acknowledged, each time after the verb returned and never before.
"""

import asyncio
import ctypes
import json
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from faults import schedulers
from faults.forks import Order, serve
from faults.subjects import STORES
from faults.twins import SUBJECTS
from stoker.base.errors import StokerError
from stoker.context import import_stores

import_stores()

Say = Callable[..., None]
_GATE = {signal.SIGUSR1}
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1


_FOR_EVER = 3600  # seconds; a worker that rests so long is killed


async def nothing(order: Order, say: Say) -> None:
    """Pass through the gate and be done."""


async def perform_steps(order: Order, say: Say) -> None:
    """Take a subject up where it was left and move every lane on to the step ordered.

    Starting again after a crash is the same order again, so this is also the recovery.
    """
    _limit_open_files(order)
    subject = SUBJECTS[order["subject"]](Path(order["path"]))
    await subject.open()
    say("open")

    async def one_lane(lane: int) -> None:
        for step in range(await subject.kept(lane), order["steps"]):
            await subject.perform(lane, step)
            say("step", lane, step)
            rests = step + 1 == order.get("rests_after")
            await asyncio.sleep(_FOR_EVER if rests else order.get("rest", 0))

    try:
        await asyncio.gather(*(one_lane(lane) for lane in range(order.get("lanes", 1))))
    finally:
        await subject.close()
    say("done")


async def read(order: Order, say: Say) -> None:
    """Only look, as a dashboard would: nothing is made and nothing is migrated."""
    subject = STORES[order["subject"]](Path(order["path"]))
    subject.look()
    try:
        say("kept", await subject.kept(0))
    finally:
        await subject.close()


def _limit_open_files(order: Order) -> None:
    # Once the event loop has what it needs: it is the store that shall run out of files.
    if (more := order.get("open_files")) is not None:
        used = max(int(name) for name in os.listdir("/proc/self/fd")) + 1  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, used + more))


TASKS: dict[str, Callable[[Order, Say], Coroutine[Any, Any, None]]] = {
    "nothing": nothing,
    "work": perform_steps,
    "read": read,
    "schedule": schedulers.schedule,
    "schedule naively": schedulers.schedule_naively,
}


def acknowledge(*words: Any) -> None:
    """Say that something is done.

    One writev, and the only one in the program: faults are injected into write, fsync and their
    kin, so what a worker says never counts as a crash point and is never refused.
    """
    os.writev(1, [json.dumps(words, default=str).encode() + b"\n"])


async def life(order: Order) -> int:
    """Do what was ordered once the gate is open; return the exit code."""
    out = os.open(order["acks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(out, 1)
    os.close(out)
    os.open(os.devnull, os.O_RDONLY)  # in the place of standard input
    # Where only parents may trace their children, the test that ordered us may as well.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
    signal.sigwait(_GATE)
    if order.get("user") is not None:
        os.setgid(order["user"])
        os.setuid(order["user"])
    try:
        await TASKS[order["task"]](order, acknowledge)
    except StokerError as error:
        acknowledge("error", type(error).__name__, str(error))
        return 3
    except BaseException as error:  # noqa: BLE001  # the test wants to know, whatever it is
        acknowledge("crash", type(error).__name__, str(error))
        return 4
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, _GATE)
    serve(life)
