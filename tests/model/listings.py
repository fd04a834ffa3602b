"""What one tenant's sources listed, in dictionaries: the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stoker.base.types import to_utc
from stoker.db.codec import validate_text
from stoker.discovery.model import Listing
from stoker.discovery.schema import LISTINGS, SOURCES
from stoker.discovery.sources import SourceRecord, StoredListing


class MemoryListings:
    """A `ListingStore` in this process."""

    def __init__(self) -> None:
        self._sources: dict[str, SourceRecord] = {}
        self._listed: dict[str, dict[str, StoredListing]] = {}

    async def save_source(self, seen: SourceRecord) -> None:
        kept = SOURCES.store(seen)
        self._sources[kept.name] = kept

    async def list_sources(self) -> list[SourceRecord]:
        return [self._sources[name] for name in sorted(self._sources)]

    async def save_listings(self, source: str, listings: Sequence[Listing], *, at: datetime) -> int:
        stored = [
            StoredListing(listing=each, first_seen_at=at, last_seen_at=at) for each in listings
        ]
        kept = {each.listing.job.id: each for each in map(LISTINGS.store, stored)}
        known = self._listed.setdefault(_source(source), {})
        new = len(kept.keys() - known.keys())
        for job, now in kept.items():
            before = known.get(job, now)
            last = max(before.last_seen_at, now.last_seen_at)
            known[job] = replace(now, first_seen_at=before.first_seen_at, last_seen_at=last)
        return new

    async def list_listings(
        self, source: str, *, since: datetime, after: str = "", limit: int = 1000
    ) -> list[StoredListing]:
        since, after = to_utc(since), validate_text(after, what="a posting's id")
        known = self._listed.get(_source(source), {})
        seen = [job for job in sorted(known) if job > after and known[job].last_seen_at >= since]
        return [known[job] for job in seen[:limit]]

    async def count_listings(self, source: str, *, since: datetime, before: datetime) -> int:
        since, before = to_utc(since), to_utc(before)
        known = self._listed.get(_source(source), {})
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


def _source(name: str) -> str:
    return str(LISTINGS.encode(source=name)["source"])
