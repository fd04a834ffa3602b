"""Import files of the register: bring them here, check them, and load them batch by batch.

A file is checked before any of it is stored, and a refused one does not stop the others. A file
is known by its digest: one that was read to its end is not read again; one that was left half-way
is read from its start, and what is stored already counts as the same. What is new is then
taken over into each tenant's companies, in the register's own order of changes.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.accounts.model import Company, CompanyId
from stoker.accounts.store import AccountStore
from stoker.base.clock import Clock
from stoker.base.errors import PermanentError, TransientError
from stoker.base.events import Observer, RegisterRead
from stoker.http.client import build_http_client
from stoker.registry.acra import UNKNOWN_STATUS, ParsedRow, RegisterRow, RejectedRow
from stoker.registry.download import build_portal, fetch_file
from stoker.registry.files import CheckedFile, open_register_files
from stoker.registry.model import Entity, Load, LoadCount, Reject
from stoker.registry.releases import (
    LoadRefusal,
    RegistryFile,
    choose_downloads,
    find_earlier_load,
    find_load_refusal,
    format_loaded_part,
    get_release_and_part,
    sort_oldest_first,
)
from stoker.registry.store import RegistryStore

if TYPE_CHECKING:
    from stoker.context import Context

BATCH_SIZE = 2_000  # rows in one transaction
PAGE_SIZE = 1000  # changes taken over into a tenant's companies in one transaction
MAX_REJECTS = 10_000  # stored of one file; the rest is counted
MAX_STATUSES = 100  # not known, that are named of one file; the rest is among its doubts
_MAX_STATUS_LENGTH = 60  # characters; the longest real one has some fifty
_MAX_LOADS = 10_000  # that a file is compared with
Progress = Callable[[int], None]
"""Takes how many rows of a file are in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How files are read; a release or part that is None is in a file's name."""

    release: str | None = None
    part: str | None = None
    again: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    load: Load
    is_repeat: bool = False  # it had been read already, and nothing was done
    duration: timedelta = timedelta(0)
    doubts: Mapping[str, int] = field(default_factory=dict)  # odd rows, by what is odd
    unknown_statuses: Mapping[str, int] = field(default_factory=dict)  # rows of each


