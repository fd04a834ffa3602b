"""One tenant's pages and paid answers, in dictionaries: the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.base.types import in_utc
from stoker.crawl.model import PageSeen
from stoker.crawl.row_checks import LONGEST_SITE, kept_page
from stoker.db.values import kept_name
from stoker.vendors.answer_cache import kept_answer
from stoker.vendors.model import Kept


class MemoryPages:
    """A `PageStore` in this process."""

    def __init__(self) -> None:
        self._sites: dict[str, dict[str, PageSeen]] = {}

    async def pages(self, site: str) -> list[PageSeen]:
        known = self._sites.get(_site(site), {})
        return [known[url] for url in sorted(known)]

    async def remember_pages(self, site: str, pages: Sequence[PageSeen]) -> None:
        seen = {page.url: page for page in map(kept_page, pages)}
        self._sites.setdefault(_site(site), {}).update(seen)

    async def forget_site(self, site: str) -> int:
        return len(self._sites.pop(_site(site), {}))


class MemoryAnswers:
    """An `AnswerStore` in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    async def keep_answers(self, answers: Sequence[Kept]) -> None:
        self._kept |= {kept.key: kept for kept in map(kept_answer, answers)}

    async def answers(self, keys: Sequence[str]) -> dict[str, Kept]:
        asked = [kept_name(key, what="an answer's key") for key in keys]
        return {key: self._kept[key] for key in sorted(asked) if key in self._kept}

    async def forget_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        before = in_utc(before)
        old = sorted(
            (kept.good_until, key) for key, kept in self._kept.items() if kept.good_until < before
        )
        for _, key in old[:limit]:
            del self._kept[key]
        return len(old[:limit])


def _site(site: str) -> str:
    return kept_name(site, what="a site's name", longest=LONGEST_SITE)
