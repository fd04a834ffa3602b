"""Whom a company's night may ask: its site, a search engine, a model, contact vendors, a verifier.

Those that cost something are connectors, and None when there is no key for them. What is done
with their answers is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stoker.core.contacting import People, PeopleAt, Reveal, Revealed
from stoker.core.extracting import Excerpt, Extraction
from stoker.core.findings import Extracted
from stoker.core.pages import Page, PageSeen, SiteVisit
from stoker.core.rationales import Reworded, Rewording
from stoker.core.searching import Found, Search
from stoker.core.verifying_emails import Batch, VerifiedBatch
from stoker.sources import Connector


class Visits(Protocol):
    """Visits sites politely. Whatever a site does, a visit ends with an outcome."""

    async def visit(self, url: str, *, known: Sequence[PageSeen] = ()) -> SiteVisit:
        """Visit a site; with what is known of its pages, ask only for changes."""
        ...


class PlainExtractor(Protocol):
    """Makes findings of pages without asking anybody."""

    def __call__(self, pages: Iterable[Page], *, told: Iterable[Excerpt] = ()) -> Extracted:
        """Return what pages say, and what other pages tell. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanySources:
    """Everybody a night can ask about a company."""

    visits: Visits
    site_named: Callable[[str], str]  # the site an address belongs to, as visits are remembered
    plain: PlainExtractor
    search: Connector[Search, Found] | None = None
    model: Connector[Extraction, Extracted] | None = None
    people: Connector[PeopleAt, People] | None = None
    reveal: Connector[Reveal, Revealed] | None = None
    verifier: Connector[Batch, VerifiedBatch] | None = None
    rationales: Connector[Rewording, Reworded] | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """What nobody can be asked for, in words."""
        absent = {
            "search": self.search,
            "a model": self.model,
            "contacts": self.people if self.reveal else None,
            "verification": self.verifier,
        }
        return tuple(name for name, connector in absent.items() if connector is None)
