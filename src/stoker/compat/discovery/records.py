"""Translate the plain dicts of scripts into postings, what their words say, and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import EnrichedJob, Job, JobId, JobScore, Json, compute_job_id
from stoker.compat.discovery.config import Config, parse_run_ts, parse_scoring
from stoker.discovery.enrichment import list_role_tags, score_job
from stoker.discovery.model import Listing, RawPosting, RejectedPosting, parse_date, parse_postings
from stoker.discovery.settings import DiscoverySettings

Record = Mapping[str, Any]

JOB_FIELDS = ("title", "location", "company", "source", "url", "posted_date")

ENRICHED_FIELDS = ("normalized_title", "seniority", "stack_tags", "remote_friendly")

SCORE_FIELDS = ("score", "bucket", "components")

_COMPONENTS = ("role_fit", "stack", "remote")


def run_enrichment_pipeline(
    jobs: Sequence[Record], config: Config, ts: str
) -> dict[str, list[dict[str, Any]]]:
    """Return what the words of postings say, and their scores, as a discovery run has them.

    `enriched` and `scored` are the rows of the files of those names, `jobs` and `scores` what the
    stores take; `rejected` says which were no postings, and why. `ts` names the run.
    """
    parse_run_ts(ts)
    rule = parse_scoring(config)
    found: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("jobs", "enriched", "scored", "scores", "rejected")
    }
    for number, record in enumerate(jobs, 1):
        parsed = _parse_posting(record, f"job {number}")
        if isinstance(parsed, RejectedPosting):
            found["rejected"].append({"where": parsed.where, "reason": parsed.reason})
            continue
        score = score_job(parsed.enriched, rule)
        enriched = {**record, **_to_enriched_fields(parsed.enriched, rule)}
        shown = {"score": score.score, "bucket": score.bucket}
        place = {"source": parsed.job.source, "url": parsed.job.url}
        found["jobs"].append(dict(record))
        found["enriched"].append(enriched)
        found["scored"].append({**enriched, **shown})
        found["scores"].append({**place, **shown, "components": dict(score.components)})
    return found


def to_job(record: Record) -> Job:
    """Return a posting. Raises PermanentError for a record without source or url."""
    return Job.create(
        source=_get_text(record, "source"),
        url=_get_text(record, "url"),
        title=_get_text(record, "title"),
        company=_get_text(record, "company"),
        location=_get_text(record, "location"),
        posted_at=parse_date(record.get("posted_date") or record.get("posted_at")),
    )


def to_enriched(record: Record) -> EnrichedJob:
    """Return what a posting's words say, under the names of scripts or our own."""
    stack = record.get("stack_tags", record.get("stack")) or ()
    return EnrichedJob(
        job=get_job_id(record),
        title=_get_text(record, "normalized_title") or _get_text(record, "title"),
        seniority=_get_text(record, "seniority"),
        stack=tuple(str(tag) for tag in stack),
        remote=bool(record.get("remote_friendly", record.get("remote", False))),
    )


def to_score(record: Record) -> JobScore:
    """Return a posting's score. Raises PermanentError unless it is from 0 to 1."""
    parts = record.get("components") or {
        name: record[name] for name in _COMPONENTS if isinstance(record.get(name), int | float)
    }
    return JobScore(
        job=get_job_id(record),
        score=float(record.get("score") or 0.0),
        bucket=_get_text(record, "bucket"),
        components={str(name): float(value) for name, value in parts.items()},
    )


def get_job_id(record: Record) -> JobId:
    """Return the id of the posting that a record is about."""
    source, url = _get_text(record, "source"), _get_text(record, "url")
    if not source or not url:
        raise PermanentError("a record names its posting by source and url; nothing was written")
    return compute_job_id(source=source, url=url)


def list_unknown_fields(records: Iterable[Record], known: Sequence[str]) -> list[str]:
    """Return the fields of records that are not known."""
    return sorted({str(name) for record in records for name in record} - {*known})


def list_unread_dates(records: Iterable[Record]) -> list[str]:
    """Return the dates of postings that cannot be read as one."""
    dates = {str(record.get("posted_date") or "") for record in records}
    return sorted(text for text in dates if text and parse_date(text) is None)


def _parse_posting(record: Record, where: str) -> Listing | RejectedPosting:
    posted = record.get("posted_date") or record.get("posted_at")
    raw = RawPosting(
        where=where,
        url=_get_text(record, "url"),
        title=_get_text(record, "title"),
        company=_get_text(record, "company"),
        location=_get_text(record, "location"),
        posted=posted if isinstance(posted, str | int | float) else str(posted or ""),
        text=_get_text(record, "description"),
        remote=record.get("remote") is True,
    )
    found = parse_postings(_get_text(record, "source") or "file", [raw])
    return found.listings[0] if found.listings else found.rejects[0]


def _to_enriched_fields(enriched: EnrichedJob, rule: DiscoverySettings) -> dict[str, Json]:
    return {
        "normalized_title": enriched.title,
        "seniority": enriched.seniority,
        "stack_tags": [*enriched.stack],
        "role_tags": [*list_role_tags(enriched.title, rule.roles)],
        "remote_friendly": enriched.remote,
    }


def _get_text(record: Record, name: str) -> str:
    value = record.get(name)
    return "" if value is None else str(value)
