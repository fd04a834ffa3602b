"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.base.types import in_utc
from stoker.crawl.model import PageSeen
from stoker.db.codec import kept_text
from stoker.db.values import kept_name, kept_whole

LONGEST_SITE = 300  # bytes; a host name has at most 253

LONGEST_URL = 2_000  # bytes; site and address together still fit into one key


def kept_page(page: PageSeen) -> PageSeen:
    """Return what was seen of a page as a store gives it back."""
    kept_name(page.url, what="a page's address", longest=LONGEST_URL)
    for text in (page.etag, page.last_modified, page.fingerprint):
        kept_text(text, what="what was seen of a page")
    kept_whole(page.status, what="a page's status")
    return replace(
        page,
        seen_at=in_utc(page.seen_at, what="when a page was seen"),
        changed_at=in_utc(page.changed_at, what="when a page changed"),
    )
