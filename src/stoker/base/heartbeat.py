"""Heartbeats: show other processes at intervals that this one is alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from stoker.base.cancellation import finish_despite_cancel
from stoker.base.clock import SystemClock
from stoker.base.errors import StokerError

# Real seconds, not an injected clock's: a heartbeat is for other processes.
_REAL_SLEEP = SystemClock().sleep


@asynccontextmanager
async def send_heartbeats(
    beat: Callable[[], Awaitable[object]],
    *,
    every: timedelta,
    sleep: Callable[[timedelta], Awaitable[None]] = _REAL_SLEEP,
) -> AsyncIterator[None]:
    """Call `beat` at intervals while the block runs; the next one makes up for one that failed.

    A heartbeat under way ends before the block is left, also when the caller is cancelled: written
    later, it would take again what the caller then releases.
    """
    beating = asyncio.Lock()

    async def run() -> None:
        while True:
            await sleep(every)
            async with beating:
                with suppress(StokerError):
                    await beat()

    async def stop() -> None:
        async with beating:
            task.cancel()
        await asyncio.wait({task})

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        await finish_despite_cancel(stop())
        if not task.cancelled():
            task.result()  # a fault of the heartbeat itself
