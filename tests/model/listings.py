"""What one tenant's sources listed, in dictionaries: the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.base.types import to_utc
from stoker.discovery.model import Listing
from stoker.discovery.sources import SourceRecord, StoredListing
from stoker.discovery.store import (
    validate_listings,
    validate_page_start,
    validate_source,
    validate_source_name,
)


class MemoryListings:
    """A `ListingStore` in this process."""

    def __init__(self) -> None:
        self._sources: dict[str, SourceRecord] = {}
        self._listed: dict[str, dict[str, StoredListing]] = {}

    async def save_source(self, seen: SourceRecord) -> None:
        kept = validate_source(seen)
        self._sources[kept.name] = kept

    async def list_sources(self) -> list[SourceRecord]:
        return [self._sources[name] for name in sorted(self._sources)]

    async def save_listings(self, source: str, listings: Sequence[Listing], *, at: datetime) -> int:
        kept, at = validate_listings(listings), to_utc(at, what="when a source was read")
        known = self._listed.setdefault(validate_source_name(source), {})
        new = len(kept.keys() - known.keys())
        for job, listing in kept.items():
            before = known.get(job)
            known[job] = StoredListing(
                listing=listing,
                first_seen_at=before.first_seen_at if before else at,
                last_seen_at=max(before.last_seen_at, at) if before else at,
            )
        return new

    async def list_listings(
        self, source: str, *, since: datetime, after: str = "", limit: int = 1000
    ) -> list[StoredListing]:
        since, after = to_utc(since), validate_page_start(after)
        known = self._listed.get(validate_source_name(source), {})
        seen = [job for job in sorted(known) if job > after and known[job].last_seen_at >= since]
        return [known[job] for job in seen[:limit]]

    async def count_listings(self, source: str, *, since: datetime, before: datetime) -> int:
        since, before = to_utc(since), to_utc(before)
        known = self._listed.get(validate_source_name(source), {})
        return sum(since <= listed.last_seen_at < before for listed in known.values())

    async def delete_listings(self, *, before: datetime, limit: int = 10_000) -> int:
        before = to_utc(before)
        old = sorted(
            (listed.last_seen_at, source, job)
            for source, known in self._listed.items()
            for job, listed in known.items()
            if listed.last_seen_at < before
        )
        for _, source, job in old[:limit]:
            del self._listed[source][job]
        return len(old[:limit])
