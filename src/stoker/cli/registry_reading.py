"""Brings files of the register to this machine and has them read, one after the other.

Every file is looked through before anything of it is kept. A file that is refused is complained
about, and does not keep the others from being read.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from stoker.cli.output import complain
from stoker.connectors.acra_files import RegisterFile, register_files
from stoker.connectors.data_gov import DataGov, Published, fetch
from stoker.connectors.http import Http
from stoker.core.acra_numbers import part_named, release_named
from stoker.core.events import Event, RegisterRead
from stoker.engine.registering import INCOMPLETE, Registered, Registering, RegisterSource
from stoker.errors import PermanentError, TransientError
from stoker.ports import Observer
from stoker.wiring import App

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
    refused: list[str] = field(default_factory=list)

    def refuse(self, because: str) -> None:
        """Say at once that a file is refused, and remember it."""
        self.refused.append(because)
        complain(because)


async def read_files(
    app: App, names: Sequence[str], wanted: Wanted, outcome: Outcome, *, directory: Path
) -> None:
    """Read files by path, address or - for stdin, those of the oldest release first."""
    http = app.connectors.http()
    for name in sorted(names, key=lambda name: release_named(_short(name)) or ""):
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
    if missing := [part for part in parts if part not in published]:
        raise PermanentError(f"data.gov.sg has no part {', '.join(missing)} today")
    loads = await app.backend.registry().loads(limit=_LOOKS_BACK)
    ended = {
        (load.release, load.part.removesuffix(INCOMPLETE)): load for load in loads if load.ended_at
    }
    for part in parts or list(published):
        before = ended.get((published[part].release, part))
        if before is not None and not wanted.again:
            outcome.read.append(Registered(load=before, before=True))
            continue
        try:
            await _downloaded(app, portal, published[part], wanted, outcome)
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
        outcome.read.append(await _registered(app, file, wanted))


async def _registered(app: App, file: RegisterFile, wanted: Wanted) -> Registered:
    release = wanted.release or release_named(file.name)
    if release is None:
        raise PermanentError(
            f"which release is {file.name}? say so with --release 2025-12-31, or by a date in its "
            "name; nothing of it was written"
        )
    source = RegisterSource(
        digest=file.digest,
        name=file.name,
        release=release,
        part=wanted.part or part_named(file.name) or file.name,
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
