"""What discovery needs: sources to read postings from, and a memory of what each of them listed.

Verbs of a store, as in `ports`: each atomic, each wholly or not at all, told the time. Everything
is one tenant's own, behind its door. What a run found is in the run; here is what outlasts runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from stoker.core.posting_sources import SourceSeen
from stoker.core.postings import Listing, Postings, Validators


class PostingSource(Protocol):
    """One source of postings, ready to be read."""

    def read(self, known: Validators | None) -> AsyncIterator[Postings]:
        """Yield what it lists, batch by batch; with `known`, it may say that nothing changed.

        Raises TransientError when later may work, PermanentError when there is nothing to read,
        and ConfigError when a person must act first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A posting as a source lists it, and since when and until when it was seen there."""

    listing: Listing
    first_seen_at: datetime
    last_seen_at: datetime


class ListingStore(Protocol):
    """What one tenant's sources of postings listed."""

    async def put_source(self, seen: SourceSeen) -> None:
        """Remember how a source was found, in place of what was known of it."""
        ...

    async def sources(self) -> list[SourceSeen]:
        """Return every source that was ever tried, in the order of their names."""
        ...

    async def put_listings(self, source: str, listings: Sequence[Listing], *, at: datetime) -> int:
        """Remember that a source lists these now, in place of what was known of them.

        Returns how many it had never listed before. When a posting was first seen stays as it was,
        and when it was last seen never goes back. Of two with one id the last counts. Atomic.
        """
        ...

    async def listings(
        self, source: str, *, since: datetime, after: str = "", limit: int = 1000
    ) -> list[Listed]:
        """Return one page of what a source was seen to list then or since, in id order."""
        ...

    async def count_listings(self, source: str, *, since: datetime, before: datetime) -> int:
        """Return how many postings of a source were last seen with since <= last_seen < before."""
        ...

    async def forget_listings(self, *, before: datetime, limit: int = 10_000) -> int:
        """Forget up to so many postings not seen since before then, the longest gone first.

        Returns how many went.
        """
        ...
