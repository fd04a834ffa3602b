"""Store the states of crawled pages in SQL, so that the next visit fetches only what changed.

Rows are written in the order of their keys, so that two writers never deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.base.types import TenantId
from stoker.crawl.model import PageState
from stoker.crawl.row_checks import MAX_SITE_BYTES, validate_page
from stoker.db.database import Database, from_db_time, to_db_time
from stoker.db.values import validate_key

SELECT_PAGES = """
SELECT url, status, etag, last_modified, fingerprint, seen_at, changed_at FROM site_pages
WHERE tenant_id = :tenant AND site = :site ORDER BY url
"""

UPSERT_PAGE = """
INSERT INTO site_pages (tenant_id, site, url, status, etag, last_modified, fingerprint, seen_at,
                        changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, site, url) DO UPDATE SET
    status = excluded.status, etag = excluded.etag, last_modified = excluded.last_modified,
    fingerprint = excluded.fingerprint, seen_at = excluded.seen_at,
    changed_at = excluded.changed_at
"""

DELETE_SITE = "DELETE FROM site_pages WHERE tenant_id = :tenant AND site = :site"


class SqlPages:
    """A `PageStore` in the table `site_pages`."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def list_pages(self, site: str) -> list[PageState]:
        values = {"tenant": self._tenant, "site": _validate_site(site)}
        return [
            _to_page_state(row)
            for row in await self._database.read(lambda tx: tx.query(SELECT_PAGES, **values))
        ]

    async def save_pages(self, site: str, pages: Sequence[PageState]) -> None:
        site_key = (self._tenant, _validate_site(site))
        latest = {page.url: page for page in map(validate_page, pages)}
        rows = [
            (
                *site_key,
                url,
                page.status,
                page.etag,
                page.last_modified,
                page.fingerprint,
                to_db_time(page.seen_at),
                to_db_time(page.changed_at),
            )
            for url, page in sorted(latest.items())
        ]
        if rows:
            await self._database.write(lambda tx: tx.execute_many(UPSERT_PAGE, rows))

    async def delete_site(self, site: str) -> int:
        values = {"tenant": self._tenant, "site": _validate_site(site)}
        return await self._database.write(lambda tx: tx.execute(DELETE_SITE, **values))


def _validate_site(site: str) -> str:
    return validate_key(site, what="a site's name", longest=MAX_SITE_BYTES)


def _to_page_state(row: tuple[Any, ...]) -> PageState:
    url, status, etag, last_modified, fingerprint, seen_at, changed_at = row
    return PageState(
        url=url,
        status=status,
        etag=etag,
        last_modified=last_modified,
        fingerprint=fingerprint,
        seen_at=from_db_time(seen_at),
        changed_at=from_db_time(changed_at),
    )
