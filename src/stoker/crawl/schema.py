"""The table of what earlier visits saw of a site's pages."""

from __future__ import annotations

from stoker.crawl.model import PageState
from stoker.db.table import INT, TEXT, TIME, Column, Table, key

MAX_SITE_BYTES = 300  # bytes; a host name has at most 253

MAX_URL_BYTES = 2_000  # bytes; site and address together still fit into one key

PAGES = Table(
    "site_pages",
    PageState,
    Column("site", key(MAX_SITE_BYTES), parent=True),
    Column("url", key(MAX_URL_BYTES)),
    Column("status", INT),
    Column("etag", TEXT),
    Column("last_modified", TEXT),
    Column("fingerprint", TEXT),
    Column("seen_at", TIME),
    Column("changed_at", TIME),
    key=["site", "url"],
    since=5,
    what="the page",
    grants="SELECT, INSERT, UPDATE, DELETE",
)

TABLES = (PAGES,)
