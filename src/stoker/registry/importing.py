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
from stoker.cli.output import complain
from stoker.http.client import Http
from stoker.registry.download import DataGov, Published, fetch
from stoker.registry.files import RegisterFile, register_files
from stoker.registry.load import Registered, Registering, RegisterSource
from stoker.registry.model import Load
from stoker.registry.releases import NotRead, oldest_first, release_and_part, to_download

if TYPE_CHECKING:
    from stoker.app import App

_LOOKS_BACK = 10_000  # loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How files are to be read; what is None is told by a file's name."""

    release: str | None = None
    part: str | None = None
    again: bool = False
    force: bool = False


@dataclass(slots=True)
class Outcome:
    """What has been read so far, and what was refused."""

    read: list[Registered] = field(default_factory=list)
    refused: list[Mapping[str, str]] = field(default_factory=list)  # `because`, and `reason` if any

    def refuse(self, because: str, *, reason: str = "") -> None:
        """Say at once that a file is refused, and remember it."""
        self.refused.append({"because": because} | ({"reason": reason} if reason else {}))
        complain(because)

    def take(self, read: Registered | NotRead) -> None:
        """Remember how a file went; one that is refused is said at once."""
        if isinstance(read, NotRead):
            self.refuse(read.sentence, reason=read.reason)
        else:
            self.read.append(read)


async def read_files(
    app: App, names: Sequence[str], wanted: Wanted, outcome: Outcome, *, directory: Path
) -> None:
    """Read files by path, address or - for stdin, those of the oldest release first."""
    http = app.connectors.http()
    order = oldest_first([_short(name) for name in names])
    for name in sorted(names, key=lambda name: order.index(_short(name))):
        with tempfile.TemporaryDirectory() as kept:
            try:
                path = await _there(http, name, directory=directory, kept=Path(kept))
                await _read(app, path, wanted, outcome)
            except PermanentError as error:
                outcome.refuse(str(error))


async def read_published(app: App, parts: Sequence[str], wanted: Wanted, outcome: Outcome) -> None:
    """Download the register's files, all or some parts, and read each when it is here.

    A part of this release that was read to its end before is not downloaded.
    """
    portal = app.connectors.portal()
    published = {each.part: each for each in await portal.files()}
    found = to_download(
        {part: each.release for part, each in published.items()},
        wanted=parts,
        loads=await app.backend.registry().loads(limit=_LOOKS_BACK),
        again=wanted.again,
    )
    if isinstance(found, NotRead):
        outcome.take(found)
        return
    for each in found:
        if isinstance(each, Load):
            outcome.take(Registered(load=each, before=True))
            continue
        try:
            await _downloaded(app, portal, published[each], wanted, outcome)
        except PermanentError as error:
            outcome.refuse(str(error))


async def _downloaded(
    app: App, portal: DataGov, published: Published, wanted: Wanted, outcome: Outcome
) -> None:
    with tempfile.TemporaryDirectory() as kept:
        name = f"ACRA Information on Corporate Entities ('{published.part}').csv"
        await portal.download(published, to=Path(kept) / name)
        meant = Wanted(
            release=published.release,
            part=published.part,
            again=wanted.again,
            force=wanted.force,
        )
        await _read(app, Path(kept) / name, meant, outcome)


async def _read(app: App, path: Path, wanted: Wanted, outcome: Outcome) -> None:
    for file in await asyncio.to_thread(register_files, path, part=wanted.part or ""):
        outcome.take(await _registered(app, file, wanted))


async def _registered(app: App, file: RegisterFile, wanted: Wanted) -> Registered | NotRead:
    told = release_and_part(file.name, release=wanted.release, part=wanted.part)
    if isinstance(told, NotRead):
        return told
    source = RegisterSource(
        digest=file.digest,
        name=file.name,
        release=told[0],
        part=told[1],
        lines=file.lines,
        rows=file.rows,
    )
    with click.progressbar(
        length=file.lines, label=file.name, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        registering = Registering(
            app.backend.registry(),
            clock=app.clock,
            observer=_unless_told(app.observer),
            progress=lambda rows: bar.update(rows - bar.pos),
        )
        return await registering.read(source, again=wanted.again, force=wanted.force)


def _unless_told(observer: Observer) -> Observer:
    """Keep the log's line of a file to itself where the summary says the same on one terminal."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        return observer

    def observed(event: Event) -> None:
        if not isinstance(event, RegisterRead):
            observer(event)

    return observed


async def _there(http: Http, name: str, *, directory: Path, kept: Path) -> Path:
    """Return where a file is on this machine, after bringing it here if it is not."""
    here = kept / _short(name)
    if name == "-":
        await asyncio.to_thread(_piped, here)
        return here
    if name.startswith(("http://", "https://")):
        await fetch(http, name, to=here)
        return here
    return directory / name


def _piped(to: Path) -> None:
    try:
        with to.open("wb") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
    except OSError as error:
        raise TransientError(
            f"what is piped in cannot be kept at {to.parent} ({error.strerror}); make room, or "
            "name a file instead"
        ) from error


def _short(name: str) -> str:
    """Return a file's name as it may be kept: no folders, and no query, which can hold a key."""
    return "stdin" if name == "-" else Path(name.partition("?")[0]).name[:200] or "file"
