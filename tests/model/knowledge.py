"""One tenant's pages and paid answers, in dictionaries: the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.base.types import to_utc
from stoker.crawl.model import PageState
from stoker.crawl.schema import MAX_SITE_BYTES, PAGES
from stoker.db.values import validate_key
from stoker.vendors.model import CachedAnswer
from stoker.vendors.schema import ANSWERS


class MemoryPages:
    """A `PageStore` in this process."""

    def __init__(self) -> None:
        self._sites: dict[str, dict[str, PageState]] = {}

    async def list_pages(self, site: str) -> list[PageState]:
        known = self._sites.get(_site(site), {})
        return [known[url] for url in sorted(known)]

    async def save_pages(self, site: str, pages: Sequence[PageState]) -> None:
        seen = {page.url: page for page in map(PAGES.store, pages)}
        self._sites.setdefault(_site(site), {}).update(seen)

    async def delete_site(self, site: str) -> int:
        return len(self._sites.pop(_site(site), {}))


class MemoryAnswers:
    """An `AnswerStore` in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, CachedAnswer] = {}

    async def save_answers(self, answers: Sequence[CachedAnswer]) -> None:
        self._kept |= {kept.key: kept for kept in map(ANSWERS.store, answers)}

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        asked = [validate_key(key, what="an answer's key") for key in keys]
        return {key: self._kept[key] for key in sorted(asked) if key in self._kept}

    async def delete_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        before = to_utc(before)
        old = sorted(
            (kept.expires_at, key) for key, kept in self._kept.items() if kept.expires_at < before
        )
        for _, key in old[:limit]:
            del self._kept[key]
        return len(old[:limit])


def _site(site: str) -> str:
    return validate_key(site, what="a site's name", longest=MAX_SITE_BYTES)
