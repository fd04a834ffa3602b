"""Jobs from files on disk: CSV with a header, or one JSON object to a line.

Read line by line, so size does not matter; a line that makes no sense is set aside with its number.
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import object_in
from stoker.base.types import Json
from stoker.discovery.enrichment import LONGEST_TEXT
from stoker.discovery.model import Postings, RawPosting, taken
from stoker.http.strict_json import read_json

NAME = "file"

A_BATCH = 2_000  # rows

LONGEST_LINE = 1_000_000  # bytes

MOST_COLUMNS = 200

_JSON_LINES = (".jsonl", ".ndjson")

_YES = ("true", "yes", "1", "remote")

_TOO_LONG = b"x" * (csv.field_size_limit() + 1) + b"\n"

# What people call the columns; the first that is there counts.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "url": ("url", "link", "job_url", "apply_url", "absolute_url"),
    "title": ("title", "job_title", "position", "role", "name"),
    "company": ("company", "company_name", "employer", "organisation", "organization"),
    "location": ("location", "city", "place", "country"),
    "posted": ("posted_at", "posted", "date_posted", "published_at", "published", "date"),
    "text": ("description", "text", "content", "summary"),
    "remote": ("remote", "is_remote", "workplace_type"),
}

# Characters that are looked at; a batch of the longest rows there can be still fits into memory.
_LONGEST: Mapping[str, int] = {**dict.fromkeys(_NAMES, 4_000), "text": LONGEST_TEXT}


class Files:
    """Reads files ending in .csv or .jsonl."""

    async def batches(self, path: Path, *, company: str = "") -> AsyncIterator[Postings]:
        """Yield what a file lists, so many rows at a time; a file of any size takes no more room.

        Raises ConfigError when it cannot be read at all.
        """
        with await asyncio.to_thread(_opened, path) as file:
            raws = _raws(path, file)
            while some := await asyncio.to_thread(_next, raws, path):
                yield replace(taken(NAME, some, company=company), requests=0)


def _opened(path: Path) -> BinaryIO:
    if path.suffix.lower() not in (".csv", *_JSON_LINES):
        raise ConfigError(f"{path} is neither .csv nor .jsonl")
    try:
        return path.open("rb")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _raws(path: Path, file: BinaryIO) -> Iterator[RawPosting]:
    return _json_lines(file) if path.suffix.lower() in _JSON_LINES else _csv(file)


def _next(raws: Iterator[RawPosting], path: Path) -> list[RawPosting]:
    try:
        return list(islice(raws, A_BATCH))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _json_lines(file: BinaryIO) -> Iterator[RawPosting]:
    for number, line in _lines(file):
        where = f"line {number}"
        if line is None:
            yield RawPosting(where=where, unreadable=f"it has more than {LONGEST_LINE} bytes")
        elif line.strip():
            try:
                data = read_json(line)
            except PermanentError:
                yield RawPosting(where=where, unreadable="it is no JSON")
                continue
            if isinstance(data, Mapping):
                yield _raw(where, data)
            else:
                yield RawPosting(where=where, unreadable="it is no JSON object")


def _csv(file: BinaryIO) -> Iterator[RawPosting]:
    rows = csv.reader(_texts(file))
    at: dict[str, int] = {}  # where each thing we know stands in a row
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            yield RawPosting(where=f"line {rows.line_num}", unreadable="it is no CSV")
            continue
        if not at:
            header = [_plain(name) for name in row[:MOST_COLUMNS]]
            at = {known: header.index(name) for known in _NAMES if (name := _column(header, known))}
            if not {"url", "title"} <= at.keys():
                raise ConfigError("the file's first line must name a url and a title column")
        elif any(row):
            width = len(row)
            cells = {
                known: row[place][: _LONGEST[known]] for known, place in at.items() if place < width
            }
            remote = cells.pop("remote", "").strip().lower() in _YES
            yield RawPosting(where=f"line {rows.line_num}", remote=remote, **cells)


def _texts(file: BinaryIO) -> Iterator[str]:
    for number, line in _lines(file):
        # What is too long stays too long, so that the reader of rows sets it aside.
        text = (line or _TOO_LONG).decode("utf-8", "replace")
        yield text.removeprefix("\ufeff") if number == 1 else text


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield lines with their numbers; None for one that is too long."""
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield number, line
            continue
        while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass
        yield number, None


def _raw(where: str, fields: Mapping[str, Json]) -> RawPosting:
    plain = {_plain(name): value for name, value in object_in(fields).items()}

    def said(known: str) -> Json:
        column = _column(plain, known)
        return plain[column] if column else None

    def text(known: str) -> str:
        value = said(known)
        return value[: _LONGEST[known]] if isinstance(value, str) else ""

    return RawPosting(
        where=where,
        url=text("url"),
        title=text("title"),
        company=text("company"),
        location=text("location"),
        posted=when if isinstance(when := said("posted"), int | float) else text("posted"),
        text=text("text"),
        remote=said("remote") is True or text("remote").strip().lower() in _YES,
    )


def _column(names: list[str] | Mapping[str, Json], known: str) -> str:
    return next((name for name in _NAMES[known] if name in names), "")


def _plain(name: str) -> str:
    return "_".join(name.strip().lower().replace("-", " ").split())