class RegistryLoader:
    """Reads files into one register, and calls `progress` after each batch."""

    def __init__(
        self,
        registry: RegistryStore,
        *,
        clock: Clock,
        observer: Observer,
        progress: Progress = lambda _: None,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._observer = observer
        self._progress = progress

    async def load_file(
        self, source: RegistryFile, *, again: bool = False, force: bool = False
    ) -> LoadResult | LoadRefusal:
        """Read a file to its end, unless it was before and `again` does not ask for it.

        A refused file is not read, and nothing is written; with `force` none is refused.
        """
        loads = await self._registry.list_loads(limit=_MAX_LOADS)
        before = None if again else find_earlier_load(source, loads)
        if before is not None:
            return LoadResult(load=before, is_repeat=True)
        refused = None if force else find_load_refusal(source, loads, now=self._clock.now())
        return refused or await self._load_rows(source)

    async def _load_rows(self, source: RegistryFile) -> LoadResult:
        began = self._clock.elapsed()
        load = Load(
            id=source.load_id,
            release=source.release,
            part=source.part,
            source=source.name,
            began_at=self._clock.now(),
        )
        await self._registry.begin_load(load)
        count, doubts, statuses = LoadCount(), Counter[str](), Counter[str]()
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
                    _count_unknown_status(statuses, row)
            self._progress(count.rows_read)
        part = format_loaded_part(load.part, rejected=count.rejected)
        if part != load.part:
            load = replace(load, part=part)
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
        return LoadResult(
            load=ended,
            duration=took,
            doubts=dict(doubts.most_common()),
            unknown_statuses=dict(statuses.most_common()),
        )

    async def _save_batch(
        self, load: Load, batch: list[RegisterRow], count: LoadCount, bad: list[Reject]
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


def _count_unknown_status(statuses: Counter[str], row: ParsedRow) -> None:
    if UNKNOWN_STATUS not in row.doubts:
        return
    status = " ".join(row.entity.status.split())[:_MAX_STATUS_LENGTH]
    if status in statuses or len(statuses) < MAX_STATUSES:
        statuses[status] += 1


def _take_batch(rows: Iterator[RegisterRow]) -> list[RegisterRow]:
    return list(islice(rows, BATCH_SIZE))


def _show_nothing(_: CheckedFile) -> AbstractContextManager[Progress]:
    return nullcontext(lambda _: None)


@dataclass(kw_only=True)
class RegistryImport:
    """Reads files one after the other, and collects what was read and what was refused.

    Calls `on_refusal` with a sentence as soon as a file is refused.
    """

    app: Context
    options: ImportOptions
    on_refusal: Callable[[str], None] = lambda _: None
    show_progress: Callable[[CheckedFile], AbstractContextManager[Progress]] = _show_nothing
    observer: Observer
    read: list[LoadResult] = field(default_factory=list)
    refused: list[Mapping[str, str]] = field(default_factory=list)  # `because`, and `reason` if any

    async def read_files(self, names: Sequence[str], *, directory: Path) -> None:
        """Read files by path, address or - for stdin, those of the oldest release first."""
        order = sort_oldest_first([_shorten_name(name) for name in names])
        for name in sorted(names, key=lambda name: order.index(_shorten_name(name))):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    path = await self._fetch(name, directory=directory, folder=Path(folder))
                    await self._read_path(path, self.options)
                except PermanentError as error:
                    self._refuse(str(error))

    async def read_published(self, parts: Sequence[str]) -> None:
        """Download the register's files, all or some parts, and read each when it is here.

        A part of this release that was read to its end before is not downloaded.
        """
        portal = self.app.get(build_portal)
        published = {each.part: each for each in await portal.list_files()}
        chosen = choose_downloads(
            {part: each.release for part, each in published.items()},
            wanted=parts,
            loads=await self.app.backend.registry().list_loads(limit=_MAX_LOADS),
            again=self.options.again,
        )
        if isinstance(chosen, LoadRefusal):
            self._refuse(chosen.message, reason=chosen.reason)
            return
        for each in chosen:
            if isinstance(each, Load):
                self.read.append(LoadResult(load=each, is_repeat=True))
                continue
            file = published[each]
            options = replace(self.options, release=file.release, part=file.part)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"ACRA Information on Corporate Entities ('{file.part}').csv"
                try:
                    await portal.download(file, to=path)
                    await self._read_path(path, options)
                except PermanentError as error:
                    self._refuse(str(error))

    async def _read_path(self, path: Path, options: ImportOptions) -> None:
        for file in await asyncio.to_thread(open_register_files, path, part=options.part or ""):
            result = await self._read_file(file, options)
            if isinstance(result, LoadRefusal):
                self._refuse(result.message, reason=result.reason)
            else:
                self.read.append(result)

    async def _read_file(
        self, file: CheckedFile, options: ImportOptions
    ) -> LoadResult | LoadRefusal:
        named = get_release_and_part(file.name, release=options.release, part=options.part)
        if isinstance(named, LoadRefusal):
            return named
        release, part = named
        source = RegistryFile(
            digest=file.digest,
            name=file.name,
            release=release,
            part=part,
            lines=file.lines,
            rows=file.iter_rows,
        )
        with self.show_progress(file) as progress:
            loader = RegistryLoader(
                self.app.backend.registry(),
                clock=self.app.clock,
                observer=self.observer,
                progress=progress,
            )
            return await loader.load_file(source, again=options.again, force=options.force)

    async def _fetch(self, name: str, *, directory: Path, folder: Path) -> Path:
        """Return where a file is on this machine, after bringing it here if it is not."""
        path = folder / _shorten_name(name)
        if name == "-":
            await asyncio.to_thread(_copy_stdin, path)
            return path
        if name.startswith(("http://", "https://")):
            await fetch_file(self.app.get(build_http_client), name, to=path)
            return path
        return directory / name

    def _refuse(self, because: str, *, reason: str = "") -> None:
        self.refused.append({"because": because} | ({"reason": reason} if reason else {}))
        self.on_refusal(because)


def _copy_stdin(to: Path) -> None:
    try:
        with to.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        raise TransientError(
            f"what is piped in cannot be kept at {to.parent} ({error.strerror}); make room, or "
            "name a file instead"
        ) from error


def _shorten_name(name: str) -> str:
    """Return a file's name as it may be stored: no folders, and no query, which can hold a key."""
    return "stdin" if name == "-" else Path(name.partition("?")[0]).name[:200] or "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshCount:
    """How the register's changes compared with what the tenant knew."""

    read: int = 0
    new: int = 0
    changed: int = 0


async def refresh_companies(
    registry: RegistryStore, accounts: AccountStore, *, clock: Clock, page: int = PAGE_SIZE
) -> RefreshCount:
    """Take over every change since last time, page by page."""
    since, after = await accounts.find_registry_cursor(), ""
    read = new = changed = 0
    while rows := await registry.list_changed_entities(since=since, after=after, limit=page):
        count = await accounts.upsert_companies(
            [build_company(entity) for entity in rows], now=clock.now()
        )
        read, new, changed = read + len(rows), new + count.new, changed + count.changed
        through = _compute_safe_cursor(rows, since)
        since, after = rows[-1].changed_at, rows[-1].uen
        if through is not None:
            await accounts.set_registry_cursor(through)
    if read and since is not None:
        await accounts.set_registry_cursor(since)
    return RefreshCount(read=read, new=new, changed=changed)


def build_company(entity: Entity) -> Company:
    """Return a registered entity as a tenant's company, knowing what the register knows."""
    return Company(
        id=CompanyId(entity.uen),
        name=entity.name,
        live=entity.live and entity.gone_at is None,
        ssic=entity.ssic,
        year=entity.registered_on.year if entity.registered_on else None,
        postal_code=entity.postal_code,
    )


def _compute_safe_cursor(rows: list[Entity], before: datetime | None) -> datetime | None:
    """Return the latest date that a page is surely through with: more may share its last one."""
    last = rows[-1].changed_at
    earlier = [row.changed_at for row in rows if row.changed_at and row.changed_at != last]
    if earlier:
        return earlier[-1]
    return before if before != last else None
