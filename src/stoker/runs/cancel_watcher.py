"""Run work until it ends or its run is cancelled, then drain it.

Polls every few seconds for a request, which any process may have stored; Ctrl-C counts as one. Paid
calls get time to be answered. `service` decides how the run ends.
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

SIGNAL_GRACE_PERIOD = timedelta(seconds=30)  # a person or a shutdown waits


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWatcher:
    """How often to poll for a cancel request, and how long the work may take to end after one.

    After Ctrl-C or a signal it has `signal_grace_period`.
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
        """Wait until the work is over; return the cancel request that ended it, if any.

        `stop_accepting_work` passes on who asked, and returns whether the work ends by itself;
        otherwise, or after the grace period, the work is cancelled. Cancelling this counts as a
        request; cancelling again, or at once, cancels the work. CancelledError is raised once the
        work is over.
        """
        request = None
        try:
            request = await self._poll_request(doing, asked)
            if request is not None and begin_nothing_new(request.by):
                await asyncio.wait({doing}, timeout=self.grace_period.total_seconds())
        except asyncio.CancelledError as cancelled:
            impatient = request is not None or is_immediate(cancelled)
            if not (impatient or doing.done()) and begin_nothing_new(CANCELLED_BY_SIGNAL):
                await asyncio.wait({doing}, timeout=self.signal_grace_period.total_seconds())
            raise
        finally:
            await cancel_and_wait(doing)
        return request

    async def _poll_request(
        self, doing: asyncio.Future[Any], asked: Callable[[], Awaitable[CancelRequest | None]]
    ) -> CancelRequest | None:
        # Real seconds, not the injected clock's: the request comes from another process.
        pause = self.poll_interval.total_seconds()
        while not (await asyncio.wait({doing}, timeout=pause))[0]:
            with suppress(StokerError):  # a store that is away is asked again
                if (request := await asked()) is not None:
                    return request
        return None
