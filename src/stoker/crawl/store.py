"""Store the states of crawled pages in SQL, so that the next visit fetches only what changed."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.crawl.model import PageState
from stoker.crawl.schema import PAGES
from stoker.db.database import Database


class PageStore:
    """One tenant's page states from earlier visits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_pages(self, site: str) -> list[PageState]:
        place = PAGES.encode(site=site)
        return await self._database.read(
            lambda tx: PAGES.find(tx, "site = :site ORDER BY url", **place)
        )

    async def save_pages(self, site: str, pages: Sequence[PageState]) -> None:
        """Save page states of a site, each in place of an earlier one. Atomic."""
        PAGES.encode(site=site)
        latest = {page.url: page for page in map(PAGES.store, pages)}
        if latest:
            await self._database.write(lambda tx: PAGES.save(tx, latest.values(), site))
