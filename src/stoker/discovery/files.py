"""Read jobs from files, and export a discovery run's postings to files named by the run.

Files are read line by line, so size does not matter; a bad line is rejected with its number. They
are written page by page, each whole or not at all, in id order and without times, so the same
postings give the same bytes; no cell begins like a formula.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError
from stoker.base.types import EnrichedJob, Job, JobScore
from stoker.discovery.enrichment import MAX_TEXT_LENGTH
from stoker.discovery.model import BATCH_SIZE, Postings, RawPosting, parse_postings
from stoker.files.durable import open_output_in_thread
from stoker.files.export import Columns, CsvWriter, ExportWriter, JsonWriter, Row
from stoker.files.tables import JSON_LINES_SUFFIXES, TableLimits, TableRow, read_table
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
        while batch := await asyncio.to_thread(_read_batch, rows, company):
            yield batch


def _read_batch(rows: Iterator[RawPosting], company: str) -> Postings | None:
    some = list(islice(rows, BATCH_SIZE))
    return replace(parse_postings(NAME, some, company=company), requests=0) if some else None


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


PAGE_SIZE = 1000
JOB_COLUMNS = ("id", "source", "url", "title", "company", "location", "posted_at")
SCORE_PARTS = ("role_fit", "stack", "remote")
SCORE_COLUMNS = ("id", "score", "bucket", *SCORE_PARTS, "title", "company", "url")
_FORMATS: tuple[tuple[Callable[[BinaryIO, Columns], ExportWriter], Columns], ...] = (
    (CsvWriter, dict.fromkeys(JOB_COLUMNS, str)),
    (JsonWriter, {}),
    (CsvWriter, dict.fromkeys(SCORE_COLUMNS, str)),
)

# A file of a run, or what a killed process left of one.
_OUR_FILE = re.compile(
    r"jobs_(?:discovered|scored)_(?P<run>[0-9]{8}_[0-9]{6})\.csv"
    r"|jobs_enriched_(?P<enriched>[0-9]{8}_[0-9]{6})\.json"
    r"|\.jobs_[a-z]+_(?P<left>[0-9]{8}_[0-9]{6})\.(?:csv|json)\.[0-9]+\.tmp"
)


def list_file_names(run: str, *, enriched: bool) -> tuple[str, ...]:
    jobs = f"jobs_discovered_{run}.csv"
    return (jobs, f"jobs_enriched_{run}.json", f"jobs_scored_{run}.csv") if enriched else (jobs,)


class PostingFiles:
    """Writes a run's postings into one directory.

    Files in a directory `of_ours` are deleted with their run; elsewhere they belong to the user.
    """

    def __init__(self, directory: Path, *, of_ours: bool = True) -> None:
        self.directory = directory
        self._managed = of_ours

    def list_existing(self, run: str) -> tuple[Path, ...]:
        named = (self.directory / name for name in list_file_names(run, enriched=True))
        return tuple(path for path in named if path.exists())

    async def write(self, runs: RunStore | JsonRunStore, run: Run, *, enriched: bool) -> int:
        """Write the run's files and return how many rows that were. Raises ConfigError."""
        rows, after = 0, ""
        async with AsyncExitStack() as files:
            streams = [
                await files.enter_async_context(open_output_in_thread(self.directory / name))
                for name in list_file_names(run.name, enriched=enriched)
            ]
            writers = [
                make(stream, columns)
                for stream, (make, columns) in zip(streams, _FORMATS, strict=False)
            ]
            while page := await runs.list_jobs(run.at, after=after, limit=PAGE_SIZE):
                tables = [[_job_to_row(job) for job in page]]
                if enriched:
                    # Only postings are enriched and scored, so their page reaches as far.
                    says = await runs.list_enriched(run.at, after=after, limit=PAGE_SIZE)
                    scores = await runs.list_scores(run.at, after=after, limit=PAGE_SIZE)
                    jobs = {job.id: job for job in page}
                    tables.append([_enriched_to_row(each) for each in says if each.job in jobs])
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

    async def delete_files(self, is_forgotten: Callable[[str], bool]) -> tuple[int, str]:
        """Remove the files of the runs that are forgotten; return how many, and what is wrong.

        One that cannot be removed is left there for the next time.
        """
        if not self._managed:
            return 0, ""
        return await asyncio.to_thread(_delete_files, self.directory, is_forgotten)


def _job_to_row(job: Job) -> Row:
    row = {name: getattr(job, name) for name in JOB_COLUMNS}
    return row | {"posted_at": job.posted_at.astimezone(UTC) if job.posted_at else None}


def _enriched_to_row(enriched: EnrichedJob) -> Row:
    return {
        "id": enriched.job,
        "title": enriched.title,
        "seniority": enriched.seniority,
        "stack": list(enriched.stack),
        "remote": enriched.remote,
    }


def _score_to_row(score: JobScore, job: Job) -> Row:
    parts = {name: score.components.get(name) for name in SCORE_PARTS}
    shown = {"title": job.title, "company": job.company, "url": job.url}
    return {"id": score.job, "score": score.score, "bucket": score.bucket, **parts, **shown}


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
