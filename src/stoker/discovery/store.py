"""What one tenant's sources listed, in SQL; and its validation before writing.

Writes rows in key order, so that two writers of the same rows cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import TenantId, to_utc
from stoker.db.codec import validate_enriched_job, validate_job, validate_text
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_time,
    from_optional_db_time,
    split_into_batches,
    to_db_time,
    to_optional_db_time,
)
from stoker.db.values import validate_int64, validate_key, validate_texts
from stoker.discovery.model import Listing, Validators
from stoker.discovery.sources import MAX_ADDRESS_BYTES, SourceRecord, SourceState, StoredListing
from stoker.runs.store import format_stack, parse_enriched, parse_job

MAX_SOURCE_NAME_BYTES = (
    MAX_ADDRESS_BYTES + 100
)  # bytes; with a posting's id it still fits into one key

MAX_ID_BYTES = 100  # bytes


def validate_source_name(name: str) -> str:
    """Return the name of a source that every store can keep, and find again by."""
    return validate_key(name, what="a source's name", longest=MAX_SOURCE_NAME_BYTES)


def validate_source(seen: SourceRecord) -> SourceRecord:
    """Return what is known of a source as a store gives it back."""
    validate_source_name(seen.name)
    texts = (seen.reason, seen.validators.etag, seen.validators.last_modified)
    validate_texts(texts, what="what is known of a source")
    for number in (seen.version, seen.listed):
        validate_int64(number, what="a source's number")
    read_at = seen.read_at
    return replace(
        seen,
        tried_at=to_utc(seen.tried_at, what="when a source was tried"),
        read_at=None if read_at is None else to_utc(read_at, what="when a source was read"),
    )


def validate_listings(listings: Sequence[Listing]) -> dict[str, Listing]:
    """Return listings by their ids, the last of each."""
    valid: dict[str, Listing] = {}
    for listing in listings:
        job = validate_job(listing.job)
        validate_posting_id(job.id)
        validate_enriched_job(listing.enriched)
        if listing.enriched.job != job.id:
            raise PermanentError("what a posting says is another posting's; nothing was written")
        valid[job.id] = listing if job is listing.job else replace(listing, job=job)
    return valid


def validate_posting_id(job: str) -> str:
    """Return a posting's id that every store can keep, and find again by."""
    return validate_key(job, what="a posting's id", longest=MAX_ID_BYTES)


def validate_page_start(after: str) -> str:
    """Return where a page begins, which may be nowhere yet."""
    return validate_text(after, what="a posting's id")


SOURCE_COLUMNS = "name, state, tried_at, read_at, version, etag, last_modified, listed, because"

UPSERT_SOURCE = f"""
INSERT INTO posting_sources (tenant_id, {SOURCE_COLUMNS})
VALUES (:tenant, :name, :state, :tried_at, :read_at, :version, :etag, :last_modified, :listed,
        :because)
ON CONFLICT (tenant_id, name) DO UPDATE SET
    state = excluded.state, tried_at = excluded.tried_at, read_at = excluded.read_at,
    version = excluded.version, etag = excluded.etag, last_modified = excluded.last_modified,
    listed = excluded.listed, because = excluded.because
"""

SELECT_SOURCES = (
    f"SELECT {SOURCE_COLUMNS} FROM posting_sources WHERE tenant_id = :tenant ORDER BY name"
)

JOB_COLUMNS = "job_id, kind, url, title, company, location, posted_at"

ENRICHED_COLUMNS = "normal_title, seniority, stack, remote"

SELECT_KNOWN = """
SELECT l.job_id FROM asked JOIN posting_listings l
ON l.tenant_id = :tenant AND l.source = :source AND l.job_id = asked.id
"""

UPSERT_LISTING = f"""
INSERT INTO posting_listings AS known (tenant_id, source, {JOB_COLUMNS}, {ENRICHED_COLUMNS}, twin,
first_seen_at,
                                       last_seen_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, source, job_id) DO UPDATE SET
    kind = excluded.kind, url = excluded.url, title = excluded.title,
    company = excluded.company, location = excluded.location, posted_at = excluded.posted_at,
    normal_title = excluded.normal_title, seniority = excluded.seniority, stack = excluded.stack,
    remote = excluded.remote, twin = excluded.twin,
    last_seen_at = CASE WHEN excluded.last_seen_at > known.last_seen_at
                        THEN excluded.last_seen_at ELSE known.last_seen_at END
"""

SELECT_LISTINGS = f"""
SELECT {JOB_COLUMNS}, {ENRICHED_COLUMNS}, twin, first_seen_at, last_seen_at FROM posting_listings
WHERE tenant_id = :tenant AND source = :source AND last_seen_at >= :since AND job_id > :after
ORDER BY job_id LIMIT :limit
"""

