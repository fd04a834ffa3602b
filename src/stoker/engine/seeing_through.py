"""Work seen through to its end, however impatient whoever waits for it has become.

Being cancelled while one waits is passed on, but only once the work is over: whatever is being
written down then is written down whole. Work may take being cancelled as a wish, unless it is told
that it is meant at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_AT_ONCE = "at once"


async def seen_through(work: Coroutine[Any, Any, Result]) -> Result:
    """Do something to its end, and return what came of it, whoever cancels meanwhile."""
    doing = asyncio.ensure_future(work)
    await _over(doing, once_more=False)
    return doing.result()


async def cut_off(doing: asyncio.Future[Any], *, at_once: bool = False) -> None:
    """End work that is not over; whoever is impatient meanwhile cancels it once more."""
    doing.cancel(_AT_ONCE if at_once else None)
    await _over(doing, once_more=True)


def is_meant_at_once(cancelled: asyncio.CancelledError) -> bool:
    """Say whether whoever cancelled leaves no time to come to an end."""
    return _AT_ONCE in cancelled.args


async def _over(doing: asyncio.Future[Any], *, once_more: bool) -> None:
    impatient = False
    while not doing.done():
        try:
            await asyncio.wait({doing})
        except asyncio.CancelledError:
            impatient = True
            if once_more:
                doing.cancel()
    if impatient:
        if not doing.cancelled():
            doing.exception()  # looked at, so that nobody complains that it never was
        raise asyncio.CancelledError
