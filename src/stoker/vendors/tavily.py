"""Tavily: web search, and pages read for us. Two needs, one account.

It tells what it charged. Searching is at basic depth unless more was asked for, and never at a
depth it chooses by itself, because that doubles the price.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.jsontools import has_list, list_in, object_in, text_in, whole_in
from stoker.base.types import Json
from stoker.budgets.model import Done, Health
from stoker.http.api_client import Failure, Vendor, healthy, spent, usable_key
from stoker.http.client import Http
from stoker.vendors.search import (
    MOST_PAGES,
    Found,
    PageTexts,
    ReadPages,
    Search,
    SearchDepth,
    read_pages,
)

NAME = "tavily"

BASE_URL = "https://api.tavily.com"

DEADLINE = timedelta(seconds=60)

URLS_A_CREDIT = 5

FAILURES: Mapping[int, Failure] = {
    400: Failure(PermanentError, "does not understand this question"),
    401: Failure(ConfigError, "refuses our key; check keys.tavily in the settings"),
    403: Failure(ConfigError, "does not offer this to our account; look at its plan"),
    429: Failure(TransientError, "asks us to come back later"),
    432: Failure(ConfigError, "says the plan's limit is reached; raise it or wait for its renewal"),
    433: Failure(ConfigError, "says the pay-as-you-go limit is reached; raise it there"),
}

_PRICES = {SearchDepth.BASIC: 1, SearchDepth.ADVANCED: 2}


def tavily(
    http: Http, *, key: str, base_url: str = BASE_URL, deadline: timedelta = DEADLINE
) -> Vendor:
    """Return Tavily's API, asked with this key. Raises ConfigError for a key that is none.

    Without a key the vendor would answer all the same, with less and for nobody's account.
    """
    return Vendor(
        http,
        name=NAME,
        base_url=base_url,
        headers={"Authorization": f"Bearer {usable_key(NAME, key)}"},
        deadline=deadline,
        failures=FAILURES,
    )


class TavilySearch:
    """Searches the web."""

    name = NAME

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor

    def price(self, question: Search) -> Mapping[str, int]:
        return {"calls": 1, "credits": _PRICES[question.depth]}

    async def ask(self, question: Search, *, key: str) -> Done[Found]:
        body: dict[str, Json] = {
            "query": question.query,
            "search_depth": question.depth.value,
            "max_results": question.most,
            "include_usage": True,
        }
        if question.only:
            body["include_domains"] = list(question.only)
        if question.never:
            body["exclude_domains"] = list(question.never)
        data = (await self._vendor.post("/search", body)).data
        pages = read_pages(_results(data), text="content")
        return Done(
            answer=Found(pages=tuple(pages[: question.most])),
            cost=_cost(data, promised=self.price(question)["credits"]),
        )

    async def check(self) -> Health:
        return await healthy(lambda: _used(self._vendor))


class TavilyReading:
    """Reads pages that do not let us in."""

    name = NAME

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor

    def price(self, question: ReadPages) -> Mapping[str, int]:
        return {"calls": 1, "credits": -(-len(question.urls) // URLS_A_CREDIT)}

    async def ask(self, question: ReadPages, *, key: str) -> Done[PageTexts]:
        body: dict[str, Json] = {
            "urls": list(question.urls),
            "extract_depth": "basic",
            "format": "text",
            "include_usage": True,
        }
        data = (await self._vendor.post("/extract", body)).data
        pages = [page for page in read_pages(_results(data), text="raw_content") if page.text]
        failed = {
            text_in(item, "url", longest=8_000)
            for item in list_in(data, "failed_results", most=MOST_PAGES)
        }
        return Done(
            answer=PageTexts(
                pages=tuple(pages), unread=tuple(url for url in question.urls if url in failed)
            ),
            cost=_cost(data, promised=self.price(question)["credits"]),
        )

    async def check(self) -> Health:
        return await healthy(lambda: _used(self._vendor))


def _results(data: Json) -> list[Json]:
    if not has_list(data, "results"):
        raise UncertainError(f"{NAME} answered without results; it may have been charged")
    return list_in(data, "results", most=MOST_PAGES)


def _cost(data: Json, *, promised: int) -> Mapping[str, int]:
    return spent(NAME, whole_in(object_in(data, "usage"), "credits"), promised=promised)


async def _used(vendor: Vendor) -> str:
    own = object_in((await vendor.get("/usage")).data, "key")
    used, limit = whole_in(own, "usage"), whole_in(own, "limit")
    if used is None:
        return "it takes our key, and does not say what is used"
    return f"{used} credits used" if limit is None else f"{used} of {limit} credits used"
