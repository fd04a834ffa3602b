"""What one tenant's sources listed, in SQL.

Rows are written in the order of their keys, so that two who write the same ones never wait for
each other crosswise.

What every store can keep of sources and what they list; the rest is refused unwritten.

As `kept_knowledge`, whose ways of refusing these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import TenantId, in_utc
from stoker.db.codec import kept_enriched, kept_job, kept_text
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    asked,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)
from stoker.db.values import kept_name, kept_texts, kept_whole
from stoker.discovery.model import Listing, Validators
from stoker.discovery.sources import LONGEST_PLACE, Listed, SourceSeen, SourceState
from stoker.runs.store import enriched_of, job_of, stack_text

LONGEST_SOURCE = LONGEST_PLACE + 100  # bytes; with a posting's id it still fits into one key

LONGEST_ID = 100  # bytes


def kept_source_name(name: str) -> str:
    """Return the name of a source that every store can keep, and find again by."""
    return kept_name(name, what="a source's name", longest=LONGEST_SOURCE)


def kept_source(seen: SourceSeen) -> SourceSeen:
    """Return what is known of a source as a store gives it back."""
    kept_source_name(seen.name)
    said = (seen.because, seen.validators.etag, seen.validators.last_modified)
    kept_texts(said, what="what is known of a source")
    for number in (seen.version, seen.listed):
        kept_whole(number, what="a source's number")
    read_at = seen.read_at
    return replace(
        seen,
        tried_at=in_utc(seen.tried_at, what="when a source was tried"),
        read_at=None if read_at is None else in_utc(read_at, what="when a source was read"),
    )


def kept_listings(listings: Sequence[Listing]) -> dict[str, Listing]:
    """Return listings by their ids, the last of each."""
    kept: dict[str, Listing] = {}
    for listing in listings:
        job = kept_job(listing.job)
        kept_id(job.id)
        kept_enriched(listing.enriched)
        if listing.enriched.job != job.id:
            raise PermanentError("what a posting says is another posting's; nothing was written")
        kept[job.id] = listing if job is listing.job else replace(listing, job=job)
    return kept


def kept_id(job: str) -> str:
    """Return a posting's id that every store can keep, and find again by."""
    return kept_name(job, what="a posting's id", longest=LONGEST_ID)


def kept_after(after: str) -> str:
    """Return where a page begins, which may be nowhere yet."""
    return kept_text(after, what="a posting's id")


SOURCE = "name, state, tried_at, read_at, version, etag, last_modified, listed, because"

PUT_SOURCE = f"""
INSERT INTO posting_sources (tenant_id, {SOURCE})
VALUES (:tenant, :name, :state, :tried_at, :read_at, :version, :etag, :last_modified, :listed,
        :because)
ON CONFLICT (tenant_id, name) DO UPDATE SET
    state = excluded.state, tried_at = excluded.tried_at, read_at = excluded.read_at,
    version = excluded.version, etag = excluded.etag, last_modified = excluded.last_modified,
    listed = excluded.listed, because = excluded.because
"""

SOURCES = f"SELECT {SOURCE} FROM posting_sources WHERE tenant_id = :tenant ORDER BY name"

JOB = "job_id, kind, url, title, company, location, posted_at"

SAYS = "normal_title, seniority, stack, remote"

KNOWN = """
SELECT l.job_id FROM asked JOIN posting_listings l
ON l.tenant_id = :tenant AND l.source = :source AND l.job_id = asked.id
"""

PUT = f"""
INSERT INTO posting_listings AS known (tenant_id, source, {JOB}, {SAYS}, twin, first_seen_at,
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

LISTINGS = f"""
SELECT {JOB}, {SAYS}, twin, first_seen_at, last_seen_at FROM posting_listings
WHERE tenant_id = :tenant AND source = :source AND last_seen_at >= :since AND job_id > :after
ORDER BY job_id LIMIT :limit
"""

COUNT = """
SELECT count(*) FROM posting_listings
WHERE tenant_id = :tenant AND source = :source AND last_seen_at >= :since
    AND last_seen_at < :before
