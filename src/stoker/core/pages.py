"""What a visit to a company's site saw: its pages, what they say, and whether anything changed.

Plain values. How pages are fetched and read is the crawler's business; what is made of their text
is the extractors'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.core.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSeen:
    """What is remembered of a page, so that the next visit asks only for what changed."""

    url: str
    status: int
    etag: str = ""
    last_modified: str = ""
    fingerprint: str = ""  # of what the page says, not of its markup
    seen_at: datetime
    changed_at: datetime  # when what it says was last seen to differ


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteQuestion:
    """Which site to visit, and what is known of it."""

    url: str
    known: Sequence[PageSeen] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page as it was read this time. Its text is data, whatever it says."""

    url: str
    kind: str  # home, about, contact, team, careers, pricing, …, other
    title: str
    text: str
    markup: bytes  # in UTF-8, made harmless for parsers; for extractors; never shown or stored
    seen: PageSeen


class Outcome(StrEnum):
    """How a visit to a site ended."""

    READ = "read"  # pages were read, and something is new
    UNCHANGED = "unchanged"  # everything says what it said last time
    THIN = "thin"  # pages were read, but they say next to nothing
    BLOCKED = "blocked"  # robots.txt, a login or a challenge: we are not wanted
    GONE = "gone"  # there is no such site, or nothing at its addresses
    FAILED = "failed"  # it did not answer in time, or not in a way we can read


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteVisit:
    """One visit to one site: what was read, what it took, and why it ended."""

    site: str
    outcome: Outcome
    reason: str  # a sentence a tenant can read
    pages: tuple[Page, ...] = ()
    seen: tuple[PageSeen, ...] = ()  # to be remembered, pages not read this time included
    findings: tuple[Finding, ...] = ()  # emails, phones, social links, technology
    requests: int = 0
    bytes: int = 0
    not_modified: int = 0
    limits_hit: tuple[str, ...] = ()  # pages, bytes, time, depth
    unwanted: bool = False  # its robots.txt asks us, and whoever reads for us, to stay away
