"""Index one artifact's JSON lines by posting id, and convert postings to records and back.

The file is in insertion order; offsets are kept in memory, so that a page in id order reads only
its records. Parsing is strict: an edited record is understood or refused.
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
from stoker.base.types import EnrichedJob, Job, JobId, JobScore, Json, to_utc
from stoker.db.codec import validate_enriched_job, validate_job, validate_job_score
from stoker.files.durable import Disk, translate_os_error
from stoker.runs.json_files import RunRecord, check_unchanged
from stoker.runs.json_lines import ChecksummedLines, StoredLine

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType(Generic[Value]):
    """One kind of record: its file, its id, and how to validate, write and parse it."""

    artifact: str
    id: str  # the key that holds the posting's id
    validate: Callable[[Value], Value]
    to_record: Callable[[Value], dict[str, Json]]
    parse: Callable[[Mapping[str, Any]], Value]


def _to_job_record(job: Job) -> dict[str, Json]:
    return {
        "id": job.id,
        "source": job.source,
        "url": job.url,
        "title": job.title,
        "company": job.company,
        "location": job.location,
        "posted_at": None if job.posted_at is None else to_utc(job.posted_at).isoformat(),
    }


def _parse_job(record: Mapping[str, Any]) -> Job:
    posted = record["posted_at"]
    posted_at = None if posted is None else to_utc(datetime.fromisoformat(posted))
    return Job(**{**record, "posted_at": posted_at})


def _to_enriched_record(enriched: EnrichedJob) -> dict[str, Json]:
    return {
        "job": enriched.job,
        "title": enriched.title,
        "seniority": enriched.seniority,
        "stack": list(enriched.stack),
        "remote": enriched.remote,
    }


def _parse_enriched(record: Mapping[str, Any]) -> EnrichedJob:
    return EnrichedJob(**{**record, "stack": tuple(record["stack"])})


def _to_score_record(score: JobScore) -> dict[str, Json]:
    return {
        "job": score.job,
        "score": score.score,
        "bucket": score.bucket,
        "components": dict(score.components),
    }


def _parse_score(record: Mapping[str, Any]) -> JobScore:
    return JobScore(**{**record, "job": JobId(record["job"])})


JOBS = RecordType(
    artifact="jobs", id="id", validate=validate_job, to_record=_to_job_record, parse=_parse_job
)

ENRICHED = RecordType(
    artifact="enriched",
    id="job",
    validate=validate_enriched_job,
    to_record=_to_enriched_record,
    parse=_parse_enriched,
)

SCORES = RecordType(
    artifact="scores",
    id="job",
    validate=validate_job_score,
    to_record=_to_score_record,
    parse=_parse_score,
)


class IndexedLines(Generic[Value]):
    """A file of records of one shape, each id once. Threads may share it."""

    def __init__(self, path: Path, shape: RecordType[Value]) -> None:
        self._lines = ChecksummedLines(path)
        self._record_type = shape
        self._offsets: dict[str, tuple[int, int]] = {}
        self._sorted: list[str] = []
        self._restarts = 0
        self._lock = threading.Lock()

    def list_ids(self) -> Container[str]:
        """Return the ids that are there now."""
        with self._lock:
            self._read_new_lines()
            return self._offsets

    def read_page(self, record: RunRecord, *, after: str, limit: int) -> list[Value]:
        """Return values in id order; ConfigError when the file is not as its ended run left it."""
        with self._lock:
            self._read_new_lines()
            check_unchanged(self._lines, record.artifacts.get(self._record_type.artifact))
            if len(self._sorted) != len(self._offsets):
                self._sorted = sorted(self._offsets)
            start = bisect_right(self._sorted, after)
            places = [self._offsets[key] for key in self._sorted[start:][:limit]]
        return self._read_values(places)

    def add_new(self, values: Iterable[Value], *, known: Container[str] | None, disk: Disk) -> int:
        """Add what is new as one batch; return how much was.

        PermanentError, and nothing is written, when a value's id is not among the known ones.
        The caller is the only writer.
        """
        shape = self._record_type
        with self._lock:
            self._read_new_lines()
            if self._lines.partial_bytes:
                self._lines.repair_tail(disk=disk)
            new: dict[str, dict[str, Json]] = {}
            for record in map(shape.to_record, values):
                job = str(record[shape.id])
                if known is not None and job not in known:
                    raise PermanentError(f"this run has no posting {job}; nothing was written")
                if job not in self._offsets:
                    new.setdefault(job, record)
            if new:
                rows = self._lines.append(list(new.values()), disk=disk)
                self._index_lines(zip(new, rows, strict=True))
            return len(new)

    def _read_new_lines(self) -> None:
        for row in self._lines.read_new():
            self._reset_if_restarted()
            self._index_lines([(str(json.loads(row.line)[self._record_type.id]), row)])
        self._reset_if_restarted()

    def _reset_if_restarted(self) -> None:
        if self._restarts != self._lines.restarts:
            self._restarts = self._lines.restarts
            self._offsets, self._sorted = {}, []

    def _index_lines(self, rows: Iterable[tuple[str, StoredLine]]) -> None:
        for job, row in rows:
            self._offsets[job] = (row.start, len(row.line))

    def _read_values(self, places: Sequence[tuple[int, int]]) -> list[Value]:
        if not places:
            return []
        try:
            with self._lines.path.open("rb") as file:
                values = []
                for start, length in places:
                    file.seek(start)
                    values.append(self._record_type.parse(json.loads(file.read(length))))
                return values
        except FileNotFoundError:  # another process has just removed the run
            return []
        except OSError as error:
            raise translate_os_error(error, self._lines.path) from error
