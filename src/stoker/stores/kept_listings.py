"""What every store can keep of sources and what they list; the rest is refused unwritten.

As `kept_knowledge`, whose ways of refusing these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.core.keeping import kept_enriched, kept_job, kept_text
from stoker.core.model import in_utc
from stoker.core.posting_sources import LONGEST_PLACE, SourceSeen
from stoker.core.postings import Listing
from stoker.errors import PermanentError
from stoker.stores.kept_knowledge import kept_name, kept_texts, kept_whole

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
