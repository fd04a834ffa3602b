"""Read jobs from files on disk: CSV with a header, or one JSON object per line.

Reads line by line, so size does not matter; a bad line is rejected with its number.
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
from stoker.base.jsontools import get_object
from stoker.base.types import Json
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.model import Postings, RawPosting, parse_postings
from stoker.http.strict_json import parse_json

NAME = "file"

BATCH_SIZE = 2_000  # rows

MAX_LINE_BYTES = 1_000_000  # bytes

MAX_COLUMNS = 200

_JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")

_TRUE_WORDS = ("true", "yes", "1", "remote")

_TOO_LONG_LINE = b"x" * (csv.field_size_limit() + 1) + b"\n"

# What people call the columns; the first that is there counts.
_COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "url": ("url", "link", "job_url", "apply_url", "absolute_url"),
    "title": ("title", "job_title", "position", "role", "name"),
    "company": ("company", "company_name", "employer", "organisation", "organization"),
    "location": ("location", "city", "place", "country"),
    "posted": ("posted_at", "posted", "date_posted", "published_at", "published", "date"),
    "text": ("description", "text", "content", "summary"),
    "remote": ("remote", "is_remote", "workplace_type"),
}

# Characters that are looked at; a batch of the longest rows there can be still fits into memory.
_MAX_LENGTHS: Mapping[str, int] = {**dict.fromkeys(_COLUMN_NAMES, 4_000), "text": MAX_TEXT_LENGTH}


class JobFiles:
    """Reads files ending in .csv or .jsonl."""

    async def read_batches(self, path: Path, *, company: str = "") -> AsyncIterator[Postings]:
        """Yield what a file lists, so many rows at a time; a file of any size takes no more room.

        Raises ConfigError when it cannot be read at all.
        """
        with await asyncio.to_thread(_open_file, path) as file:
            raws = _read_rows(path, file)
            while some := await asyncio.to_thread(_read_batch, raws, path):
                yield replace(parse_postings(NAME, some, company=company), requests=0)


def _open_file(path: Path) -> BinaryIO:
    if path.suffix.lower() not in (".csv", *_JSON_LINES_SUFFIXES):
        raise ConfigError(f"{path} is neither .csv nor .jsonl")
    try:
        return path.open("rb")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _read_rows(path: Path, file: BinaryIO) -> Iterator[RawPosting]:
    return (
        _read_json_lines(file) if path.suffix.lower() in _JSON_LINES_SUFFIXES else _read_csv(file)
    )


def _read_batch(raws: Iterator[RawPosting], path: Path) -> list[RawPosting]:
    try:
        return list(islice(raws, BATCH_SIZE))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _read_json_lines(file: BinaryIO) -> Iterator[RawPosting]:
    for number, line in _read_lines(file):
        where = f"line {number}"
        if line is None:
            yield RawPosting(where=where, parse_error=f"it has more than {MAX_LINE_BYTES} bytes")
        elif line.strip():
            try:
                data = parse_json(line)
            except PermanentError:
                yield RawPosting(where=where, parse_error="it is no JSON")
                continue
            if isinstance(data, Mapping):
                yield _parse_row(where, data)
            else:
                yield RawPosting(where=where, parse_error="it is no JSON object")


def _read_csv(file: BinaryIO) -> Iterator[RawPosting]:
    rows = csv.reader(_decode_lines(file))
    at: dict[str, int] = {}  # where each thing we know stands in a row
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            yield RawPosting(where=f"line {rows.line_num}", parse_error="it is no CSV")
            continue
        if not at:
            header = [_normalize_name(name) for name in row[:MAX_COLUMNS]]
            at = {
                known: header.index(name)
                for known in _COLUMN_NAMES
                if (name := _find_column(header, known))
            }
            if not {"url", "title"} <= at.keys():
                raise ConfigError("the file's first line must name a url and a title column")
        elif any(row):
            width = len(row)
            cells = {
                known: row[place][: _MAX_LENGTHS[known]]
                for known, place in at.items()
                if place < width
            }
            remote = cells.pop("remote", "").strip().lower() in _TRUE_WORDS
            yield RawPosting(where=f"line {rows.line_num}", remote=remote, **cells)


def _decode_lines(file: BinaryIO) -> Iterator[str]:
    for number, line in _read_lines(file):
        # What is too long stays too long, so that the reader of rows sets it aside.
        text = (line or _TOO_LONG_LINE).decode("utf-8", "replace")
        yield text.removeprefix("\ufeff") if number == 1 else text


def _read_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield lines with their numbers; None for one that is too long."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
            yield number, line
            continue
        while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
            pass
        yield number, None


def _parse_row(where: str, fields: Mapping[str, Json]) -> RawPosting:
    plain = {_normalize_name(name): value for name, value in get_object(fields).items()}

    def get_value(known: str) -> Json:
        column = _find_column(plain, known)
        return plain[column] if column else None

    def text(known: str) -> str:
        value = get_value(known)
        return value[: _MAX_LENGTHS[known]] if isinstance(value, str) else ""

    return RawPosting(
        where=where,
        url=text("url"),
        title=text("title"),
        company=text("company"),
        location=text("location"),
        posted=when if isinstance(when := get_value("posted"), int | float) else text("posted"),
        text=text("text"),
        remote=get_value("remote") is True or text("remote").strip().lower() in _TRUE_WORDS,
    )


def _find_column(names: list[str] | Mapping[str, Json], known: str) -> str:
    return next((name for name in _COLUMN_NAMES[known] if name in names), "")


def _normalize_name(name: str) -> str:
    return "_".join(name.strip().lower().replace("-", " ").split())
