"""How a run, and what it found, stands in the rows of `runs`, `jobs`, `enriched` and `scores`.

Rows that go in are refused here when a store could not keep them; rows that come out are read
as either database's driver gives them: moments and JSON as text or decoded, 0 or False.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from stoker.core.keeping import kept_enriched, kept_job, kept_score
from stoker.core.manifests import manifest_from_json, manifest_json
from stoker.core.model import Enriched, Job, JobScore
from stoker.core.runs import Run, RunKey, RunState, compact_json
from stoker.stores.sql import (
    Value,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)

Row = tuple[Value, ...]

RUN = "run_timestamp_utc, epoch, kind, state, instant, ended_at, reason, manifest"
JOB = "job_id, source, url, title, company, location, posted_at"
ENRICHED = "job_id, title, seniority, stack, remote"
SCORE = "job_id, score, bucket, components"


def run_values(run: Run) -> dict[str, Value]:
    """Return a run as the values of its row."""
    return {
        "at": moment_text(run.at),
        "epoch": run.key.epoch,
        "kind": run.kind,
        "state": run.state.value,
        "instant": optional_moment_text(run.instant),
        "ended_at": optional_moment_text(run.ended_at),
        "reason": run.reason,
        "config_hash": run.manifest.config_hash,
        "manifest": compact_json(manifest_json(run.manifest)),
    }


def run_of(row: tuple[Any, ...]) -> Run:
    """Return the run in a row of `RUN`."""
    at, epoch, kind, state, instant, ended_at, reason, manifest = row
    return Run(
        key=RunKey(moment(at), epoch),
        kind=kind,
        state=RunState(state),
        instant=optional_moment(instant),
        ended_at=optional_moment(ended_at),
        reason=reason,
        manifest=manifest_from_json(json_value(manifest)),
    )


def job_rows(jobs: Iterable[Job], *place: str) -> Iterator[Row]:
    """Return postings as rows of `JOB`, each beginning with its place: tenant and run."""
    for job in map(kept_job, jobs):
        posted_at = job.posted_at
        yield (
            *place,
            job.id,
            job.source,
            job.url,
            job.title,
            job.company,
            job.location,
            # kept_job has it in UTC, so this is moment_text without asking again.
            None if posted_at is None else posted_at.isoformat(timespec="microseconds"),
        )


def job_of(row: tuple[Any, ...]) -> Job:
    """Return the posting in a row of `JOB`."""
    job_id, source, url, title, company, location, posted_at = row
    return Job(
        id=job_id,
        source=source,
        url=url,
        title=title,
        company=company,
        location=location,
        posted_at=optional_moment(posted_at),
    )


def enriched_rows(enriched: Iterable[Enriched], *place: str) -> Iterator[Row]:
    """Return enriched postings as rows of `ENRICHED`, each beginning with its place."""
    for item in map(kept_enriched, enriched):
        yield (*place, item.job, item.title, item.seniority, stack_text(item.stack), item.remote)


def enriched_of(row: tuple[Any, ...]) -> Enriched:
    """Return the enriched posting in a row of `ENRICHED`."""
    job_id, title, seniority, stack, remote = row
    return Enriched(
        job=job_id,
        title=title,
        seniority=seniority,
        stack=_stack(stack) if isinstance(stack, str) else tuple(stack),
        remote=bool(remote),
    )


# Many postings name the same technologies, so each stack is written and read once.
@lru_cache(maxsize=1024)
def stack_text(stack: tuple[str, ...]) -> str:
    """Return technologies as they stand in a row."""
    return compact_json(list(stack))


@lru_cache(maxsize=1024)
def _stack(text: str) -> tuple[str, ...]:
    return tuple(json_value(text))


def score_rows(scores: Iterable[JobScore], *place: str) -> Iterator[Row]:
    """Return scores as rows of `SCORE`, each beginning with its place."""
    for item in map(kept_score, scores):
        yield (*place, item.job, item.score, item.bucket, compact_json(item.components))


def score_of(row: tuple[Any, ...]) -> JobScore:
    """Return the score in a row of `SCORE`."""
    job_id, score, bucket, components = row
    return JobScore(job=job_id, score=score, bucket=bucket, components=json_value(components))
