"""What a worker can be ordered to do. Each says what was acknowledged as it goes.

A task takes its order (a JSON object) and the function that says things.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from faults.twins import SUBJECTS

Order = dict[str, Any]
Say = Callable[..., None]


async def nothing(order: Order, say: Say) -> None:
    """Pass through the gate and be done."""


async def work(order: Order, say: Say) -> None:
    """Take a subject up where it was left and move every lane on to the step ordered.

    Starting again after a crash is the same order again, so this is also the recovery.
    """
    subject = SUBJECTS[order["subject"]](Path(order["path"]))
    await subject.open()
    say("open")

    async def one_lane(lane: int) -> None:
        for step in range(await subject.kept(lane), order["steps"]):
            await subject.perform(lane, step)
            say("step", lane, step)

    try:
        await asyncio.gather(*(one_lane(lane) for lane in range(order.get("lanes", 1))))
    finally:
        await subject.close()
    say("done")


TASKS: dict[str, Callable[[Order, Say], Awaitable[None]]] = {"nothing": nothing, "work": work}
