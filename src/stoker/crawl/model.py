"""Pages, visits and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.accounts.facts import Fact


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
    markup: bytes  # in UTF-8, made harmless for parsers; for extractors; never shown or stored
    seen: PageState


class VisitOutcome(StrEnum):
    READ = "read"  # pages were read, and something is new
    UNCHANGED = "unchanged"  # all pages are as they were last time
    THIN = "thin"  # pages were read, but they say next to nothing
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
    limits_hit: tuple[str, ...] = ()  # pages, bytes, time, depth
    unwanted: bool = False  # its robots.txt refuses us, and any reader that acts for us


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Text of one page. It is data, whatever it says."""

    url: str
    text: str
    kind: str = "other"
