"""Check that page states can be stored; refuse the rest before writing.

Keys are held to the length that every database's keys can have.
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
    """Return a page state as a store returns it."""
    validate_key(page.url, what="a page's address", longest=MAX_URL_BYTES)
    for text in (page.etag, page.last_modified, page.fingerprint):
        validate_text(text, what="what was seen of a page")
    validate_int64(page.status, what="a page's status")
    return replace(
        page,
        seen_at=to_utc(page.seen_at, what="when a page was seen"),
        changed_at=to_utc(page.changed_at, what="when a page changed"),
    )
