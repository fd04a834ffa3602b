"""Reads files of the register into the store: batch by batch, twice is once.

A file is known by its digest. One that was read to its end is not read again; one that was left
half-way is begun anew, and what is in already counts as the same. What a row means is said in
`core.acra`; when absence means that an entity is gone, in the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from stoker.core.acra import Reading, Unreadable
from stoker.core.entities import PARTS, Load, LoadCount, Reject
from stoker.core.events import RegisterRead
from stoker.errors import PermanentError
from stoker.ports import Clock, Observer
from stoker.sources import RegistryStore

BATCH = 2_000  # rows in one transaction
MOST_REJECTS = 10_000  # kept of one file; the rest is counted
# Put behind a part some of whose rows could not be read: it does not say who is no longer there.
INCOMPLETE = ", incomplete"
_LOOKS_BACK = 10_000  # loads

Row = Reading | Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterSource:
    """A file that is there to be read: whose rows, under which name, of which release."""

    digest: str
    name: str
    release: str
    part: str
    lines: int
    rows: Callable[[], Iterator[Row]]

    @property
    def load(self) -> str:
        """What its load goes by. Two letters nobody begins with have the same, empty file."""
        return f"{self.digest}/{self.part}" if self.part in PARTS else self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """How the reading of a file went."""

    load: Load
    before: bool = False  # it had been read already, and nothing was done
    took: timedelta = timedelta(0)
    doubts: Mapping[str, int] = field(default_factory=dict)  # rows kept, but odd, by what is odd


class Registering:
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

    async def read(
        self, source: RegisterSource, *, again: bool = False, force: bool = False
    ) -> Registered:
        """Read a file to its end, unless it was before (and `again` does not ask for it).

        Raises PermanentError, with nothing written, when the register is of a later release, so
        that rows would go back to what they were; when its own is still to come, so that all true
        ones would be refused after it; or when a part has less than half the rows it had, so that
        it may be cut. `force` says that it shall be read all the same.
        """
        loads = await self._registry.loads(limit=_LOOKS_BACK)
        ended = [load for load in loads if load.ended_at is not None]
        for load in ended:
            if _same(load, source) and not again:
                return Registered(load=load, before=True)
        if not force:
            _refuse_the_future(source, now=self._clock.now())
            _refuse_going_back(loads, source)
            _refuse_shrinking(ended, source)
        return await self._loaded(source)

    async def _loaded(self, source: RegisterSource) -> Registered:
        began = self._clock.elapsed()
        load = Load(
            id=source.load,
            release=source.release,
            part=source.part,
            source=source.name,
            began_at=self._clock.now(),
        )
        await self._registry.begin_load(load)
        count, doubts = LoadCount(), Counter[str]()
        bad: list[Reject] = []
        rows = source.rows()
        reading = asyncio.create_task(asyncio.to_thread(_batch, rows))
        while batch := await reading:
            # The next rows are read while these are written.
            reading = asyncio.create_task(asyncio.to_thread(_batch, rows))
            try:
                count = await self._kept(load, batch, count, bad)
            except BaseException:
                await asyncio.wait([reading])
                raise
            for row in batch:
                if isinstance(row, Reading):
                    doubts.update(row.doubts)
            self._progress(count.read)
        if count.rejected and load.part in PARTS:
            load = replace(load, part=load.part + INCOMPLETE)
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
                rows=ended.count.read,
                new=ended.count.new,
                changed=ended.count.changed,
                rejected=ended.count.rejected,
                gone=ended.count.gone,
            )
        )
        return Registered(load=ended, took=took, doubts=dict(doubts.most_common()))

    async def _kept(
        self, load: Load, batch: list[Row], count: LoadCount, bad: list[Reject]
    ) -> LoadCount:
        entities = [row.entity for row in batch if isinstance(row, Reading)]
        rejects = [
            Reject(load=load.id, line=row.line, reason=row.because, text=row.text)
            for row in batch
            if isinstance(row, Unreadable)
        ]
        put, kept = LoadCount(), rejects[: MOST_REJECTS - len(bad)]
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


def _same(load: Load, source: RegisterSource) -> bool:
    part = load.part.removesuffix(INCOMPLETE)
    return (load.id, load.release, part) == (source.load, source.release, source.part)


def _refuse_the_future(source: RegisterSource, *, now: datetime) -> None:
    # A day more, because it may be tomorrow where the register is published.
    if source.release > (now + timedelta(days=1)).date().isoformat():
        raise PermanentError(
            f"{source.name} is of release {source.release}, which is still to come; check the "
            "date, or to read it all the same say --force, nothing was written"
        )


def _refuse_going_back(loads: Sequence[Load], source: RegisterSource) -> None:
    latest = max((load.release for load in loads), default="")
    if latest > source.release:
        raise PermanentError(
            f"{source.name} is of release {source.release}, and {latest} has been read: rows would "
            "go back to what they were; to read it all the same say --force, nothing was written"
        )


def _refuse_shrinking(ended: Sequence[Load], source: RegisterSource) -> None:
    had = [load for load in ended if load.part.removesuffix(INCOMPLETE) == source.part]
    rows = had[0].count.read if had and source.part in PARTS else 0
    if source.lines * 2 < rows:
        raise PermanentError(
            f"{source.name} has {source.lines:,} lines, and part {source.part} had {rows:,} rows "
            f"in {had[0].release}: it may be cut; to read it all the same say --force, nothing "
            "was written"
        )


def _batch(rows: Iterator[Row]) -> list[Row]:
    return list(islice(rows, BATCH))
