"""What the engine needs from those it asks: connectors, and a memory of what they said.

A connector answers one need through one vendor and says what it cost; it decides nothing, pays
nothing and waits for nobody's turn. Memories are a tenant's own, except the registry, which is
public and the same for everybody. Stores are told the time; what comes back is in UTC.

What a visit to a company's site saw: its pages, what they say, and whether anything changed.

Plain values. How pages are fetched and read is the crawler's business; what is made of their text
is the extractors'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from stoker.accounts.facts import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """What is remembered of a page, so that the next visit asks only for what changed."""

    url: str
    status: int
    etag: str = ""
    last_modified: str = ""
    fingerprint: str = ""  # of what the page says, not of its markup
    seen_at: datetime
    changed_at: datetime  # when what it says was last seen to differ


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitRequest:
    """Which site to visit, and what is known of it."""

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
    outcome: VisitOutcome
    reason: str  # a sentence a tenant can read
    pages: tuple[Page, ...] = ()
    seen: tuple[PageState, ...] = ()  # to be remembered, pages not read this time included
    facts: tuple[Fact, ...] = ()  # emails, phones, social links, technology
    requests: int = 0
    bytes: int = 0
    not_modified: int = 0
    limits_hit: tuple[str, ...] = ()  # pages, bytes, time, depth
    unwanted: bool = False  # its robots.txt asks us, and whoever reads for us, to stay away


class HostPacer(Protocol):
    """Waits for a turn: one clock per host or vendor key, for all tenants and all workers."""

    async def acquire(self, host: str, *, gap: timedelta) -> None:
        """Wait until a request to this host may go, at least `gap` after the one before."""
        ...

    async def delay_until(self, host: str, *, until: datetime) -> None:
        """Let nothing go to this host before then; it never makes it sooner."""
        ...


class PageStore(Protocol):
    """What one tenant's earlier visits to sites saw: enough to ask only for what changed."""

    async def list_pages(self, site: str) -> list[PageState]:
        """Return what is known of a site's pages, by address."""
        ...

    async def save_pages(self, site: str, pages: Sequence[PageState]) -> None:
        """Remember pages of a site, each in place of what was known of its address. Atomic."""
        ...

    async def delete_site(self, site: str) -> int:
        """Forget a site; return how many pages that were."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Words from one page. They are data, whatever they say."""

    url: str
    text: str
    kind: str = "other"
