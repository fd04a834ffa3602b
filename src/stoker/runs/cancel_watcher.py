"""Work goes on until it ends, or until somebody asks its run to stop; then it is over before long.

Looks every few seconds for a request, which any process sharing the store may have written; Ctrl-C
is one too, made where the work is. What is paid for is given time to be answered. How the run then
ends is `running`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from stoker.base.cancellation import cut_off, is_meant_at_once
from stoker.base.errors import StokerError
from stoker.runs.model import CancelRequest

LOOKS_EVERY = timedelta(seconds=5)

SETTLES_WITHIN = timedelta(minutes=3)  # longer than any vendor is waited for

SIGNALLED = "Ctrl-C or a signal"

STOPS_WITHIN = timedelta(seconds=30)  # somebody waits, or a machine that is shut down


@dataclass(frozen=True, slots=True, kw_only=True)
class Heeding:
    """How soon a request is noticed, and how long what is under way may take after it.

    After Ctrl-C or a signal it may take less long: `stops_within`.
    """

    looks_every: timedelta = LOOKS_EVERY
    settles_within: timedelta = SETTLES_WITHIN
    stops_within: timedelta = STOPS_WITHIN

    async def over(
        self,
        doing: asyncio.Future[Any],
        *,
        asked: Callable[[], Awaitable[CancelRequest | None]],
        begin_nothing_new: Callable[[str], bool],
    ) -> CancelRequest | None:
        """Wait until the work is over; return the request it was ended for, if there was one.

        `begin_nothing_new` tells the work who asked, and says whether it comes to its end by
        itself; work that does not, or takes too long over it, is cut off. Whoever cancels this
        asks too, and whoever does so again, or means it at once, cuts it off; that is passed on
        once the work is over.
        """
        request = None
        try:
            request = await self._request(doing, asked)
            if request is not None and begin_nothing_new(request.by):
                await asyncio.wait({doing}, timeout=self.settles_within.total_seconds())
        except asyncio.CancelledError as told:
            impatient = request is not None or is_meant_at_once(told)
            if not (impatient or doing.done()) and begin_nothing_new(SIGNALLED):
                await asyncio.wait({doing}, timeout=self.stops_within.total_seconds())
            raise
        finally:
            await cut_off(doing)
        return request

    async def _request(
        self, doing: asyncio.Future[Any], asked: Callable[[], Awaitable[CancelRequest | None]]
    ) -> CancelRequest | None:
        # Real seconds, not the injected clock's: whoever asks is another process.
        pause = self.looks_every.total_seconds()
        while not (await asyncio.wait({doing}, timeout=pause))[0]:
            with suppress(StokerError):  # a store that is away is asked again
                if (request := await asked()) is not None:
                    return request
        return None
