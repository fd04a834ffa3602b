"""Reads files of the register into the store: batch by batch, twice is once.

A file is known by its digest. One that was read to its end is not read again; one that was left
half-way is begun anew, and what is in already counts as the same. Which files are refused is said
in `core.register_loads`, what a row means in `core.acra`; when absence means that an entity is
gone, in the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice

from stoker.base.clock import Clock
from stoker.base.events import Observer, RegisterRead
from stoker.registry.acra import ParsedRow, RejectedRow
from stoker.registry.model import Load, LoadCount, Reject
from stoker.registry.releases import (
    LoadRefusal,
    RegistryFile,
    find_earlier_load,
    find_load_refusal,
    format_loaded_part,
)
from stoker.registry.store import RegistryStore

BATCH_SIZE = 2_000  # rows in one transaction
MAX_REJECTS = 10_000  # kept of one file; the rest is counted
_RECENT_LOADS = 10_000  # loads
Row = ParsedRow | RejectedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySource(RegistryFile):
    """A file that is there to be read, and its rows."""

    rows: Callable[[], Iterator[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    load: Load
    is_repeat: bool = False  # it had been read already, and nothing was done
    duration: timedelta = timedelta(0)
    doubts: Mapping[str, int] = field(default_factory=dict)  # rows kept, but odd, by what is odd


class RegistryLoader:
    """Reads files into one register. `progress` is told after each batch how many rows are in."""

    def __init__(
        self,
        registry: RegistryStore,
        *,
        clock: Clock,
        observer: Observer,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._observer = observer
        self._progress = progress

    async def load_file(
        self, source: RegistrySource, *, again: bool = False, force: bool = False
    ) -> LoadResult | LoadRefusal:
        """Read a file to its end, unless it was before (and `again` does not ask for it).

        NotRead, with nothing written, when `core.register_loads` refuses it; `force` says that it
        shall be read all the same.
        """
        loads = await self._registry.list_loads(limit=_RECENT_LOADS)
        before = None if again else find_earlier_load(source, loads)
        if before is not None:
            return LoadResult(load=before, is_repeat=True)
        refused = None if force else find_load_refusal(source, loads, now=self._clock.now())
        return refused or await self._load_rows(source)

    async def _load_rows(self, source: RegistrySource) -> LoadResult:
        began = self._clock.elapsed()
        load = Load(
            id=source.load_id,
            release=source.release,
            part=source.part,
            source=source.name,
            began_at=self._clock.now(),
        )
        await self._registry.begin_load(load)
        count, doubts = LoadCount(), Counter[str]()
        bad: list[Reject] = []
        rows = source.rows()
        reading = asyncio.create_task(asyncio.to_thread(_take_batch, rows))
        while batch := await reading:
            # The next rows are read while these are written.
            reading = asyncio.create_task(asyncio.to_thread(_take_batch, rows))
            try:
                count = await self._save_batch(load, batch, count, bad)
            except BaseException:
                await asyncio.wait([reading])
                raise
            for row in batch:
                if isinstance(row, ParsedRow):
                    doubts.update(row.doubts)
            self._progress(count.rows_read)
        kept_as = format_loaded_part(load.part, rejected=count.rejected)
        if kept_as != load.part:
            load = replace(load, part=kept_as)
            await self._registry.begin_load(load)
            await self._registry.reject_rows(load, bad)
        ended = await self._registry.end_load(replace(load, count=count), now=self._clock.now())
        took = self._clock.elapsed() - began
        self._observer(
            RegisterRead(
                at=self._clock.now(),
                source=source.name,
                release=source.release,
                part=source.part,
                rows=ended.count.rows_read,
                new=ended.count.new,
                changed=ended.count.changed,
                rejected=ended.count.rejected,
                gone=ended.count.gone,
            )
        )
        return LoadResult(load=ended, duration=took, doubts=dict(doubts.most_common()))

    async def _save_batch(
        self, load: Load, batch: list[Row], count: LoadCount, bad: list[Reject]
    ) -> LoadCount:
        entities = [row.entity for row in batch if isinstance(row, ParsedRow)]
        rejects = [
            Reject(load=load.id, line=row.line, reason=row.reason, text=row.text)
            for row in batch
            if isinstance(row, RejectedRow)
        ]
        put, kept = LoadCount(), rejects[: MAX_REJECTS - len(bad)]
        if entities:
            put = await self._registry.load_entities(load, entities, now=self._clock.now())
        if kept:
            await self._registry.reject_rows(load, kept)
            bad.extend(kept)
        return LoadCount(
            new=count.new + put.new,
            changed=count.changed + put.changed,
            same=count.same + put.same,
            rejected=count.rejected + len(rejects),
        )


def _take_batch(rows: Iterator[Row]) -> list[Row]:
    return list(islice(rows, BATCH_SIZE))
