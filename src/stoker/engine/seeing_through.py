"""Work seen through to its end, however impatient whoever waits for it has become.

Being cancelled while one waits is passed on, but only once the work is over: whatever is being
written down then is written down whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def seen_through(work: Coroutine[Any, Any, Result]) -> Result:
    """Do something to its end, and return what came of it, whoever cancels meanwhile."""
    doing = asyncio.ensure_future(work)
    await _over(doing, once_more=False)
    return doing.result()


async def cut_off(doing: asyncio.Future[Any]) -> None:
    """End work that is not over; whoever is impatient meanwhile cancels it once more."""
    doing.cancel()
    await _over(doing, once_more=True)


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
