"""Units flow through a bounded number of places; who only waits for a verdict is parked.

A slow company holds its own place and nobody else's. A parked one holds none, so that batches can
fill across companies; how many may be parked is bounded too, and with them memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from typing import TypeVar

from stoker.base.clock import Clock
from stoker.base.errors import ConfigError, StokerError
from stoker.budgets.charges import Refused
from stoker.enrichment.model import Unit
from stoker.enrichment.pipeline import EVERYBODYS, CompanyNight
from stoker.enrichment.work_queue import HandingOut

TRIES = 4  # of anything while the store is away

FIRST_WAIT = timedelta(seconds=1)  # doubled each time

Result = TypeVar("Result")


class UnitFlow:
    """Takes units of one run and carries them out, some at once, until there are none.

    Whoever lets it flow shows signs of life for `units` meanwhile. `coming` is entered while a unit
    may still bring something to a batch.
    """

    def __init__(
        self,
        work: CompanyNight,
        units: HandingOut,
        *,
        places: int,
        parked: int,
        clock: Clock,
        told: Callable[[Unit], None],
        coming: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._work = work
        self._units = units
        self._places = asyncio.Semaphore(places)
        self._at_once = places
        self._parked = asyncio.Semaphore(parked)
        self._clock = clock
        self._told = told
        self._coming = coming
        self.under_way = 0
        self.ended = 0
        self.given_back = 0  # begun and not finished
        self.refused: Refused | None = None  # why nothing more is begun

    async def go(self) -> None:
        """Carry out everything there is; what was begun and not finished is given back."""
        try:
            async with asyncio.TaskGroup() as flow:
                await self._begin_all(flow)
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        finally:
            with suppress(StokerError):  # then they come free by themselves
                self.given_back = await asyncio.shield(self._units.give_back())

    async def _begin_all(self, flow: asyncio.TaskGroup) -> None:
        while True:
            await self._places.acquire()
            if self.refused is not None:
                return
            # One unit per place that is free: what waits in our hands could be done elsewhere.
            units = await self._insisted(lambda: self._units.take(1))
            if not units:
                self._places.release()
                return
            self.under_way += 1
            flow.create_task(self._carried_out(units[0]))

    async def _carried_out(self, unit: Unit) -> None:
        place = _Place(self._places, self._parked)
        try:
            with self._coming():
                outcome = await self._tried(unit, place)
        finally:
            place.leave()
            self.under_way -= 1
        if isinstance(outcome, Refused):
            self.refused = outcome
        elif outcome is not None:
            self.ended += 1
            self._told(outcome)

    async def _tried(self, unit: Unit, place: _Place) -> Unit | Refused | None:
        # Again from the beginning: whatever was paid for is kept, and finishing twice is once.
        return await self._insisted(lambda: self._work.carry_out(unit, park=place.park))

    async def _insisted(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do something, and again when the store was away for a moment."""
        wait = FIRST_WAIT
        for left in reversed(range(TRIES)):
            try:
                return await work()
            except EVERYBODYS as error:
                if not left or isinstance(error, ConfigError):
                    raise
            await self._clock.sleep(wait)
            wait *= 2
        raise AssertionError("the last try always returns or raises")


class _Place:
    """A unit's place, and later its place among the parked."""

    def __init__(self, places: asyncio.Semaphore, parked: asyncio.Semaphore) -> None:
        self._places = places
        self._parked = parked
        self._is_parked = False

    async def park(self) -> None:
        """Let somebody else have the place, once there is room to wait without it."""
        if not self._is_parked:
            await self._parked.acquire()
            self._is_parked = True
            self._places.release()

    def leave(self) -> None:
        """Be gone from wherever it is."""
        (self._parked if self._is_parked else self._places).release()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
