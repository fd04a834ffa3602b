"""Tavily: web search, and pages read for us.

Its answers say what was charged. A search has basic depth unless the query asks for more, and never
a depth that Tavily chooses, because that doubles the price.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.jsontools import get_count, get_line, get_list, get_object, has_list
from stoker.base.types import Json
from stoker.budgets.model import Health, Paid
from stoker.http.api_client import (
    StatusMeaning,
    VendorApi,
    check_api_key,
    check_health,
    compute_billed_cost,
)
from stoker.http.client import HttpClient
from stoker.vendors.search import (
    MAX_PAGES,
    PageTexts,
    PageTextsQuery,
    SearchDepth,
    SearchQuery,
    SearchResult,
    parse_hits,
)

NAME = "tavily"

BASE_URL = "https://api.tavily.com"

DEADLINE = timedelta(seconds=60)

URLS_PER_CREDIT = 5

STATUSES: Mapping[int, StatusMeaning] = {
    400: StatusMeaning(PermanentError, "does not understand this question"),
    401: StatusMeaning(ConfigError, "refuses our key; check keys.tavily in the settings"),
    403: StatusMeaning(ConfigError, "does not offer this to our account; look at its plan"),
    429: StatusMeaning(TransientError, "asks us to come back later"),
    432: StatusMeaning(
        ConfigError, "says the plan's limit is reached; raise it or wait for its renewal"
    ),
    433: StatusMeaning(ConfigError, "says the pay-as-you-go limit is reached; raise it there"),
}

_PRICES = {SearchDepth.BASIC: 1, SearchDepth.ADVANCED: 2}


def build_tavily_api(
    http: HttpClient, *, key: str, base_url: str = BASE_URL, deadline: timedelta = DEADLINE
) -> VendorApi:
    """Return Tavily's API with this key. Raises ConfigError for an unusable key.

    Without a key Tavily would answer all the same, with less and on no account.
    """
    return VendorApi(
        http,
        name=NAME,
        base_url=base_url,
        headers={"Authorization": f"Bearer {check_api_key(NAME, key)}"},
        deadline=deadline,
        failures=STATUSES,
    )


class _TavilyConnector:
    """What Tavily's connectors share."""

    name = NAME

    def __init__(self, vendor: VendorApi) -> None:
        self._vendor = vendor

    async def check(self) -> Health:
        return await check_health(lambda: _get_usage(self._vendor))


class TavilySearch(_TavilyConnector):
    """Search the web."""

    def price(self, question: SearchQuery) -> Mapping[str, int]:
        return {"calls": 1, "credits": _PRICES[question.depth]}

    async def ask(self, question: SearchQuery, *, key: str) -> Paid[SearchResult]:
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
        pages = parse_hits(_get_results(data), text="content")
        return Paid(
            answer=SearchResult(pages=tuple(pages[: question.most])),
            cost=_compute_cost(data, promised=self.price(question)["credits"]),
        )


class TavilyPageReader(_TavilyConnector):
    """Read pages that refuse us."""

    def price(self, question: PageTextsQuery) -> Mapping[str, int]:
        return {"calls": 1, "credits": -(-len(question.urls) // URLS_PER_CREDIT)}

    async def ask(self, question: PageTextsQuery, *, key: str) -> Paid[PageTexts]:
        body: dict[str, Json] = {
            "urls": list(question.urls),
            "extract_depth": "basic",
            "format": "text",
            "include_usage": True,
        }
        data = (await self._vendor.post("/extract", body)).data
        pages = [page for page in parse_hits(_get_results(data), text="raw_content") if page.text]
        failed = {
            get_line(item, "url", longest=8_000)
            for item in get_list(data, "failed_results", most=MAX_PAGES)
        }
        return Paid(
            answer=PageTexts(
                pages=tuple(pages), unread=tuple(url for url in question.urls if url in failed)
            ),
            cost=_compute_cost(data, promised=self.price(question)["credits"]),
        )


def _get_results(data: Json) -> list[Json]:
    if not has_list(data, "results"):
        raise UncertainError(f"{NAME} answered without results; it may have been charged")
    return get_list(data, "results", most=MAX_PAGES)


def _compute_cost(data: Json, *, promised: int) -> Mapping[str, int]:
    return compute_billed_cost(
        NAME, get_count(get_object(data, "usage"), "credits"), promised=promised
    )


async def _get_usage(vendor: VendorApi) -> str:
    own = get_object((await vendor.get("/usage")).data, "key")
    used, limit = get_count(own, "usage"), get_count(own, "limit")
    if used is None:
        return "it takes our key, and does not say what is used"
    return f"{used} credits used" if limit is None else f"{used} of {limit} credits used"
