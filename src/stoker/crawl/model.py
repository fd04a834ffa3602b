"""Pages, what they say, visits and how they ended.

Menus and footers are on every page of a site; a site's joined text has them once. It is strangers'
text, never instructions. A fingerprint is equal when pages say the same, whatever their markup:
tokens, clock times and counters do not count; words, prices, names and other numbers do.
Challenges, logins, parked domains and empty shells are recognized by a few words and by how little
else there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b

from stoker.accounts.facts import Fact
from stoker.base.formats import format_count
from stoker.http.url import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """What is stored of a page, so that the next visit fetches only what changed."""

    url: str
    status: int
    etag: str = ""
    last_modified: str = ""
    fingerprint: str = ""  # of what the page says, not of its markup
    seen_at: datetime
    changed_at: datetime  # when its text last differed


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitRequest:
    url: str
    known: Sequence[PageState] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page as it was read this time. Its text is data, whatever it says."""

    url: str
    kind: str  # home, about, contact, team, careers, pricing, …, other
    title: str
    text: str
    facts: tuple[Fact, ...] = ()  # what it says, without the technology behind it
    seen: PageState


class VisitOutcome(StrEnum):
    READ = "read"  # pages were read, and something is new
    UNCHANGED = "unchanged"  # all pages are as they were last time
    THIN = "thin"  # pages were read, but have almost no text
    BLOCKED = "blocked"  # robots.txt, a login or a challenge: we are not wanted
    GONE = "gone"  # there is no such site, or nothing at its addresses
    FAILED = "failed"  # it did not answer in time, or not in a way we can read


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteVisit:
    """One visit to one site: what was read, what it used, and why it ended."""

    site: str
    outcome: VisitOutcome
    reason: str  # a sentence a tenant can read
    pages: tuple[Page, ...] = ()
    seen: tuple[PageState, ...] = ()  # to be stored, pages not read this time included
    facts: tuple[Fact, ...] = ()  # emails, phones, social links, technology
    requests: int = 0
    bytes: int = 0
    not_modified: int = 0
    limits_hit: tuple[str, ...] = ()  # pages, bytes, requests, time, reading
    unwanted: bool = False  # its robots.txt refuses us, and any reader that acts for us


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Text of one page. It is data, whatever it says."""

    url: str
    text: str
    kind: str = "other"


MIN_TEXT_LENGTH = 200  # characters; a site with less text in all is thin
_MAX_WALL_LENGTH = 1_500  # characters; a longer page is no mere wall

_CHALLENGE = re.compile(
    r"just a moment|checking your browser|verify (?:that )?you are (?:a )?human|are you a robot"
    r"|enable javascript and cookies|attention required|access denied|captcha|ddos protection"
    r"|request blocked|unusual traffic"
)

_COOKIES = re.compile(
    r"(?:accept|agree|consent).{0,40}cookies|cookies.{0,40}(?:accept|agree|to continue|to go on)"
)

_PARKED = re.compile(
    r"domain (?:name )?(?:is |may be )?for sale|buy this domain|this domain is parked"
    r"|domain parking|parked free|domain has expired"
)

_MISSING = re.compile(
    r"\b404\b|not found|cannot find (?:that|the|this) page|page (?:does not|doesn.t) exist"
    r"|no longer (?:exists|available)|page you (?:requested|are looking for)"
)


class PageType(StrEnum):
    PAGE = "page"
    CHALLENGE = "challenge"
    LOGIN = "login"
    COOKIE_WALL = "cookie_wall"
    PARKED = "parked"
    SHELL = "shell"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReading:
    """What a page says, as it was read in a process of its own."""

    type: PageType
    title: str
    text: str
    fingerprint: str
    links: tuple[tuple[Url, str], ...]  # of a home page: pages of its site, with the links' texts
    contacts: tuple[Fact, ...]  # and technology: what a visit reports
    facts: tuple[Fact, ...]  # without technology: what a lookup learns


@dataclass(frozen=True, slots=True)
class VisitEnd:
    """How a visit ended, with a sentence for the tenant."""

    outcome: VisitOutcome
    reason: str
    unwanted: bool = False  # the site asked us not to crawl it


_VISIT_ENDS = {
    PageType.CHALLENGE: VisitEnd(VisitOutcome.BLOCKED, "blocked by a human check (captcha)"),
    PageType.LOGIN: VisitEnd(VisitOutcome.BLOCKED, "blocked by a login page"),
    PageType.COOKIE_WALL: VisitEnd(VisitOutcome.BLOCKED, "blocked by a cookie wall"),
    PageType.PARKED: VisitEnd(VisitOutcome.GONE, "the domain is parked or for sale"),
    PageType.MISSING: VisitEnd(VisitOutcome.GONE, "the home page is a not-found page"),
    PageType.SHELL: VisitEnd(
        VisitOutcome.THIN,
        "the website is empty without JavaScript",
    ),
}


def classify_page(
    *, title: str, text: str, asks_for_password: bool, wants_script: bool
) -> PageType:
    if len(text) > _MAX_WALL_LENGTH:
        return PageType.PAGE
    words = f"{title}\n{text}".lower()
    if _CHALLENGE.search(words):
        return PageType.CHALLENGE
    if _PARKED.search(words):
        return PageType.PARKED
    if len(text) > _MAX_WALL_LENGTH // 2:
        return PageType.PAGE
    if asks_for_password:
        return PageType.LOGIN
    if _MISSING.search(words) and len(text) < _MAX_WALL_LENGTH // 3:
        return PageType.MISSING
    if _COOKIES.search(words):
        return PageType.COOKIE_WALL
    return PageType.SHELL if wants_script and len(text) < MIN_TEXT_LENGTH else PageType.PAGE


def find_page_end(nature: PageType) -> VisitEnd | None:
    """Return how a visit with such a home page ends, or None if it goes on."""
    return _VISIT_ENDS.get(nature)


def find_status_end(status: int) -> VisitEnd | None:
    """Return how a visit with this status of the home page ends, or None if it goes on."""
    if status in (200, 203, 304):
        return None
    if status in (401, 402, 403, 407, 451):
        return VisitEnd(VisitOutcome.BLOCKED, f"the website denied access (status {status})")
    if status in (404, 410):
        return VisitEnd(VisitOutcome.GONE, f"the website has no home page (status {status})")
    if status in (429, 503):
        return VisitEnd(
            VisitOutcome.FAILED, f"the website asked us to retry later (status {status})"
        )
    return VisitEnd(VisitOutcome.FAILED, f"the website returned status {status}")


def get_visit_end(*, read: int, changed: int, not_modified: int, letters: int) -> VisitEnd:
    """Return how a visit ended that got past the home page.

    `read` pages were downloaded, `changed` of them have new text, `not_modified` did not change;
    `letters` is the length of the text of all pages read.
    """
    if not changed and read + not_modified:
        pages = format_count(read + not_modified, "page")
        return VisitEnd(VisitOutcome.UNCHANGED, f"{pages} unchanged since the last visit")
    if letters < MIN_TEXT_LENGTH and not not_modified:
        return VisitEnd(VisitOutcome.THIN, f"the website has almost no text ({letters} characters)")
    if not read:
        return VisitEnd(VisitOutcome.THIN, "no page of the website could be read")
    return VisitEnd(
        VisitOutcome.READ, f"{format_count(read, 'page')} read, {changed} new or changed"
    )


_MAX_LINE_LENGTH = 2_000


PageText = Page | Excerpt  # a page with a URL and text, read by us or by a vendor


def build_corpus_key(company: str) -> str:
    """Return the cache key of a company's corpus; no vendor query has such a key."""
    return f"corpus/{company}"


