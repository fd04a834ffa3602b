"""Read jobs from files on disk: CSV with a header, or one JSON object per line.

Reads line by line, so size does not matter; a bad line is rejected with its number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

from stoker.base.errors import ConfigError
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.model import Postings, RawPosting, parse_postings
from stoker.files.tables import JSON_LINES_SUFFIXES, TableLimits, TableRow, read_table

NAME = "file"
BATCH_SIZE = 2_000  # rows
MAX_LINE_BYTES = 1_000_000
FILE_SUFFIXES = (".csv", *JSON_LINES_SUFFIXES)
# A description goes over many lines, and exports of them care little for cells and bytes.
_LIMITS = TableLimits(line_bytes=MAX_LINE_BYTES, record_lines=500, strict=False)
_TRUE_WORDS = ("true", "yes", "1", "remote")

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


async def read_job_file(path: Path, *, company: str = "") -> AsyncIterator[Postings]:
    """Yield what a file lists, so many rows at a time; a file of any size takes no more room.

    Raises ConfigError when it cannot be read at all.
    """
    with closing(_read_rows(path)) as rows:
        while some := await asyncio.to_thread(lambda: list(islice(rows, BATCH_SIZE))):
            yield replace(parse_postings(NAME, some, company=company), requests=0)


def _read_rows(path: Path) -> Generator[RawPosting]:
    if path.suffix.lower() not in FILE_SUFFIXES:
        raise ConfigError(f"{path} is neither .csv nor .jsonl")
    try:
        with path.open("rb") as file:
            if not file.peek(1):
                return  # nothing is open today
            json_lines = path.suffix.lower() in JSON_LINES_SUFFIXES
            rows = read_table(
                file,
                _COLUMN_NAMES,
                required=("url", "title"),
                json_lines=json_lines,
                limits=_LIMITS,
            )
            yield from map(_parse_row, rows)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _parse_row(row: TableRow) -> RawPosting:
    where = f"line {row.line}"
    if row.wrong:
        return RawPosting(where=where, parse_error=row.wrong)
    texts = {
        name: value[: _MAX_LENGTHS[name]]
        for name, value in row.cells.items()
        if isinstance(value, str)
    }
    remote, posted = row.cells.get("remote"), row.cells.get("posted")
    return RawPosting(
        where=where,
        url=texts.get("url", ""),
        title=texts.get("title", ""),
        company=texts.get("company", ""),
        location=texts.get("location", ""),
        posted=posted if isinstance(posted, int | float) else texts.get("posted", ""),
        text=texts.get("text", ""),
        remote=remote is True or texts.get("remote", "").strip().lower() in _TRUE_WORDS,
    )
