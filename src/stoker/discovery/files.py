"""Read jobs from files, and export a discovery run's postings to files named by the run.

Files are read line by line, so size does not matter; a bad line is rejected with its number. They
are written page by page, each whole or not at all, in id order and without times, so the same
postings give the same bytes; no cell begins like a formula.
"""

from __future__ import annotations

import asyncio
import csv
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError
from stoker.base.jsontools import compact_json
from stoker.base.text import to_html_safe_json
from stoker.base.types import EnrichedJob, Job, JobScore, Json
from stoker.discovery.enrichment import MAX_TEXT_LENGTH, list_role_tags
from stoker.discovery.model import BATCH_SIZE, Postings, RawPosting, parse_postings
from stoker.files.durable import open_output_in_thread
from stoker.files.export import CsvWriter, ExportWriter, Row
from stoker.files.tables import (
    JSON_LINES_SUFFIXES,
    ColumnUse,
    TableLimits,
    TableRow,
    read_table,
)
from stoker.runs.json_store import JsonRunStore
from stoker.runs.model import Run
from stoker.runs.store import RunStore

NAME = "file"
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
    "posted": (
        "posted_at",
        "posted_date",
        "posted",
        "date_posted",
        "published_at",
        "published",
        "date",
    ),
    "source": ("source", "found_at"),
    "text": ("description", "text", "content", "summary"),
    "remote": ("remote", "is_remote", "workplace_type"),
}

# Characters that are looked at; a batch of the longest rows there can be still fits into memory.
_MAX_LENGTHS: Mapping[str, int] = {**dict.fromkeys(_COLUMN_NAMES, 4_000), "text": MAX_TEXT_LENGTH}


async def read_job_file(path: Path, *, company: str = "") -> AsyncIterator[Postings]:
    """Yield what a file lists, so many rows at a time; a file of any size takes no more room.

    Raises ConfigError when it cannot be read at all.
    """
    seen: list[ColumnUse] = []
    with closing(_read_rows(path, seen.append)) as rows:
        while batch := await asyncio.to_thread(_read_batch, rows, company):
            has_unused = bool(seen and seen[-1].unused)
            yield replace(batch, columns=seen[-1].format_text() if has_unused else "")


def _read_batch(rows: Iterator[RawPosting], company: str) -> Postings | None:
    some = list(islice(rows, BATCH_SIZE))
    return replace(parse_postings(NAME, some, company=company), requests=0) if some else None


def _read_rows(path: Path, on_columns: Callable[[ColumnUse], None]) -> Generator[RawPosting]:
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
                on_columns=on_columns,
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
        source=texts.get("source", ""),
        text=texts.get("text", ""),
        remote=remote is True or texts.get("remote", "").strip().lower() in _TRUE_WORDS,
    )


PAGE_SIZE = 1000
# What scripts read; the others only when they are asked for.
JOB_COLUMNS = ("title", "location", "company", "source", "url", "posted_date")
MORE_JOB_COLUMNS = ("id", "posted_at")
SCORE_PARTS = ("role_fit", "stack", "remote")
SCORE_COLUMNS = (*JOB_COLUMNS, "score", "bucket")
MORE_SCORE_COLUMNS = ("id", *SCORE_PARTS)


class _PlainCsvWriter(CsvWriter):
    quoting = csv.QUOTE_MINIMAL


