"""Store what one tenant's sources listed in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.db.codec import validate_text
from stoker.db.database import Database, Transaction, split_into_batches, to_db_time
from stoker.discovery.model import Listing
from stoker.discovery.schema import LISTINGS, SOURCES
from stoker.discovery.sources import SourceRecord, StoredListing

SELECT_KNOWN = """
SELECT l.job_id FROM asked JOIN posting_listings l
ON l.tenant_id = :tenant AND l.source = :source AND l.job_id = asked.id
"""

COUNT_LISTINGS = """
SELECT count(*) FROM posting_listings
WHERE tenant_id = :tenant AND source = :source AND last_seen_at >= :since
    AND last_seen_at < :before
"""

# The outer condition is checked again: a posting that was seen again meanwhile stays.
DELETE_LISTINGS = """
DELETE FROM posting_listings WHERE tenant_id = :tenant AND last_seen_at < :before
    AND (source, job_id) IN (
        SELECT source, job_id FROM posting_listings
        WHERE tenant_id = :tenant AND last_seen_at < :before
        ORDER BY last_seen_at, source, job_id LIMIT :limit)
"""


class ListingStore:
    """What one tenant's sources of postings listed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_source(self, source: SourceRecord) -> None:
        await self._database.write(lambda tx: SOURCES.save(tx, [source]))

    async def list_sources(self) -> list[SourceRecord]:
        return await self._database.read(lambda tx: SOURCES.find(tx, "true ORDER BY name"))

    async def save_listings(self, source: str, listings: Sequence[Listing], *, at: datetime) -> int:
        """Save that a source lists these now, and return how many it had never listed before.

        When a posting was first seen stays, and when it was last seen never goes back. Of two
        with one id the last counts. Atomic.
        """
        place = LISTINGS.encode(source=source)
        rows = {
            listing.job.id: LISTINGS.to_row(
                StoredListing(listing=listing, first_seen_at=at, last_seen_at=at)
            )
            for listing in listings
        }

        def save(tx: Transaction) -> int:
            known = 0
            for query, ids in split_into_batches(SELECT_KNOWN, list(rows)):
                known += len(tx.query(query, **place, **ids))
            # In the order of their keys, so that two writers never deadlock.
            in_order = [(tx.tenant, source, *rows[job]) for job in sorted(rows)]
            tx.execute_many(LISTINGS.upsert, in_order)
            return len(rows) - known

        return await self._database.write(save) if rows else 0

    async def list_listings(
        self, source: str, *, since: datetime, after: str = "", limit: int = 1000
    ) -> list[StoredListing]:
        """Return one page of what a source was seen to list then or since, in id order."""
        place = LISTINGS.encode(source=source)
        validate_text(after, what="a posting's id")
        where = (
            "source = :source AND last_seen_at >= :since AND job_id > :after "
            "ORDER BY job_id LIMIT :limit"
        )
        start = to_db_time(since)
        return await self._database.read(
            lambda tx: LISTINGS.find(tx, where, **place, since=start, after=after, limit=limit)
        )

    async def count_listings(self, source: str, *, since: datetime, before: datetime) -> int:
        """Return how many postings of a source were last seen with since <= last_seen < before."""
        values = LISTINGS.encode(source=source)
        values |= {"since": to_db_time(since), "before": to_db_time(before)}
        [[count]] = await self._database.read(lambda tx: tx.query(COUNT_LISTINGS, **values))
        return int(count)

    async def delete_listings(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete up to so many postings not seen since before then, longest gone first.

        Returns how many were deleted.
        """
        end = to_db_time(before)
        return await self._database.write(
            lambda tx: tx.execute(DELETE_LISTINGS, before=end, limit=limit)
        )
