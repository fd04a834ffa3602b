"""Work seen through to its end, however impatient whoever waits for it has become.

Being cancelled while one waits is passed on, but only once the work is over: whatever is being
written down then is written down whole. Work may take being cancelled as a wish, unless it is told
that it is meant at once.
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
    """Do something to its end, and return what came of it, whoever cancels meanwhile."""
    doing = asyncio.ensure_future(work)
    await _wait_until_done(doing, once_more=False)
    return doing.result()


async def cancel_and_wait(doing: asyncio.Future[Any], *, at_once: bool = False) -> None:
    """End work that is not over; whoever is impatient meanwhile cancels it once more."""
    doing.cancel(_IMMEDIATE if at_once else None)
    await _wait_until_done(doing, once_more=True)


async def run_while(
    ours: Callable[[], bool], work: Coroutine[Any, Any, Result], *, otherwise: StokerError
) -> Result:
    """Wait for something, as long as it is ours to wait for; cut it off and raise what is given.

    For what costs nothing and may take long. What comes to its end all the same is returned.
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
    """Say whether whoever cancelled leaves no time to come to an end."""
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
        doing.exception()  # looked at, so that nobody complains that it never was
    if impatient:
        raise asyncio.CancelledError
