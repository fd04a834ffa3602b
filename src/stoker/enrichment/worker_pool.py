"""Worker pool: process items in a bounded number of slots.

A slow company holds only its own slot. A company that waits for a batch holds none, so that batches
fill across companies; the number of waiting companies is bounded too, and with it memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from typing import TypeVar

from stoker.base.clock import Clock
from stoker.base.errors import StokerError
from stoker.base.retry import retry
from stoker.budgets.charges import Refusal
from stoker.enrichment.model import WorkItem
from stoker.enrichment.pipeline import CompanyPipeline
from stoker.enrichment.work_queue import WorkQueue

RETRY_DELAYS = tuple(timedelta(seconds=wait) for wait in (1, 2, 4))  # while the store is away

ResultT = TypeVar("ResultT")


class WorkerPool:
    """Claims items of one run and processes them, some at once, until there are none.

    The caller sends heartbeats for `units` meanwhile. `coming` is entered while an item may still
    add to a batch.
    """

    def __init__(
        self,
        work: CompanyPipeline,
        units: WorkQueue,
        *,
        places: int,
        parked: int,
        clock: Clock,
        on_done: Callable[[WorkItem], None],
        coming: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._pipeline = work
        self._queue = units
        self._slots = asyncio.Semaphore(places)
        self._waiting_slots = asyncio.Semaphore(parked)
        self._clock = clock
        self._on_done = on_done
        self._while_producing = coming
        self.in_progress = 0
        self.ended = 0
        self.released = 0  # begun and not finished
        self.refusal: Refusal | None = None  # why nothing more is begun

    async def run(self) -> None:
        """Carry out everything there is; what was begun and not finished is released."""
        try:
            async with asyncio.TaskGroup() as flow:
                await self._start_all(flow)
        except BaseExceptionGroup as errors:
            raise _find_first_error(errors) from errors
        finally:
            with suppress(StokerError):  # then they come free by themselves
                self.released = await asyncio.shield(self._queue.release())

    async def _start_all(self, flow: asyncio.TaskGroup) -> None:
        while True:
            await self._slots.acquire()
            if self.refusal is not None:
                return
            # One unit per place that is free: what waits in our hands could be done elsewhere.
            items = await self._retry(lambda: self._queue.claim(1))
            if not items:
                self._slots.release()
                return
            self.in_progress += 1
            flow.create_task(self._process_item(items[0]))

    async def _process_item(self, item: WorkItem) -> None:
        place = _WorkerSlot(self._slots, self._waiting_slots)
        try:
            with self._while_producing():
                outcome = await self._process_with_retry(item, place)
        finally:
            place.release()
            self.in_progress -= 1
        if isinstance(outcome, Refusal):
            self.refusal = outcome
        elif outcome is not None:
            self.ended += 1
            self._on_done(outcome)

    async def _process_with_retry(
        self, item: WorkItem, place: _WorkerSlot
    ) -> WorkItem | Refusal | None:
        # From the beginning: paid answers are cached, and finishing an item twice changes nothing.
        return await self._retry(
            lambda: self._pipeline.process(item, park=place.release_while_waiting)
        )

    async def _retry(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run the work, and again when the store fails for a moment."""
        return await retry(work, delays=RETRY_DELAYS, sleep=self._clock.sleep)


class _WorkerSlot:
    """An item's worker slot, and later its waiting slot."""

    def __init__(self, places: asyncio.Semaphore, parked: asyncio.Semaphore) -> None:
        self._slots = places
        self._waiting_slots = parked
        self._is_waiting = False

    async def release_while_waiting(self) -> None:
        """Release the worker slot, once there is room to wait without it."""
        if not self._is_waiting:
            await self._waiting_slots.acquire()
            self._is_waiting = True
            self._slots.release()

    def release(self) -> None:
        """Release the slot that is held."""
        (self._waiting_slots if self._is_waiting else self._slots).release()


def _find_first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
