"""What a worker can be ordered to do. Each says what was acknowledged as it goes.

A task takes its order (a JSON object) and the function that says things.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from faults import crowds, schedulers
from faults.subjects import STORES
from faults.twins import SUBJECTS

Order = dict[str, Any]
_FOR_EVER = 3600  # seconds; whoever rests so long is killed
Say = Callable[..., None]


async def nothing(order: Order, say: Say) -> None:
    """Pass through the gate and be done."""


async def work(order: Order, say: Say) -> None:
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
    "work": work,
    "read": read,
    "hammer": crowds.hammer,
    "hammer naively": crowds.hammer_naively,
    "schedule": schedulers.schedule,
    "schedule naively": schedulers.schedule_naively,
}
