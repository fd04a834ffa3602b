"""Prefetch sources of postings, a few at a time, in their order.

Retries a source that asks for a short wait. A source that fails raises when it is its turn; the
others are not affected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from stoker.base.clock import Clock
from stoker.base.errors import TransientError
from stoker.base.retry import compute_backoff
from stoker.discovery.model import Postings, Validators
from stoker.discovery.sources import SourceSpec

MAX_ATTEMPTS = 3
MAX_WAIT = timedelta(minutes=2)  # a source that asks us to wait for longer, is

ReadSource = Callable[[SourceSpec, Validators | None], AsyncIterator[Postings]]
"""Yields what a source lists, batch by batch; with known validators, it may be unchanged.

Raises TransientError when later may work, PermanentError when there is nothing to read, and
ConfigError when a person must act first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchJob:
    """One source to be read, and what is known of its version."""

    source: SourceSpec
    known: Validators | None


class SourceReader:
    """One source as it is being read; the first batch is on its way already."""

    def __init__(
        self, fetch_job: FetchJob, batches: AsyncGenerator[Postings, None], clock: Clock
    ) -> None:
        self.fetch_job = fetch_job
        self._batches = batches
        self._clock = clock
        self._elapsed = timedelta(0)
        self._next: asyncio.Task[Postings | None] = asyncio.create_task(self._read_next())

    @property
    def elapsed(self) -> timedelta:
        """Time spent reading this source so far."""
        return self._elapsed

    async def read_batch(self) -> Postings | None:
        """Return what the source lists next; None when that was all. Raises as `ReadSource`."""
        batch = await self._next
        if batch is not None:
            self._next = asyncio.create_task(self._read_next())
        return batch

    async def close(self) -> None:
        """Stop reading the source, wherever it is."""
        self._next.cancel()
        await asyncio.wait([self._next])
        if not self._next.cancelled():
            self._next.exception()  # already raised, or no longer needed
        await self._batches.aclose()

    async def _read_next(self) -> Postings | None:
        began = self._clock.elapsed()
        try:
            return await anext(self._batches, None)
        finally:
            self._elapsed += self._clock.elapsed() - began


async def prefetch_sources(
    fetch_jobs: Sequence[FetchJob],
    read_source: ReadSource,
    *,
    concurrency: int,
    clock: Clock,
) -> AsyncGenerator[SourceReader, None]:
    """Yield sources in their order, each under way already; at most so many at once."""
    waiting = deque(fetch_jobs)
    going: deque[SourceReader] = deque()
    try:
        while waiting or going:
            while waiting and len(going) < concurrency:
                job = waiting.popleft()
                going.append(SourceReader(job, _read_with_retry(read_source, job, clock), clock))
            yield going[0]
            await going.popleft().close()
    finally:
        for reading in going:
            await reading.close()


async def _read_with_retry(
    read_source: ReadSource, job: FetchJob, clock: Clock
) -> AsyncGenerator[Postings, None]:
    for attempt in range(1, MAX_ATTEMPTS + 1):
        begun = False
        try:
            async for batch in read_source(job.source, job.known):
                begun = True
                yield batch
            return
        except TransientError as error:
            wait = error.retry_after or compute_backoff(attempt, chance=0.5)
            if begun or attempt == MAX_ATTEMPTS or wait > MAX_WAIT:
                raise
        await clock.sleep(wait)