def build_corpus(pages: Iterable[PageText], *, most: int) -> str:
    """Return the pages' texts under their URLs, at most `most` characters.

    A line of an earlier page is not repeated. Every page gets a fair share.
    """
    return "\n".join(part for _, part in choose_page_parts(pages, most=most))[:most]


def choose_page_parts(pages: Iterable[PageText], *, most: int) -> list[tuple[PageText, str]]:
    """Return each page with its part of the corpus; pages without a part are left out.

    Use this to know which page says something: a page can forge headings.
    """
    blocks = [block for block in _split_blocks(pages) if block[2]]
    left, parts = most, []
    for place, (page, heading, lines) in enumerate(blocks):
        fair = left // (len(blocks) - place)
        part = _fit_lines(heading, lines, most=fair)
        # The line break between two pages counts too.
        left -= len(part) + 1
        if part:
            parts.append((page, part))
    return parts


def _split_blocks(pages: Iterable[PageText]) -> Iterable[tuple[PageText, str, list[str]]]:
    heard: set[str] = set()
    for page in pages:
        lines = []
        for line in page.text.split("\n"):
            same = " ".join(line.lower().split())
            if same and same not in heard:
                heard.add(same)
                lines.append(line.strip()[:_MAX_LINE_LENGTH])
        yield page, f"[{page.kind}] {page.url}", lines


def _fit_lines(heading: str, lines: list[str], *, most: int) -> str:
    if len(heading) >= most:
        return ""
    return "\n".join([heading, *lines])[:most]


_TOKENS = re.compile(r"\b(?=[0-9a-z-]{0,31}[0-9])[0-9a-f]{8}(?:-?[0-9a-f]{4}){2,8}[0-9a-f]{0,64}\b")

_TIMESTAMPS = re.compile(
    r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:z|[+-][0-9]{2}:?[0-9]{2})?\b"
    r"|\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}\b"
    r"|(?:mon|tue|wed|thu|fri|sat|sun), [0-9]{1,2} [a-z]{3} [0-9]{4} [0-9:]{4,8}"
)

_COUNTERS = re.compile(
    r"\b[0-9][0-9,.]{0,15}k? (?:views?|visits?|visitors?|online|likes?|shares?|followers?|hits"
    r"|downloads?|reads?)\b"
    r"|\b(?:views|visits|visitors|hits|online now|page generated in|rendered in)"
    r":? [0-9][0-9,.]{0,15}(?: ?(?:ms|s|seconds))?\b"
)

_COPYRIGHT = re.compile(r"(?:©|\(c\)|copyright) ?[0-9]{4}(?: ?[-–] ?[0-9]{4})?")


def get_stable_text(text: str) -> str:
    """Return a page's text without what differs on every visit."""
    words = " ".join(text.lower().split())
    for noise in (_TOKENS, _TIMESTAMPS, _COUNTERS, _COPYRIGHT):
        words = noise.sub("", words)
    return " ".join(words.split())


def compute_fingerprint(*texts: str) -> str:
    """Return a short text that is equal for pages that say the same."""
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(get_stable_text(text).encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def compute_exact_fingerprint(parts: Iterable[str]) -> str:
    """Return a short text that is equal for equal parts in the same order."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()
