"""Wait for work that must end in order, also when the waiting task is cancelled.

CancelledError is raised only once the work is over, so that what it writes is written whole. Work
may take time to end after it was cancelled, unless the cancellation is immediate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stoker.base.errors import StokerError

Result = TypeVar("Result")

_IMMEDIATE = "at once"

_POLL_SECONDS = 0.5  # seconds


async def finish_despite_cancel(work: Coroutine[Any, Any, Result]) -> Result:
    """Do work to its end and return its result, even if this is cancelled meanwhile."""
    doing = asyncio.ensure_future(work)
    await _wait_until_done(doing, once_more=False)
    return doing.result()


async def cancel_and_wait(doing: asyncio.Future[Any], *, at_once: bool = False) -> None:
    """Cancel work and wait until it is over; cancelling this cancels it once more."""
    doing.cancel(_IMMEDIATE if at_once else None)
    await _wait_until_done(doing, once_more=True)


async def run_while(
    ours: Callable[[], bool], work: Coroutine[Any, Any, Result], *, otherwise: StokerError
) -> Result:
    """Do work as long as `ours` is true; then cancel it and raise `otherwise`.

    For work that costs nothing and may take long. If it ends all the same, its result is returned.
    """
    doing = asyncio.ensure_future(work)
    try:
        # Real seconds, not the injected clock's: it may never be ours again.
        while not (await asyncio.wait({doing}, timeout=_POLL_SECONDS))[0] and ours():
            pass
    finally:
        if not doing.done():
            await cancel_and_wait(doing)
    if doing.cancelled():
        raise otherwise
    return doing.result()


def is_immediate(cancelled: asyncio.CancelledError) -> bool:
    """Return whether a cancellation leaves no time to end in order."""
    return _IMMEDIATE in cancelled.args


async def _wait_until_done(doing: asyncio.Future[Any], *, once_more: bool) -> None:
    impatient = False
    while not doing.done():
        try:
            await asyncio.wait({doing})
        except asyncio.CancelledError:
            impatient = True
            if once_more:
                doing.cancel()
    if not doing.cancelled():
        doing.exception()  # retrieved, or asyncio logs a warning
    if impatient:
        raise asyncio.CancelledError
