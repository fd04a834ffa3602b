"""What every store can keep, letter for letter; the rest is refused before anything is written.

Each function returns a value as a store gives it back: moments in UTC, JSON as JSON has it.
PermanentError says that a text or a JSON value cannot be kept, ConfigError that a moment has no
time zone. All stores ask here, so they refuse the same things.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from stoker.core.leases import Lease
from stoker.core.ledger import Note
from stoker.core.manifests import manifest_from_json, manifest_json
from stoker.core.model import LONGEST_TEXT, Enriched, Job, JobScore, Json, in_utc, storable
from stoker.core.runs import CancelRequest, Run, compact_json
from stoker.core.slots import Slot
from stoker.errors import PermanentError


def kept_text(text: str, *, what: str) -> str:
    """Return the text, which every store would keep as it is."""
    if not storable(text):
        raise PermanentError(
            f"{what} cannot be kept: it has a NUL or half a surrogate pair in it, or is longer "
            f"than {LONGEST_TEXT} characters; clean it first, nothing was written"
        )
    return text


def kept_json(value: Json, *, what: str) -> Any:
    """Return the value as it comes back from JSON: lists for tuples, text for keys."""
    try:
        plain = json.loads(compact_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentError(
            f"{what} cannot be written as JSON ({error}); nothing was written"
        ) from error
    for text in _texts(plain):
        kept_text(text, what=what)
    return plain


def kept_run(run: Run) -> Run:
    """Return the run as a store gives it back."""
    kept_text(run.kind, what="a run's kind")
    kept_text(run.reason, what="a run's reason")
    manifest = kept_json(manifest_json(run.manifest), what="a run's manifest")
    return replace(
        run,
        key=replace(run.key, at=in_utc(run.at)),
        instant=_utc(run.instant, what="a run's instant"),
        ended_at=_utc(run.ended_at, what="a run's end"),
        manifest=manifest_from_json(manifest),
    )


def kept_job(job: Job) -> Job:
    """Return the posting as a store gives it back."""
    # One look at all its texts together: this runs once for each of a million rows.
    texts = "".join((job.id, job.source, job.url, job.title, job.company, job.location))
    if len(texts) > LONGEST_TEXT or not texts.isascii() or "\0" in texts:
        for text in (job.id, job.source, job.url, job.title, job.company, job.location):
            kept_text(text, what="a posting")
    if job.posted_at is None or job.posted_at.tzinfo is UTC:
        return job
    return replace(job, posted_at=in_utc(job.posted_at, what="posted_at"))


def kept_enriched(enriched: Enriched) -> Enriched:
    """Return the enriched posting as a store gives it back."""
    texts = "".join((enriched.job, enriched.title, enriched.seniority, *enriched.stack))
    if len(texts) > LONGEST_TEXT or not texts.isascii() or "\0" in texts:  # as in kept_job
        for text in (enriched.job, enriched.title, enriched.seniority, *enriched.stack):
            kept_text(text, what="an enriched posting")
    return enriched


def kept_score(score: JobScore) -> JobScore:
    """Return the score as a store gives it back."""
    parts: Mapping[str, Json] = score.components
    texts = "".join((score.job, score.bucket, *parts))
    if len(texts) > LONGEST_TEXT or not texts.isascii() or "\0" in texts:  # as in kept_job
        kept_text(score.job, what="a score")
        kept_text(score.bucket, what="a score's bucket")
    elif {*map(type, parts.values())} <= {float} and isfinite(sum(score.components.values())):
        return _with(score, dict(score.components))  # JSON has such numbers as they are
    return _with(score, kept_json(parts, what="a score's components"))


def _with(score: JobScore, parts: dict[str, float]) -> JobScore:
    return JobScore(job=score.job, score=score.score, bucket=score.bucket, components=parts)


def kept_lease(lease: Lease) -> Lease:
    """Return the lease as a store gives it back."""
    for text in (lease.name, lease.owner, lease.task):
        kept_text(text, what="a lease")
    return replace(lease, until=in_utc(lease.until, what="a lease's end"))


def kept_request(request: CancelRequest) -> CancelRequest:
    """Return the wish that a run stop as a store gives it back."""
    kept_text(request.by, what="who asks a run to stop")
    return replace(request, at=in_utc(request.at, what="when a run was asked to stop"))


def kept_slot(slot: Slot) -> Slot:
    """Return the decided instant as a store gives it back."""
    kept_text(slot.schedule, what="a schedule's name")
    kept_text(slot.reason, what="a slot's reason")
    return replace(
        slot,
        instant=in_utc(slot.instant, what="a slot's instant"),
        decided_at=in_utc(slot.decided_at, what="a slot's decision"),
        run_at=_utc(slot.run_at, what="a slot's run"),
    )


def kept_note(note: Note) -> Note:
    """Return the note as its entry will have it."""
    for text in (note.kind, note.subject, note.reason):
        kept_text(text, what="a note")
    at = in_utc(note.at, what="a note's moment")
    return replace(note, at=at, data=kept_json(note.data, what="a note's data"))


def _utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else in_utc(moment, what=what)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
