"""One artifact of one run, found by its postings' ids.

The file is in the order things were found; an id's place in it is remembered, so that a page in
id order costs one look at each of its records and adding costs nothing for what is there already.

How postings, what enrichment made of them and their scores are written as JSON records.

Keys are the fields' names. Reading back is strict, so that a record somebody edited by hand is
either understood or refused.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from stoker.base.errors import PermanentError
from stoker.base.types import Enriched, Job, JobId, JobScore, Json, in_utc
from stoker.db.codec import kept_enriched, kept_job, kept_score
from stoker.files.durable import Disk, meaning
from stoker.runs.json_files import Record, refuse_changed
from stoker.runs.json_lines import ChainedLines, Row

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape(Generic[Value]):
    """One kind of record: where it is kept, what names it, and the way there and back."""

    artifact: str
    id: str  # the key that holds the posting's id
    kept: Callable[[Value], Value]
    record: Callable[[Value], dict[str, Json]]
    value: Callable[[Mapping[str, Any]], Value]


def _job_record(job: Job) -> dict[str, Json]:
    return {
        "id": job.id,
        "source": job.source,
        "url": job.url,
        "title": job.title,
        "company": job.company,
        "location": job.location,
        "posted_at": None if job.posted_at is None else in_utc(job.posted_at).isoformat(),
    }


def _job(record: Mapping[str, Any]) -> Job:
    posted = record["posted_at"]
    posted_at = None if posted is None else in_utc(datetime.fromisoformat(posted))
    return Job(**{**record, "posted_at": posted_at})


def _enriched_record(enriched: Enriched) -> dict[str, Json]:
    return {
        "job": enriched.job,
        "title": enriched.title,
        "seniority": enriched.seniority,
        "stack": list(enriched.stack),
        "remote": enriched.remote,
    }


def _enriched(record: Mapping[str, Any]) -> Enriched:
    return Enriched(**{**record, "stack": tuple(record["stack"])})


def _score_record(score: JobScore) -> dict[str, Json]:
    return {
        "job": score.job,
        "score": score.score,
        "bucket": score.bucket,
        "components": dict(score.components),
    }


def _score(record: Mapping[str, Any]) -> JobScore:
    return JobScore(**{**record, "job": JobId(record["job"])})


JOBS = Shape(artifact="jobs", id="id", kept=kept_job, record=_job_record, value=_job)

ENRICHED = Shape(
    artifact="enriched", id="job", kept=kept_enriched, record=_enriched_record, value=_enriched
)

SCORES = Shape(artifact="scores", id="job", kept=kept_score, record=_score_record, value=_score)


class KeyedLines(Generic[Value]):
    """A file of records of one shape, each id once. Threads may share it."""

    def __init__(self, path: Path, shape: Shape[Value]) -> None:
        self._lines = ChainedLines(path)
        self._shape = shape
        self._places: dict[str, tuple[int, int]] = {}
        self._sorted: list[str] = []
        self._anew = 0
        self._lock = threading.Lock()

    def ids(self) -> Container[str]:
        """Return the ids that are there now."""
        with self._lock:
            self._catch_up()
            return self._places

    def page(self, record: Record, *, after: str, limit: int) -> list[Value]:
        """Return values in id order; ConfigError when the file is not as its ended run left it."""
        with self._lock:
            self._catch_up()
            refuse_changed(self._lines, record.artifacts.get(self._shape.artifact))
            if len(self._sorted) != len(self._places):
                self._sorted = sorted(self._places)
            start = bisect_right(self._sorted, after)
            places = [self._places[key] for key in self._sorted[start:][:limit]]
        return self._read(places)

    def add(self, values: Iterable[Value], *, known: Container[str] | None, disk: Disk) -> int:
        """Add what is new as one batch; return how much was.

        PermanentError, and nothing is written, when a value's id is not among the known ones.
        The caller is the only writer.
        """
        shape = self._shape
        with self._lock:
            self._catch_up()
            if self._lines.torn:
                self._lines.mend(disk=disk)
            new: dict[str, dict[str, Json]] = {}
            for record in map(shape.record, values):
                job = str(record[shape.id])
                if known is not None and job not in known:
                    raise PermanentError(f"this run has no posting {job}; nothing was written")
                if job not in self._places:
                    new.setdefault(job, record)
            if new:
                rows = self._lines.append(list(new.values()), disk=disk)
                self._remember(zip(new, rows, strict=True))
            return len(new)

    def _catch_up(self) -> None:
        for row in self._lines.news():
            self._start_anew_if_needed()
            self._remember([(str(json.loads(row.line)[self._shape.id]), row)])
        self._start_anew_if_needed()

    def _start_anew_if_needed(self) -> None:
        if self._anew != self._lines.anew:
            self._anew = self._lines.anew
            self._places, self._sorted = {}, []

    def _remember(self, rows: Iterable[tuple[str, Row]]) -> None:
        for job, row in rows:
            self._places[job] = (row.start, len(row.line))

    def _read(self, places: Sequence[tuple[int, int]]) -> list[Value]:
        if not places:
            return []
        try:
            with self._lines.path.open("rb") as file:
                values = []
                for start, length in places:
                    file.seek(start)
                    values.append(self._shape.value(json.loads(file.read(length))))
                return values
        except FileNotFoundError:  # another process has just removed the run
            return []
        except OSError as error:
            raise meaning(error, self._lines.path) from error
