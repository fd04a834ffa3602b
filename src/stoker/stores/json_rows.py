"""How postings, what enrichment made of them and their scores are written as JSON records.

Keys are the fields' names. Reading back is strict, so that a record somebody edited by hand is
either understood or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from stoker.core.keeping import kept_enriched, kept_job, kept_score
from stoker.core.model import Enriched, Job, JobId, JobScore, Json, in_utc

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
