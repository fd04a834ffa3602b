"""What a night asks of whoever puts its results into the tenant's CRM, and when it does.

Companies whose night has ended are sent on some at a time, while the others' goes on; at the end,
everything that is not there yet. How rows are made and sent is the exporter's own business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from stoker.core.companies import CompanyId
from stoker.engine.running import OpenRun
from stoker.errors import StokerError
from stoker.ports import Clock

EVERY = timedelta(seconds=10)  # however few there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """How an export went. What is left for later is sent by a later run, without being asked."""

    companies: int = 0  # looked at, whether or not anything had to be sent
    counts: Mapping[str, int] = field(default_factory=dict)  # for the manifest: written, same, …
    later: int = 0  # rows the CRM did not take this time
    broken_off: bool = False  # nobody knows how many there are
    reasons: tuple[str, ...] = ()  # in sentences: a CRM that is down, rows it refused


class Exporting(Protocol):
    """One run's export, under way. Twice is once."""

    async def send(self, companies: Sequence[CompanyId]) -> None:
        """Send what is known about these companies now. What the CRM does not take, `rest` does."""
        ...

    async def rest(self) -> Exported:
        """Send everything the CRM does not have yet, this run's and what earlier ones left.

        Returns how all of it went. A CRM that is down or refuses rows is told in the answer, never
        raised.
        """
        ...

    def so_far(self) -> Exported:
        """Return how it went up to now, also when it goes no further."""
        ...


class Exports(Protocol):
    """Puts what is known into a tenant's CRM."""

    def begin(self, run: OpenRun) -> Exporting:
        """Begin a run's export; nothing is sent yet."""
        ...


class Outbox:
    """Where companies go whose night has ended. Open it with `async with` while others flow.

    Closing it waits for what is on its way; what was not sent by then is left to `Exporting.rest`.
    """

    def __init__(
        self,
        exporting: Exporting,
        *,
        clock: Clock,
        ours: Callable[[], bool],
        some: int,
        every: timedelta = EVERY,
    ) -> None:
        self._exporting = exporting
        self._clock = clock
        self._ours = ours
        self._some = some
        self._every = every
        self._gathered: list[CompanyId] = []
        self._ripe = asyncio.Event()
        self._closing = False
        self._going: asyncio.Task[None] | None = None

    def add(self, company: CompanyId) -> None:
        """Have a company sent soon."""
        self._gathered.append(company)
        if len(self._gathered) >= self._some:
            self._ripe.set()

    async def __aenter__(self) -> Outbox:
        self._going = asyncio.create_task(self._go())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._going is None:
            return
        self._closing = True
        self._ripe.set()
        if kind is not None:
            self._going.cancel()
        await asyncio.wait({self._going})
        if not self._going.cancelled():
            self._going.result()

    async def _go(self) -> None:
        while True:
            await self._until_ripe()
            if self._closing or not self._ours():
                return
            some, self._gathered = self._gathered, []
            self._ripe.clear()
            if some:
                with suppress(StokerError):  # what a store that is away left out goes at the end
                    await self._exporting.send(some)

    async def _until_ripe(self) -> None:
        waits = {
            asyncio.ensure_future(self._clock.sleep(self._every)),
            asyncio.ensure_future(self._ripe.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