"""

# Asked again outside: what was seen again since it was found to be gone stays.
FORGET = """
DELETE FROM posting_listings WHERE tenant_id = :tenant AND last_seen_at < :before
    AND (source, job_id) IN (
        SELECT source, job_id FROM posting_listings
        WHERE tenant_id = :tenant AND last_seen_at < :before
        ORDER BY last_seen_at, source, job_id LIMIT :limit)
"""


class SqlListings:
    """A `ListingStore` in the tables `posting_sources` and `posting_listings`."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def put_source(self, seen: SourceSeen) -> None:
        seen = kept_source(seen)
        values: dict[str, Value] = {
            "tenant": self._tenant,
            "name": seen.name,
            "state": seen.state.value,
            "tried_at": moment_text(seen.tried_at),
            "read_at": optional_moment_text(seen.read_at),
            "version": seen.version,
            "etag": seen.validators.etag,
            "last_modified": seen.validators.last_modified,
            "listed": seen.listed,
            "because": seen.because,
        }
        await self._database.write(lambda tx: tx.change(PUT_SOURCE, **values))

    async def sources(self) -> list[SourceSeen]:
        rows = await self._database.read(lambda tx: tx.rows(SOURCES, tenant=self._tenant))
        return [_source(row) for row in rows]

    async def put_listings(self, source: str, listings: Sequence[Listing], *, at: datetime) -> int:
        kept, place = kept_listings(listings), (self._tenant, kept_source_name(source))
        ids, when = sorted(kept), moment_text(at)
        if not ids:
            return 0

        def put(tx: Transaction) -> int:
            known = 0
            for query, some in asked(KNOWN, ids):
                known += len(tx.rows(query, tenant=self._tenant, source=source, **some))
            tx.change_many(PUT, ((*place, *_row(kept[job]), when, when) for job in ids))
            return len(ids) - known

        return await self._database.write(put)

    async def listings(
        self, source: str, *, since: datetime, after: str = "", limit: int = 1000
    ) -> list[Listed]:
        values: dict[str, Value] = {
            "tenant": self._tenant,
            "source": kept_source_name(source),
            "since": moment_text(since),
            "after": kept_after(after),
            "limit": limit,
        }
        rows = await self._database.read(lambda tx: tx.rows(LISTINGS, **values))
        return [_listed(row) for row in rows]

    async def count_listings(self, source: str, *, since: datetime, before: datetime) -> int:
        values: dict[str, Value] = {
            "tenant": self._tenant,
            "source": kept_source_name(source),
            "since": moment_text(since),
            "before": moment_text(before),
        }
        [[count]] = await self._database.read(lambda tx: tx.rows(COUNT, **values))
        return int(count)

    async def forget_listings(self, *, before: datetime, limit: int = 10_000) -> int:
        end = moment_text(before)
        return await self._database.write(
            lambda tx: tx.change(FORGET, tenant=self._tenant, before=end, limit=limit)
        )


def _row(listing: Listing) -> tuple[Value, ...]:
    job, says = listing.job, listing.enriched
    return (
        job.id,
        job.source,
        job.url,
        job.title,
        job.company,
        job.location,
        optional_moment_text(job.posted_at),
        says.title,
        says.seniority,
        stack_text(says.stack),
        says.remote,
        listing.twin,
    )


# Many rows say the same here, so each is read once.
_moment = lru_cache(maxsize=1024)(moment)


def _listed(row: tuple[Any, ...]) -> Listed:
    *told, twin, first_seen_at, last_seen_at = row
    job = job_of(tuple(told[:7]))
    return Listed(
        listing=Listing(job=job, enriched=enriched_of((job.id, *told[7:])), twin=bool(twin)),
        first_seen_at=_moment(first_seen_at),
        last_seen_at=_moment(last_seen_at),
    )


def _source(row: tuple[Any, ...]) -> SourceSeen:
    name, state, tried_at, read_at, version, etag, last_modified, listed, because = row
    return SourceSeen(
        name=name,
        state=SourceState(state),
        tried_at=moment(tried_at),
        read_at=optional_moment(read_at),
        version=version,
        validators=Validators(etag=etag, last_modified=last_modified),
        listed=listed,
        because=because,
    )
