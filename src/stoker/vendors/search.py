"""Searching the web and reading pages through a vendor: what is asked, what comes back, its worth.

Pages are strangers' words: addresses are checked, texts cleaned and cut. Who is asked, and for
how much, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.accounts.websites import FoundPage
from stoker.base.errors import PermanentError
from stoker.base.jsontools import has_list, list_in, object_in, text_in, words_in
from stoker.base.types import Json, clean_text
from stoker.http.url import web_address

LONGEST_QUERY = 399  # characters

MOST_PAGES = 20

LONGEST_TITLE, LONGEST_SNIPPET, LONGEST_PAGE = 300, 2_000, 50_000

GOOD_FOR, NOTHING_GOOD_FOR = timedelta(days=30), timedelta(days=7)


class SearchDepth(StrEnum):
    """How hard a search engine looks. Harder costs more, so nobody gets it without asking."""

    BASIC = "basic"
    ADVANCED = "advanced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search led to, best first."""

    pages: tuple[FoundPage, ...] = ()

    @property
    def good_for(self) -> timedelta:
        """Nothing found is worth asking again sooner."""
        return GOOD_FOR if self.pages else NOTHING_GOOD_FOR

    def as_json(self) -> Json:
        """Return it as it is kept."""
        return {"pages": [[page.url, page.title, page.text, page.score] for page in self.pages]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A question to a search engine. Build it with `search_for`, which keeps it within bounds."""

    query: str
    most: int = 5
    depth: SearchDepth = SearchDepth.BASIC
    only: tuple[str, ...] = ()  # domains; empty: anywhere
    never: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.query.strip() or len(self.query) > LONGEST_QUERY:
            raise PermanentError(f"a search has 1 to {LONGEST_QUERY} characters; shorten it")
        if not 1 <= self.most <= MOST_PAGES:
            raise PermanentError(f"a search brings 1 to {MOST_PAGES} pages, not {self.most}")

    def as_json(self) -> Json:
        """Return what is asked."""
        return {
            "search": self.query,
            "most": self.most,
            "depth": self.depth.value,
            "only": sorted(self.only),
            "never": sorted(self.never),
        }

    def answered(self, kept: Json) -> Found:
        """Return a kept answer."""
        if not has_list(kept, "pages"):
            raise PermanentError("what is kept here is no search; it is asked anew")
        pages = []
        for row in list_in(kept, "pages", most=MOST_PAGES):
            if not isinstance(row, list | tuple) or len(row) != 4:
                raise PermanentError("what is kept here is no search; it is asked anew")
            url, title, text, score = row
            share = float(score) if isinstance(score, int | float) else 0.0
            pages.append(FoundPage(url=str(url), title=str(title), text=str(text), score=share))
        return Found(pages=tuple(pages))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTexts:
    """What pages say, as far as they could be read."""

    pages: tuple[FoundPage, ...] = ()
    unread: tuple[str, ...] = ()  # addresses

    @property
    def good_for(self) -> timedelta:
        """Pages that could not be read are worth asking again sooner."""
        return NOTHING_GOOD_FOR if self.unread or not self.pages else GOOD_FOR

    def as_json(self) -> Json:
        """Return it as it is kept."""
        return {
            "pages": [{"url": page.url, "raw_content": page.text} for page in self.pages],
            "unread": list(self.unread),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPages:
    """Pages that somebody else should read for us: those that do not let us in."""

    urls: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.urls) <= MOST_PAGES:
            raise PermanentError(f"1 to {MOST_PAGES} pages are read at a time, no more")
        for url in self.urls:
            web_address(url)

    def as_json(self) -> Json:
        """Return what is asked."""
        return {"read": sorted(self.urls)}

    def answered(self, kept: Json) -> PageTexts:
        """Return a kept answer."""
        if not has_list(kept, "pages") or not has_list(kept, "unread"):
            raise PermanentError("what is kept here are no pages; they are asked for anew")
        return PageTexts(
            pages=tuple(read_pages(list_in(kept, "pages", most=MOST_PAGES), text="raw_content")),
            unread=tuple(str(url) for url in list_in(kept, "unread", most=MOST_PAGES)),
        )


def search_for(company: str, *more: str, only: tuple[str, ...] = ()) -> Search:
    """Return the search for a company, with more words to tell it from others of its name."""
    words = " ".join(" ".join((f'"{clean_text(company)}"', *map(clean_text, more))).split())
    return Search(query=words[:LONGEST_QUERY].rstrip(), only=only)


def read_pages(items: Iterable[Json], *, text: str) -> list[FoundPage]:
    """Return the pages a vendor's list speaks of; what has no usable address is left out.

    `text` is the field a page's words are in.
    """
    longest = LONGEST_PAGE if text == "raw_content" else LONGEST_SNIPPET
    pages: dict[str, FoundPage] = {}
    for item in items:
        try:
            url = str(web_address(text_in(item, "url", longest=8_000)))
        except PermanentError:
            continue
        score = object_in(item).get("score")
        share = float(score) if isinstance(score, int | float) else 0.0
        pages.setdefault(
            url,
            FoundPage(
                url=url,
                title=text_in(item, "title", longest=LONGEST_TITLE),
                text=words_in(item, text, longest=longest).strip(),
                score=min(max(share, 0.0), 1.0),
            ),
        )
    return list(pages.values())
