"""What a discovery found, as files other programs open: CSV and JSON, named by the run.

Rows stand in the order of their ids and say nothing of when they were found, so the same postings
make the same bytes. Page by page, each file whole or not at all; no cell is taken for a formula.
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import BinaryIO

from stoker.core.cells import cell, page_safe_json
from stoker.core.model import Job, Json
from stoker.core.runs import Run
from stoker.errors import ConfigError
from stoker.ports import RunStore

PAGE = 1000
JOBS = ("id", "source", "url", "title", "company", "location", "posted_at")
SCORED = ("id", "score", "bucket", "role_fit", "stack", "remote", "title", "company", "url")
# A file of a run, or what a killed process left of one.
_OURS = re.compile(
    r"jobs_(?:discovered|scored)_(?P<run>[0-9]{8}_[0-9]{6})\.csv"
    r"|jobs_enriched_(?P<enriched>[0-9]{8}_[0-9]{6})\.json"
    r"|\.jobs_[a-z]+_(?P<left>[0-9]{8}_[0-9]{6})\.(?:csv|json)\.[0-9]+\.tmp"
)


def file_names(run: str, *, enriched: bool) -> tuple[str, ...]:
    """Return the files a run's postings are written to."""
    jobs = f"jobs_discovered_{run}.csv"
    return (jobs, f"jobs_enriched_{run}.json", f"jobs_scored_{run}.csv") if enriched else (jobs,)


class PostingFiles:
    """Writes a run's postings into one directory.

    What is in a directory `of_ours` goes when its run is forgotten; elsewhere it is somebody's own.
    """

    def __init__(self, directory: Path, *, of_ours: bool = True) -> None:
        self.directory = directory
        self._of_ours = of_ours

    def there(self, run: str) -> tuple[Path, ...]:
        """Return the files of a run that are there."""
        named = (self.directory / name for name in file_names(run, enriched=True))
        return tuple(path for path in named if path.exists())

    async def write(self, runs: RunStore, run: Run, *, enriched: bool) -> int:
        """Write the run's files and return how many rows that were. Raises ConfigError."""
        jobs, *more = (self.directory / name for name in file_names(run.name, enriched=enriched))
        rows = await self._jobs(runs, run, jobs)
        if more:
            rows += await self._enriched(runs, run, more[0])
            rows += await self._scored(runs, run, more[1])
        return rows

    async def forget(self, is_forgotten: Callable[[str], bool]) -> tuple[int, str]:
        """Remove the files of the runs that are forgotten; return how many, and what is wrong.

        One that cannot be removed is left there for the next time.
        """
        if not self._of_ours:
            return 0, ""
        return await asyncio.to_thread(_removed, self.directory, is_forgotten)

    async def _jobs(self, runs: RunStore, run: Run, path: Path) -> int:
        rows, after = 0, ""
        async with _new_file(path) as file:
            await asyncio.to_thread(file.write, _csv([JOBS]))
            while page := await runs.jobs(run.at, after=after, limit=PAGE):
                lines = [_cells(_job(job), JOBS) for job in page]
                await asyncio.to_thread(file.write, _csv(lines))
                rows, after = rows + len(page), page[-1].id
        return rows

    async def _enriched(self, runs: RunStore, run: Run, path: Path) -> int:
        rows, after, between = 0, "", "[\n"
        async with _new_file(path) as file:
            while page := await runs.enriched(run.at, after=after, limit=PAGE):
                text = ""
                for each in page:
                    row: Json = {
                        "id": each.job,
                        "title": each.title,
                        "seniority": each.seniority,
                        "stack": list(each.stack),
                        "remote": each.remote,
                    }
                    text, between = text + between + page_safe_json(row), ",\n"
                await asyncio.to_thread(file.write, text.encode())
                rows, after = rows + len(page), page[-1].job
            await asyncio.to_thread(file.write, b"\n]\n" if rows else b"[]\n")
        return rows

    async def _scored(self, runs: RunStore, run: Run, path: Path) -> int:
        rows, after = 0, ""
        async with _new_file(path) as file:
            await asyncio.to_thread(file.write, _csv([SCORED]))
            while page := await runs.scores(run.at, after=after, limit=PAGE):
                # Every posting of a run has its score, so both come in the same pages.
                jobs = await runs.jobs(run.at, after=after, limit=PAGE)
                named = {job.id: job for job in jobs}
                lines = []
                for each in page:
                    row: dict[str, str | float] = {"id": each.job, **each.components}
                    row |= _job(named[each.job]) if each.job in named else {}
                    row |= {"score": each.score, "bucket": each.bucket}
                    lines.append(_cells(row, SCORED))
                await asyncio.to_thread(file.write, _csv(lines))
                rows, after = rows + len(page), page[-1].job
        return rows


def _job(job: Job) -> dict[str, str | float]:
    posted = job.posted_at.astimezone(UTC).isoformat() if job.posted_at else ""
    return {
        "id": job.id,
        "source": job.source,
        "url": job.url,
        "title": job.title,
        "company": job.company,
        "location": job.location,
        "posted_at": posted,
    }


def _cells(row: Mapping[str, str | float], columns: Sequence[str]) -> list[str | float]:
    return [cell(row.get(name, "")) for name in columns]


def _csv(lines: Sequence[Sequence[str | float]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(lines)
    return text.getvalue().encode()


@asynccontextmanager
async def _new_file(path: Path) -> AsyncIterator[BinaryIO]:
    """Lend a stream; when the block ends well, its bytes are durably at the path."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        file = await asyncio.to_thread(_opened, beside)
        try:
            try:
                yield file
                await asyncio.to_thread(_flushed, file)
            finally:
                await asyncio.to_thread(file.close)
            await asyncio.to_thread(beside.replace, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def _removed(directory: Path, is_forgotten: Callable[[str], bool]) -> tuple[int, str]:
    removed, wrong = 0, ""
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return 0, ""
    except OSError as error:
        return 0, f"{directory} cannot be looked through: {error.strerror or error}"
    for path in paths:
        ours = _OURS.fullmatch(path.name)
        if ours is None or not is_forgotten(next(filter(None, ours.groups()))):
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            wrong = wrong or f"{path} cannot be removed: {error.strerror or error}"
        else:
            removed += 1
    return removed, wrong


def _opened(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def _flushed(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