COUNT_LISTINGS = """
SELECT count(*) FROM posting_listings
WHERE tenant_id = :tenant AND source = :source AND last_seen_at >= :since
    AND last_seen_at < :before
"""

# Asked again outside: what was seen again since it was found to be gone stays.
DELETE_LISTINGS = """
DELETE FROM posting_listings WHERE tenant_id = :tenant AND last_seen_at < :before
    AND (source, job_id) IN (
        SELECT source, job_id FROM posting_listings
        WHERE tenant_id = :tenant AND last_seen_at < :before
        ORDER BY last_seen_at, source, job_id LIMIT :limit)
"""


class SqlListingStore:
    """A `ListingStore` in the tables `posting_sources` and `posting_listings`."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def save_source(self, seen: SourceRecord) -> None:
        seen = validate_source(seen)
        values: dict[str, Value] = {
            "tenant": self._tenant,
            "name": seen.name,
            "state": seen.state.value,
            "tried_at": to_db_time(seen.tried_at),
            "read_at": to_optional_db_time(seen.read_at),
            "version": seen.version,
            "etag": seen.validators.etag,
            "last_modified": seen.validators.last_modified,
            "listed": seen.listed,
            "because": seen.reason,
        }
        await self._database.write(lambda tx: tx.execute(UPSERT_SOURCE, **values))

    async def list_sources(self) -> list[SourceRecord]:
        rows = await self._database.read(lambda tx: tx.query(SELECT_SOURCES, tenant=self._tenant))
        return [_parse_source(row) for row in rows]

    async def save_listings(self, source: str, listings: Sequence[Listing], *, at: datetime) -> int:
        valid, place = validate_listings(listings), (self._tenant, validate_source_name(source))
        ids, when = sorted(valid), to_db_time(at)
        if not ids:
            return 0

        def put(tx: Transaction) -> int:
            known = 0
            for query, some in split_into_batches(SELECT_KNOWN, ids):
                known += len(tx.query(query, tenant=self._tenant, source=source, **some))
            tx.execute_many(
                UPSERT_LISTING, ((*place, *_to_row(valid[job]), when, when) for job in ids)
            )
            return len(ids) - known

        return await self._database.write(put)

    async def list_listings(
        self, source: str, *, since: datetime, after: str = "", limit: int = 1000
    ) -> list[StoredListing]:
        values: dict[str, Value] = {
            "tenant": self._tenant,
            "source": validate_source_name(source),
            "since": to_db_time(since),
            "after": validate_page_start(after),
            "limit": limit,
        }
        rows = await self._database.read(lambda tx: tx.query(SELECT_LISTINGS, **values))
        return [_parse_listing(row) for row in rows]

    async def count_listings(self, source: str, *, since: datetime, before: datetime) -> int:
        values: dict[str, Value] = {
            "tenant": self._tenant,
            "source": validate_source_name(source),
            "since": to_db_time(since),
            "before": to_db_time(before),
        }
        [[count]] = await self._database.read(lambda tx: tx.query(COUNT_LISTINGS, **values))
        return int(count)

    async def delete_listings(self, *, before: datetime, limit: int = 10_000) -> int:
        end = to_db_time(before)
        return await self._database.write(
            lambda tx: tx.execute(DELETE_LISTINGS, tenant=self._tenant, before=end, limit=limit)
        )


def _to_row(listing: Listing) -> tuple[Value, ...]:
    job, says = listing.job, listing.enriched
    return (
        job.id,
        job.source,
        job.url,
        job.title,
        job.company,
        job.location,
        to_optional_db_time(job.posted_at),
        says.title,
        says.seniority,
        format_stack(says.stack),
        says.remote,
        listing.is_duplicate,
    )


# Many rows say the same here, so each is read once.
_parse_time_cached = lru_cache(maxsize=1024)(from_db_time)


def _parse_listing(row: tuple[Any, ...]) -> StoredListing:
    *values, twin, first_seen_at, last_seen_at = row
    job = parse_job(tuple(values[:7]))
    return StoredListing(
        listing=Listing(
            job=job, enriched=parse_enriched((job.id, *values[7:])), is_duplicate=bool(twin)
        ),
        first_seen_at=_parse_time_cached(first_seen_at),
        last_seen_at=_parse_time_cached(last_seen_at),
    )


def _parse_source(row: tuple[Any, ...]) -> SourceRecord:
    name, state, tried_at, read_at, version, etag, last_modified, listed, because = row
    return SourceRecord(
        name=name,
        state=SourceState(state),
        tried_at=from_db_time(tried_at),
        read_at=from_optional_db_time(read_at),
        version=version,
        validators=Validators(etag=etag, last_modified=last_modified),
        listed=listed,
        reason=because,
    )
