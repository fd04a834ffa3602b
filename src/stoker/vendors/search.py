"""Web search and page reading through a vendor: queries, results and how long they are good.

Results come from strangers: addresses are checked, texts cleaned and cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.accounts.websites import SearchHit
from stoker.base.errors import PermanentError
from stoker.base.jsontools import get_line, get_list, get_object, get_text, has_list
from stoker.base.types import Json, clean_text
from stoker.http.url import parse_url

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
