"""Brings files of the register to this machine and has them read, one after the other.

Every file is looked through before anything of it is kept. A file that is refused is complained
about, and does not keep the others from being read.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import PermanentError, TransientError
from stoker.base.events import Event, Observer, RegisterRead
from stoker.cli.output import print_error
from stoker.http.client import HttpClient, build_http_client
from stoker.registry.download import DataGov, PublishedFile, fetch_file
from stoker.registry.files import CheckedFile, open_register_files
from stoker.registry.load import LoadResult, RegistryLoader, RegistrySource
from stoker.registry.model import Load
from stoker.registry.releases import (
    LoadRefusal,
    choose_downloads,
    get_release_and_part,
    sort_oldest_first,
)

if TYPE_CHECKING:
    from stoker.context import Context

_MAX_LOADS_SEARCHED = 10_000  # loads


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How files are to be read; what is None is told by a file's name."""

    release: str | None = None
    part: str | None = None
    again: bool = False
    force: bool = False


@dataclass(slots=True)
class ImportOutcome:
    """What has been read so far, and what was refused."""

    read: list[LoadResult] = field(default_factory=list)
    refused: list[Mapping[str, str]] = field(default_factory=list)  # `because`, and `reason` if any

    def add_refusal(self, because: str, *, reason: str = "") -> None:
        """Say at once that a file is refused, and remember it."""
        self.refused.append({"because": because} | ({"reason": reason} if reason else {}))
        print_error(because)

    def add_result(self, read: LoadResult | LoadRefusal) -> None:
        """Remember how a file went; one that is refused is said at once."""
        if isinstance(read, LoadRefusal):
            self.add_refusal(read.message, reason=read.reason)
        else:
            self.read.append(read)


async def read_files(
    app: Context,
    names: Sequence[str],
    wanted: ImportOptions,
    outcome: ImportOutcome,
    *,
    directory: Path,
) -> None:
    """Read files by path, address or - for stdin, those of the oldest release first."""
    http = app.get(build_http_client)
    order = sort_oldest_first([_shorten_name(name) for name in names])
    for name in sorted(names, key=lambda name: order.index(_shorten_name(name))):
        with tempfile.TemporaryDirectory() as kept:
            try:
                path = await _fetch_file(http, name, directory=directory, kept=Path(kept))
                await _import_path(app, path, wanted, outcome)
            except PermanentError as error:
                outcome.add_refusal(str(error))


async def read_published(
    app: Context, parts: Sequence[str], wanted: ImportOptions, outcome: ImportOutcome
) -> None:
    """Download the register's files, all or some parts, and read each when it is here.

    A part of this release that was read to its end before is not downloaded.
    """
    from stoker.registry.download import build_portal

    portal = app.get(build_portal)
    published = {each.part: each for each in await portal.list_files()}
    found = choose_downloads(
        {part: each.release for part, each in published.items()},
        wanted=parts,
        loads=await app.backend.registry().list_loads(limit=_MAX_LOADS_SEARCHED),
        again=wanted.again,
    )
    if isinstance(found, LoadRefusal):
        outcome.add_result(found)
        return
    for each in found:
        if isinstance(each, Load):
            outcome.add_result(LoadResult(load=each, is_repeat=True))
            continue
        try:
            await _import_download(app, portal, published[each], wanted, outcome)
        except PermanentError as error:
            outcome.add_refusal(str(error))


async def _import_download(
    app: Context,
    portal: DataGov,
    published: PublishedFile,
    wanted: ImportOptions,
    outcome: ImportOutcome,
) -> None:
    with tempfile.TemporaryDirectory() as kept:
        name = f"ACRA Information on Corporate Entities ('{published.part}').csv"
        await portal.download(published, to=Path(kept) / name)
        meant = ImportOptions(
            release=published.release,
            part=published.part,
            again=wanted.again,
            force=wanted.force,
        )
        await _import_path(app, Path(kept) / name, meant, outcome)


async def _import_path(
    app: Context, path: Path, wanted: ImportOptions, outcome: ImportOutcome
) -> None:
    for file in await asyncio.to_thread(open_register_files, path, part=wanted.part or ""):
        outcome.add_result(await _load_file(app, file, wanted))


async def _load_file(
    app: Context, file: CheckedFile, wanted: ImportOptions
) -> LoadResult | LoadRefusal:
    told = get_release_and_part(file.name, release=wanted.release, part=wanted.part)
    if isinstance(told, LoadRefusal):
        return told
    source = RegistrySource(
        digest=file.digest,
        name=file.name,
        release=told[0],
        part=told[1],
        lines=file.lines,
        rows=file.iter_rows,
    )
    with click.progressbar(
        length=file.lines, label=file.name, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        registering = RegistryLoader(
            app.backend.registry(),
            clock=app.clock,
            observer=_quiet_observer(app.observer),
            progress=lambda rows: bar.update(rows - bar.pos),
        )
        return await registering.load_file(source, again=wanted.again, force=wanted.force)


def _quiet_observer(observer: Observer) -> Observer:
    """Keep the log's line of a file to itself where the summary says the same on one terminal."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        return observer

    def observed(event: Event) -> None:
        if not isinstance(event, RegisterRead):
            observer(event)

    return observed


async def _fetch_file(http: HttpClient, name: str, *, directory: Path, kept: Path) -> Path:
    """Return where a file is on this machine, after bringing it here if it is not."""
    here = kept / _shorten_name(name)
    if name == "-":
        await asyncio.to_thread(_copy_stdin, here)
        return here
    if name.startswith(("http://", "https://")):
        await fetch_file(http, name, to=here)
        return here
    return directory / name


def _copy_stdin(to: Path) -> None:
    try:
        with to.open("wb") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
    except OSError as error:
        raise TransientError(
            f"what is piped in cannot be kept at {to.parent} ({error.strerror}); make room, or "
            "name a file instead"
        ) from error


def _shorten_name(name: str) -> str:
    """Return a file's name as it may be kept: no folders, and no query, which can hold a key."""
    return "stdin" if name == "-" else Path(name.partition("?")[0]).name[:200] or "file"
