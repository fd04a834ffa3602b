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

from stoker.base.cancellation import cancel_and_wait, is_immediate
from stoker.base.errors import StokerError
from stoker.runs.model import CancelRequest

POLL_INTERVAL = timedelta(seconds=5)

GRACE_PERIOD = timedelta(minutes=3)  # longer than any vendor is waited for

CANCELLED_BY_SIGNAL = "Ctrl-C or a signal"

SIGNAL_GRACE_PERIOD = timedelta(seconds=30)  # somebody waits, or a machine that is shut down


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWatcher:
    """How soon a request is noticed, and how long what is under way may take after it.

    After Ctrl-C or a signal it may take less long: `signal_grace_period`.
    """

    poll_interval: timedelta = POLL_INTERVAL
    grace_period: timedelta = GRACE_PERIOD
    signal_grace_period: timedelta = SIGNAL_GRACE_PERIOD

    async def run_until_cancelled(
        self,
        doing: asyncio.Future[Any],
        *,
        asked: Callable[[], Awaitable[CancelRequest | None]],
        begin_nothing_new: Callable[[str], bool],
    ) -> CancelRequest | None:
        """Wait until the work is over; return the request it was ended for, if there was one.

        `stop_accepting_work` tells the work who asked, and says whether it comes to its end by
        itself; work that does not, or takes too long over it, is cut off. Whoever cancels this
        asks too, and whoever does so again, or means it at once, cuts it off; that is passed on
        once the work is over.
        """
        request = None
        try:
            request = await self._poll_request(doing, asked)
            if request is not None and begin_nothing_new(request.by):
                await asyncio.wait({doing}, timeout=self.grace_period.total_seconds())
        except asyncio.CancelledError as told:
            impatient = request is not None or is_immediate(told)
            if not (impatient or doing.done()) and begin_nothing_new(CANCELLED_BY_SIGNAL):
                await asyncio.wait({doing}, timeout=self.signal_grace_period.total_seconds())
            raise
        finally:
            await cancel_and_wait(doing)
        return request

    async def _poll_request(
        self, doing: asyncio.Future[Any], asked: Callable[[], Awaitable[CancelRequest | None]]
    ) -> CancelRequest | None:
        # Real seconds, not the injected clock's: whoever asks is another process.
        pause = self.poll_interval.total_seconds()
        while not (await asyncio.wait({doing}, timeout=pause))[0]:
            with suppress(StokerError):  # a store that is away is asked again
                if (request := await asked()) is not None:
                    return request
        return None
