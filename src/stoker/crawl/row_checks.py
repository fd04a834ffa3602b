"""What every store can keep of what connectors said; the rest is refused unwritten.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Names that rows are found by are held to the length every database's
keys can have.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.base.types import to_utc
from stoker.crawl.model import PageState
from stoker.db.codec import validate_text
from stoker.db.values import validate_int64, validate_key

MAX_SITE_BYTES = 300  # bytes; a host name has at most 253

MAX_URL_BYTES = 2_000  # bytes; site and address together still fit into one key


def validate_page(page: PageState) -> PageState:
    """Return what was seen of a page as a store gives it back."""
    validate_key(page.url, what="a page's address", longest=MAX_URL_BYTES)
    for text in (page.etag, page.last_modified, page.fingerprint):
        validate_text(text, what="what was seen of a page")
    validate_int64(page.status, what="a page's status")
    return replace(
        page,
        seen_at=to_utc(page.seen_at, what="when a page was seen"),
        changed_at=to_utc(page.changed_at, what="when a page changed"),
    )