class _CompactJsonWriter:
    """One JSON array without spaces or lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._between = stream, b"["

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._stream.write(self._between + to_html_safe_json(row).encode())  # type: ignore[arg-type]  # no moments in it
            self._between = b","

    def close(self) -> None:
        self._stream.write(b"[]" if self._between == b"[" else b"]")


# A file of a run, or what a killed process left of one.
_OUR_FILE = re.compile(
    r"jobs_(?:discovered|scored)_(?P<run>[0-9]{8}_[0-9]{6})\.csv"
    r"|jobs_enriched_(?P<enriched>[0-9]{8}_[0-9]{6})\.json"
    r"|jobs_discovered_(?P<summary>[0-9]{8}_[0-9]{6})\.summary\.json"
    r"|\.jobs_[a-z]+_(?P<left>[0-9]{8}_[0-9]{6})\.(?:csv|json|summary\.json)\.[0-9]+\.tmp"
)


def list_file_names(run: str, *, enriched: bool) -> tuple[str, ...]:
    jobs = f"jobs_discovered_{run}.csv"
    return (jobs, f"jobs_enriched_{run}.json", f"jobs_scored_{run}.csv") if enriched else (jobs,)


def get_summary_name(run: str) -> str:
    return f"jobs_discovered_{run}.summary.json"


class PostingFiles:
    """Writes a run's postings and its summary into one directory, or the summary alone.

    Files in a directory `of_ours` are deleted with their run; elsewhere they belong to the user.
    `roles` are those that titles are searched for.
    """

    def __init__(
        self,
        directory: Path,
        *,
        of_ours: bool = True,
        roles: Sequence[str] = (),
        all_columns: bool = False,
        summary_only: bool = False,
    ) -> None:
        self.directory = directory
        self._managed = of_ours
        self._roles, self._all_columns, self._summary_only = roles, all_columns, summary_only

    def list_existing(self, run: str) -> tuple[Path, ...]:
        names = (*list_file_names(run, enriched=True), get_summary_name(run))
        return tuple(path for name in names if (path := self.directory / name).exists())

    async def write_summary(self, run: Run, summary: Mapping[str, Json]) -> None:
        """Write what a run came to. Raises ConfigError."""
        text = compact_json(dict(summary)).encode()
        async with open_output_in_thread(self.directory / get_summary_name(run.name)) as stream:
            await asyncio.to_thread(stream.write, text)

    async def write(self, runs: RunStore | JsonRunStore, run: Run, *, enriched: bool) -> int:
        """Write the run's files and return how many rows that were. Raises ConfigError."""
        rows, after = 0, ""
        if self._summary_only:
            return rows
        async with AsyncExitStack() as files:
            streams = [
                await files.enter_async_context(open_output_in_thread(self.directory / name))
                for name in list_file_names(run.name, enriched=enriched)
            ]
            writers = [
                make(stream) for make, stream in zip(self._list_writers(), streams, strict=False)
            ]
            while page := await runs.list_jobs(run.at, after=after, limit=PAGE_SIZE):
                tables = [[_job_to_row(job) for job in page]]
                if enriched:
                    # Only postings are enriched and scored, so their page reaches as far.
                    says = await runs.list_enriched(run.at, after=after, limit=PAGE_SIZE)
                    scores = await runs.list_scores(run.at, after=after, limit=PAGE_SIZE)
                    jobs = {job.id: job for job in page}
                    tables.append(
                        [self._to_row(each, jobs[each.job]) for each in says if each.job in jobs]
                    )
                    tables.append(
                        [_score_to_row(each, jobs[each.job]) for each in scores if each.job in jobs]
                    )
                for writer, table in zip(writers, tables, strict=True):
                    await asyncio.to_thread(writer.add, table)
                    rows += len(table)
                after = page[-1].id
            for writer in writers:
                await asyncio.to_thread(writer.close)
        return rows

    def _list_writers(self) -> Iterator[Callable[[BinaryIO], ExportWriter]]:
        more = self._all_columns
        jobs = (*JOB_COLUMNS, *(MORE_JOB_COLUMNS if more else ()))
        scores = (*SCORE_COLUMNS, *(MORE_SCORE_COLUMNS if more else ()))
        yield lambda stream: _PlainCsvWriter(stream, dict.fromkeys(jobs, str))
        yield _CompactJsonWriter
        yield lambda stream: _PlainCsvWriter(stream, dict.fromkeys(scores, str))

    def _to_row(self, enriched: EnrichedJob, job: Job) -> Row:
        return {
            **{name: value for name, value in _job_to_row(job).items() if name in JOB_COLUMNS},
            "normalized_title": enriched.title,
            "seniority": enriched.seniority,
            "stack_tags": list(enriched.stack),
            "role_tags": list_role_tags(enriched.title, self._roles),
            "remote_friendly": enriched.remote,
            **({"id": enriched.job} if self._all_columns else {}),
        }

    async def delete_files(self, is_forgotten: Callable[[str], bool]) -> tuple[int, str]:
        """Remove the files of the runs that are forgotten; return how many, and what is wrong.

        One that cannot be removed is left there for the next time.
        """
        if not self._managed:
            return 0, ""
        return await asyncio.to_thread(_delete_files, self.directory, is_forgotten)


def _job_to_row(job: Job) -> Row:
    at = job.posted_at.astimezone(UTC) if job.posted_at else None
    return {
        "title": job.title,
        "location": job.location,
        "company": job.company,
        "source": job.source,
        "url": job.url,
        "posted_date": f"{at:%Y-%m-%d}" if at else "",
        "id": job.id,
        "posted_at": at,
    }


def _score_to_row(score: JobScore, job: Job) -> Row:
    parts = {name: score.components.get(name) for name in SCORE_PARTS}
    return {**_job_to_row(job), "score": score.score, "bucket": score.bucket, **parts}


def _delete_files(directory: Path, is_forgotten: Callable[[str], bool]) -> tuple[int, str]:
    removed, wrong = 0, ""
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return 0, ""
    except OSError as error:
        return 0, f"{directory} cannot be looked through: {error.strerror or error}"
    for path in paths:
        ours = _OUR_FILE.fullmatch(path.name)
        if ours is None or not is_forgotten(next(filter(None, ours.groups()))):
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            wrong = wrong or f"{path} cannot be removed: {error.strerror or error}"
        else:
            removed += 1
    return removed, wrong
