"""The tables of sources of postings and what they listed."""

from __future__ import annotations

from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import EnrichedJob, Job
from stoker.db.table import (
    FLAG,
    INT,
    KEEP_OLD,
    REPEATED_TIME,
    TEXT,
    TIME,
    Column,
    Table,
    enum,
    key,
)
from stoker.discovery.model import Listing, Validators
from stoker.discovery.sources import MAX_ADDRESS_BYTES, SourceRecord, SourceState, StoredListing
from stoker.runs.schema import STACK

# Bytes; with a posting's id it still fits into one key.
MAX_SOURCE_NAME_BYTES = MAX_ADDRESS_BYTES + 100

MAX_ID_BYTES = 100  # bytes

SOURCES = Table(
    "posting_sources",
    SourceRecord,
    Column("name", key(MAX_SOURCE_NAME_BYTES)),
    Column("state", enum(SourceState)),
    Column("tried_at", TIME),
    Column("read_at", TIME, null=True),
    Column("version", INT),
    Column("etag", TEXT, field="validators.etag"),
    Column("last_modified", TEXT, field="validators.last_modified"),
    Column("listed", INT),
    Column("because", TEXT, field="reason"),
    key=["name"],
    nested={"validators": Validators},
    since=9,
    what="the source",
    grants="SELECT, INSERT, UPDATE",
)


def _build_listing(job: Job, enriched: dict[str, Any], is_duplicate: bool) -> Listing:
    return Listing(job=job, enriched=EnrichedJob(job=job.id, **enriched), is_duplicate=is_duplicate)


def _check_job_ids(stored: StoredListing) -> None:
    if stored.listing.enriched.job != stored.listing.job.id:
        raise PermanentError("what a posting says is another posting's; nothing was written")


LISTINGS = Table(
    "posting_listings",
    StoredListing,
    Column("source", key(MAX_SOURCE_NAME_BYTES), parent=True),
    Column("job_id", key(MAX_ID_BYTES), field="listing.job.id"),
    Column("kind", TEXT, field="listing.job.source"),
    Column("url", TEXT, field="listing.job.url"),
    Column("title", TEXT, field="listing.job.title"),
    Column("company", TEXT, field="listing.job.company"),
    Column("location", TEXT, field="listing.job.location"),
    Column("posted_at", TIME, field="listing.job.posted_at", null=True),
    Column("normal_title", TEXT, field="listing.enriched.title"),
    Column("seniority", TEXT, field="listing.enriched.seniority"),
    Column("stack", STACK, field="listing.enriched.stack"),
    Column("remote", FLAG, field="listing.enriched.remote"),
    Column("twin", FLAG, field="listing.is_duplicate"),
    Column("first_seen_at", REPEATED_TIME, merge=KEEP_OLD),
    Column(
        "last_seen_at",
        REPEATED_TIME,
        merge="CASE WHEN {new} > {old} THEN {new} ELSE {old} END",
    ),
    key=["source", "job_id"],
    nested={"listing": _build_listing, "job": Job, "enriched": dict},
    check=_check_job_ids,
    since=9,
    what="the listing",
    grants="SELECT, INSERT, UPDATE, DELETE",
)

TABLES = (SOURCES, LISTINGS)
