"""Tavily: web search, and pages read for us; queries, results and how long they are good.

Its answers say what was charged. A search has basic depth unless the query asks for more, and never
a depth that Tavily chooses, because that doubles the price. Results come from strangers: addresses
are checked, texts cleaned and cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.accounts.websites import SearchHit
from stoker.base.errors import ConfigError, PermanentError, UncertainError
from stoker.base.jsontools import get_count, get_line, get_list, get_object, get_text, has_list
from stoker.base.types import Json, clean_text
from stoker.budgets.model import Health, Paid
from stoker.context import TenantContext
from stoker.http.api_client import (
    StatusMeaning,
    VendorApi,
    check_api_key,
    check_health,
    compute_billed_cost,
)
from stoker.http.client import HttpClient, build_http_client
from stoker.http.url import parse_url
from stoker.vendors.table import TavilySettings, get_key

MAX_QUERY_LENGTH = 399  # characters

MAX_PAGES = 20

MAX_TITLE_LENGTH, MAX_SNIPPET_LENGTH, MAX_PAGE_LENGTH = 300, 2_000, 50_000

SEARCH_TTL, NO_RESULT_TTL = timedelta(days=30), timedelta(days=7)


class SearchDepth(StrEnum):
    """How hard a search engine searches; a deeper search costs more."""

    BASIC = "basic"
    ADVANCED = "advanced"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The pages a search found, best first."""

    pages: tuple[SearchHit, ...] = ()

    @property
    def ttl(self) -> timedelta:
        """An empty result is asked for again sooner."""
        return SEARCH_TTL if self.pages else NO_RESULT_TTL

    def as_json(self) -> Json:
        """Return the answer as it is cached."""
        return {"pages": [[page.url, page.title, page.text, page.score] for page in self.pages]}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A web search. `build_company_search` builds one within bounds."""

    query: str
    most: int = 5
    depth: SearchDepth = SearchDepth.BASIC
    only: tuple[str, ...] = ()  # domains; empty: anywhere
    never: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.query.strip() or len(self.query) > MAX_QUERY_LENGTH:
            raise PermanentError(f"a search has 1 to {MAX_QUERY_LENGTH} characters; shorten it")
        if not 1 <= self.most <= MAX_PAGES:
            raise PermanentError(f"a search brings 1 to {MAX_PAGES} pages, not {self.most}")

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {
            "search": self.query,
            "most": self.most,
            "depth": self.depth.value,
            "only": sorted(self.only),
            "never": sorted(self.never),
        }

    def decode_answer(self, cached: Json) -> SearchResult:
        """Decode a cached answer."""
        if not has_list(cached, "pages"):
            raise PermanentError("the cached answer is no search result; it is asked for again")
        pages = []
        for row in get_list(cached, "pages", most=MAX_PAGES):
            if not isinstance(row, list | tuple) or len(row) != 4:
                raise PermanentError("the cached answer is no search result; it is asked for again")
            url, title, text, score = row
            share = float(score) if isinstance(score, int | float) else 0.0
            pages.append(SearchHit(url=str(url), title=str(title), text=str(text), score=share))
        return SearchResult(pages=tuple(pages))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTexts:
    """The texts of pages, as far as the vendor could read them."""

    pages: tuple[SearchHit, ...] = ()
    unread: tuple[str, ...] = ()  # addresses

    @property
    def ttl(self) -> timedelta:
        """An answer with unread pages is asked for again sooner."""
        return NO_RESULT_TTL if self.unread or not self.pages else SEARCH_TTL

    def as_json(self) -> Json:
        """Return the answer as it is cached."""
        return {
            "pages": [{"url": page.url, "raw_content": page.text} for page in self.pages],
            "unread": list(self.unread),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTextsQuery:
    """Pages that the vendor should read for us, because they refuse us."""

    urls: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.urls) <= MAX_PAGES:
            raise PermanentError(f"1 to {MAX_PAGES} pages are read at a time, no more")
        for url in self.urls:
            parse_url(url)

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {"read": sorted(self.urls)}

    def decode_answer(self, cached: Json) -> PageTexts:
        """Decode a cached answer."""
        if not has_list(cached, "pages") or not has_list(cached, "unread"):
            raise PermanentError("the cached answer holds no pages; it is asked for again")
        return PageTexts(
            pages=tuple(parse_hits(get_list(cached, "pages", most=MAX_PAGES), text="raw_content")),
            unread=tuple(str(url) for url in get_list(cached, "unread", most=MAX_PAGES)),
        )


def build_company_search(company: str, *more: str, only: tuple[str, ...] = ()) -> SearchQuery:
    """Return the search for a company; `more` words tell it from others of its name."""
    words = " ".join(" ".join((f'"{clean_text(company)}"', *map(clean_text, more))).split())
    return SearchQuery(query=words[:MAX_QUERY_LENGTH].rstrip(), only=only)


def parse_hits(items: Iterable[Json], *, text: str) -> list[SearchHit]:
    """Return the pages in a vendor's list; those without a usable address are left out.

    `text` names the field with a page's text.
    """
    longest = MAX_PAGE_LENGTH if text == "raw_content" else MAX_SNIPPET_LENGTH
    pages: dict[str, SearchHit] = {}
    for item in items:
        try:
            url = str(parse_url(get_line(item, "url", longest=8_000)))
        except PermanentError:
            continue
        score = get_object(item).get("score")
        share = float(score) if isinstance(score, int | float) else 0.0
        pages.setdefault(
            url,
            SearchHit(
                url=url,
                title=get_line(item, "title", longest=MAX_TITLE_LENGTH),
                text=get_text(item, text, longest=longest).strip(),
                score=min(max(share, 0.0), 1.0),
            ),
        )
    return list(pages.values())


NAME = "tavily"

DEADLINE = timedelta(seconds=60)

URLS_PER_CREDIT = 5

STATUSES: Mapping[int, StatusMeaning] = {
    401: StatusMeaning(ConfigError, "refuses our key; check keys.tavily in the settings"),
    403: StatusMeaning(ConfigError, "does not offer this to our account; check its plan"),
    432: StatusMeaning(
        ConfigError, "says the plan's limit is reached; raise it or wait for its renewal"
    ),
    433: StatusMeaning(ConfigError, "says the pay-as-you-go limit is reached; raise it there"),
}

_PRICES = {SearchDepth.BASIC: 1, SearchDepth.ADVANCED: 2}


def build_tavily_api(
    http: HttpClient,
    *,
    key: str,
    base_url: str = TavilySettings.base_url,
    deadline: timedelta = DEADLINE,
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
            cost=_compute_cost(data, reserved=self.price(question)["credits"]),
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
            cost=_compute_cost(data, reserved=self.price(question)["credits"]),
        )


def _get_results(data: Json) -> list[Json]:
    if not has_list(data, "results"):
        raise UncertainError(f"{NAME} returned no results; it may have been charged")
    return get_list(data, "results", most=MAX_PAGES)


def _compute_cost(data: Json, *, reserved: int) -> Mapping[str, int]:
    return compute_billed_cost(
        NAME, get_count(get_object(data, "usage"), "credits"), reserved=reserved
    )


async def _get_usage(vendor: VendorApi) -> str:
    own = get_object((await vendor.get("/usage")).data, "key")
    used, limit = get_count(own, "usage"), get_count(own, "limit")
    if used is None:
        return "it takes our key, and does not say what is used"
    return f"{used} credits used" if limit is None else f"{used} of {limit} credits used"


def build_search(tenant: TenantContext) -> TavilySearch:
    """Build a tenant's web search. Raises ConfigError when Tavily is off."""
    return TavilySearch(tenant.get(_build_api))


def build_page_reader(tenant: TenantContext) -> TavilyPageReader:
    """Build what reads pages that do not let us in. Raises ConfigError when Tavily is off."""
    return TavilyPageReader(tenant.get(_build_api))


def _build_api(tenant: TenantContext) -> VendorApi:
    return build_tavily_api(
        tenant.process.get(build_http_client),
        key=get_key(tenant, NAME),
        base_url=tenant.settings.get_vendor(TavilySettings).base_url,
    )
