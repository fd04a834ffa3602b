"""Export a discovery run's postings as CSV and JSON files, named by the run.

Rows are in id order and carry no time, so the same postings give the same bytes. Files are written
page by page, each whole or not at all; no cell begins like a formula.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC
from pathlib import Path
from typing import BinaryIO

from stoker.base.types import EnrichedJob, Job, JobScore
from stoker.files.durable import create_file_in_thread
from stoker.files.export import Columns, CsvWriter, ExportWriter, JsonWriter, Row
from stoker.runs.json_store import JsonRunStore
from stoker.runs.model import Run
from stoker.runs.store import RunStore

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
                await files.enter_async_context(create_file_in_thread(self.directory / name))
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
