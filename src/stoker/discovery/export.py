"""Export a discovery run's postings as CSV and JSON files, named by the run.

Rows are in id order and carry no time, so the same postings give the same bytes. Files are written
page by page, each whole or not at all; no cell begins like a formula.
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError
from stoker.base.text import escape_cell, to_html_safe_json
from stoker.base.types import EnrichedJob, Job, JobScore, Json
from stoker.runs.model import Run, RunStore

PAGE_SIZE = 1000

JOB_COLUMNS = ("id", "source", "url", "title", "company", "location", "posted_at")

SCORE_PARTS = ("role_fit", "stack", "remote")

SCORE_COLUMNS = ("id", "score", "bucket", *SCORE_PARTS, "title", "company", "url")

# A file of a run, or what a killed process left of one.
_OUR_FILE = re.compile(
    r"jobs_(?:discovered|scored)_(?P<run>[0-9]{8}_[0-9]{6})\.csv"
    r"|jobs_enriched_(?P<enriched>[0-9]{8}_[0-9]{6})\.json"
    r"|\.jobs_[a-z]+_(?P<left>[0-9]{8}_[0-9]{6})\.(?:csv|json)\.[0-9]+\.tmp"
)


def list_file_names(run: str, *, enriched: bool) -> tuple[str, ...]:
    """Return the files a run's postings are written to."""
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
        """Return the files of a run that are there."""
        named = (self.directory / name for name in list_file_names(run, enriched=True))
        return tuple(path for path in named if path.exists())

    async def write(self, runs: RunStore, run: Run, *, enriched: bool) -> int:
        """Write the run's files and return how many rows that were. Raises ConfigError."""
        rows, enriched_rows, after = 0, 0, ""
        async with AsyncExitStack() as files:
            jobs, *more = [
                await files.enter_async_context(_open_new_file(self.directory / name))
                for name in list_file_names(run.name, enriched=enriched)
            ]
            await asyncio.to_thread(jobs.write, _to_csv([JOB_COLUMNS]))
            for also in more:
                await asyncio.to_thread(
                    also.write, b"[" if also is more[0] else _to_csv([SCORE_COLUMNS])
                )
            while page := await runs.list_jobs(run.at, after=after, limit=PAGE_SIZE):
                await asyncio.to_thread(jobs.write, _to_csv([_job_to_row(job) for job in page]))
                rows += len(page)
                if more:
                    enriched_rows += await _write_enriched(
                        runs, run, page, more[0], after=after, more=bool(enriched_rows)
                    )
                    rows += await _write_scores(runs, run, page, more[1], after=after)
                after = page[-1].id
            if more:
                await asyncio.to_thread(more[0].write, b"\n]\n" if enriched_rows else b"]\n")
        return rows + enriched_rows

    async def delete_files(self, is_forgotten: Callable[[str], bool]) -> tuple[int, str]:
        """Remove the files of the runs that are forgotten; return how many, and what is wrong.

        One that cannot be removed is left there for the next time.
        """
        if not self._managed:
            return 0, ""
        return await asyncio.to_thread(_delete_files, self.directory, is_forgotten)


# Only postings are enriched and scored, so a page of these reaches as far as one of postings.
async def _write_enriched(
    runs: RunStore, run: Run, page: Sequence[Job], file: BinaryIO, *, after: str, more: bool
) -> int:
    there = {job.id for job in page}
    found = await runs.list_enriched(run.at, after=after, limit=PAGE_SIZE)
    rows = [to_html_safe_json(_enriched_to_json(each)) for each in found if each.job in there]
    if rows:
        text = (",\n" if more else "\n") + ",\n".join(rows)
        await asyncio.to_thread(file.write, text.encode())
    return len(rows)


async def _write_scores(
    runs: RunStore, run: Run, page: Sequence[Job], file: BinaryIO, *, after: str
) -> int:
    jobs = {job.id: job for job in page}
    found = await runs.list_scores(run.at, after=after, limit=PAGE_SIZE)
    lines = [_score_to_row(each, jobs[each.job]) for each in found if each.job in jobs]
    await asyncio.to_thread(file.write, _to_csv(lines))
    return len(lines)


def _job_to_row(job: Job) -> tuple[str | float, ...]:
    posted = job.posted_at.astimezone(UTC).isoformat() if job.posted_at else ""
    texts = (job.source, job.url, job.title, job.company, job.location)
    return (escape_cell(job.id), *map(escape_cell, texts), posted)


def _enriched_to_json(enriched: EnrichedJob) -> Json:
    return {
        "id": enriched.job,
        "title": enriched.title,
        "seniority": enriched.seniority,
        "stack": list(enriched.stack),
        "remote": enriched.remote,
    }


def _score_to_row(score: JobScore, job: Job) -> tuple[str | float, ...]:
    parts = [score.components.get(name, "") for name in SCORE_PARTS]
    texts = (job.title, job.company, job.url)
    return (
        escape_cell(score.job),
        score.score,
        escape_cell(score.bucket),
        *parts,
        *map(escape_cell, texts),
    )


def _to_csv(lines: Sequence[Sequence[str | float]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(lines)
    return text.getvalue().encode()


@asynccontextmanager
async def _open_new_file(path: Path) -> AsyncIterator[BinaryIO]:
    """Lend a stream; when the block ends well, its bytes are durably at the path."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        file = await asyncio.to_thread(_open_for_writing, beside)
        try:
            try:
                yield file
                await asyncio.to_thread(_flush_to_disk, file)
            finally:
                await asyncio.to_thread(file.close)
            await asyncio.to_thread(beside.replace, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


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


def _open_for_writing(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def _flush_to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
