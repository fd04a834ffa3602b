"""Store the states of crawled pages in SQL, so that the next visit fetches only what changed."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.accounts.store import read_suppressions
from stoker.crawl.model import PageState
from stoker.crawl.schema import PAGES
from stoker.db.database import Database, Transaction


class PageStore:
    """One tenant's page states from earlier visits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_pages(self, site: str) -> list[PageState]:
        place = PAGES.encode(site=site)
        return await self._database.read(
            lambda tx: PAGES.find(tx, "site = :site ORDER BY url", **place)
        )

    async def save_pages(self, site: str, pages: Sequence[PageState], *, company: str = "") -> None:
        """Save page states of a site, each in place of an earlier one. Atomic.

        Leaves out pages whose address names an erased person of the company, by default of any.
        """
        PAGES.encode(site=site)
        latest = {page.url: page for page in map(PAGES.store, pages)}

        def save(tx: Transaction) -> None:
            suppressed = read_suppressions(tx)
            kept = [
                page for url, page in latest.items() if not suppressed.has_any_name(url, company)
            ]
            PAGES.save(tx, kept, site)

        if latest:
            await self._database.write(save)
