"""Work items of a run, the vendors a lookup may ask, and the store of work items.

A work item is one company in one run. `nightly.targets` chooses items and the pipeline processes
them. Paid vendors are None when there is no key for them. Each store verb is atomic and belongs to
one tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from stoker.accounts.facts import ExtractedFacts
from stoker.accounts.model import CompanyId, CompanyRecord, SentRow
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, Step
from stoker.budgets.model import Connector
from stoker.crawl.model import Excerpt, Page, PageState, SiteVisit
from stoker.leads.rationale import RationaleAnswer, RationaleQuery
from stoker.vendors.contacts import People, PeopleQuery, RevealedEmails, RevealQuery
from stoker.vendors.email_verification import BatchVerdicts, EmailBatch
from stoker.vendors.extraction import ExtractionQuery
from stoker.vendors.search import SearchQuery, SearchResult

KIND = "nightly"  # what a night's runs are listed under

COMPANY_STEPS = (Step.CRAWL, Step.EXTRACT, Step.CONTACTS, Step.VERIFY, Step.SCORE)
"""The steps that are taken company by company."""

LOOKUP_STEPS = (Step.CRAWL, Step.EXTRACT, Step.CONTACTS)
"""The steps that look something up: a run with any of them pays pull units."""


def has_lookup_step(steps: Iterable[Step]) -> bool:
    """Say whether a night of these steps looks at companies, or only works on what is known."""
    return any(step in LOOKUP_STEPS for step in steps)


def is_lookup(unit: WorkItem) -> bool:
    """Say whether anything was looked for: what only verifies or scores took no such step."""
    return any(step in unit.seconds for step in LOOKUP_STEPS)


class WorkState(StrEnum):
    """Where one company's night stands. Everything but WAITING and TAKEN is an end."""

    WAITING = "waiting"
    CLAIMED = "taken"
    DONE = "done"
    DEGRADED = "degraded"  # done, but a cap or a vendor left a part of it out
    FAILED = "poisoned"  # this company cannot be processed; the reason says why
    DROPPED = "shed"  # left out so that the rest could be finished in time
    UNKNOWN = "unknown"  # a paid call's outcome is not known; it is not repeated this day


END_STATES = frozenset(WorkState) - {WorkState.WAITING, WorkState.CLAIMED}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One company's night."""

    company: CompanyId
    rank: int  # its place in tonight's order, the most valuable first
    depth: Depth
    state: WorkState = WorkState.WAITING
    owner: str = ""
    claimed_until: datetime | None = None  # how long its owner has it without a sign of life
    reason: str = ""  # why it was chosen, and at this depth
    reasons: tuple[str, ...] = ()  # what was left out or went wrong, in sentences
    cost: Mapping[str, int] = field(default_factory=dict)  # by connector and unit: tavily/calls
    saved: Mapping[str, int] = field(default_factory=dict)  # answers that cost nothing again
    seconds: Mapping[str, float] = field(default_factory=dict)  # by step
    ended_at: datetime | None = None


def choose_steps(*, only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[Step, ...]:
    """Return the steps a night is to take, in order. Raises ConfigError for a step there is not."""
    wanted, unwanted = set(only), set(skip)
    for name in sorted(wanted | unwanted):
        if name not in {step.value for step in Step}:
            raise ConfigError(f"there is no step {name!r}; steps are {', '.join(Step)}")
    if both := sorted(wanted & unwanted):
        raise ConfigError(f"{', '.join(both)} is both in --only and in --skip; say one of them")
    chosen = tuple(step for step in Step if (not wanted or step in wanted) and step not in unwanted)
    if not chosen:
        raise ConfigError("that leaves no step to take; skip fewer")
    return chosen


class WorkStore(Protocol):
    """One tenant's items of work, and what it has written into its CRM."""

    async def insert_items(self, run: str, units: Sequence[WorkItem]) -> int:
        """Add items to a run; return how many were new. One already there stays as it is.

        Raises ConflictError, and adds nothing, when a new one's place in the order is another's.
        """
        ...

    async def claim_items(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[WorkItem]:
        """Claim the next items that are free, or whose owner's claim expired, in their order.

        A claim has expired when its `until` is not after `now`. Atomic: of many workers each item
        goes to one. Claiming extends no existing claim.
        """
        ...

    async def extend_claims(self, run: str, *, owner: str, until: datetime) -> int:
        """Lengthen everything this owner has taken; return how many. It never shortens."""
        ...

    async def finish_item(self, run: str, unit: WorkItem, dossier: CompanyRecord | None) -> bool:
        """Write down how an item ended, and what is known about its company now, together.

        False, and nothing is written, when the item has ended already, has another owner or was
        never planned; an unclaimed item has the empty owner. Its rank stays as planned.
        The record replaces what was known, contacts and score included; empty values never do,
        as `accounts.model.merge_company_record` does.
        """
        ...

    async def release_items(self, run: str, *, owner: str) -> int:
        """Make everything this owner has taken and not finished free again; return how many."""
        ...

    async def list_items(
        self, run: str, *, states: Sequence[WorkState] = (), after: int = -1, limit: int = 1000
    ) -> list[WorkItem]:
        """Return one page of a run's items in their order, beginning after a place."""
        ...

    async def count_items(self, run: str) -> dict[WorkState, int]:
        """Return how many units of a run are in each state; a state without any is left out."""
        ...

    async def list_item_runs(self) -> list[str]:
        """Return the names of all runs that have items, oldest first."""
        ...

    async def delete_items(self, run: str, *, limit: int = 10_000) -> int:
        """Delete items of a run that no longer exists; return how many, 0 once none is left."""
        ...

    async def find_last_item(self, company: CompanyId) -> tuple[str, WorkItem] | None:
        """Return the newest run that had this company, by the run's name, and its unit."""
        ...

    async def find_last_items(
        self, companies: Sequence[CompanyId]
    ) -> dict[CompanyId, tuple[str, WorkItem]]:
        """Return of each company that ever had an item what `find_last_item` does."""
        ...

    async def find_sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        """Return what was last written under these ids, by id: the latest, whichever run's.

        With what all writes under the id together have settled.
        """
        ...

    async def save_sent_rows(self, rows: Sequence[SentRow]) -> None:
        """Save what was written; `before` of the same run stays as it was first saved.

        What another run wrote under the same id stays beside it, and what is settled follows
        from that alone. Atomic.
        """
        ...

    async def list_sent_rows(
        self, run: str, *, after: str = "", limit: int = 1000
    ) -> list[SentRow]:
        """Return one page of what a run wrote, in id order."""
        ...


class SiteVisitor(Protocol):
    """Visits sites politely. Whatever a site does, a visit ends with an outcome."""

    async def visit(self, url: str, *, known: Sequence[PageState] = ()) -> SiteVisit:
        """Visit a site; with what is known of its pages, ask only for changes."""
        ...


class RuleExtractor(Protocol):
    """Makes findings of pages without asking anybody."""

    def __call__(self, pages: Iterable[Page], *, told: Iterable[Excerpt] = ()) -> ExtractedFacts:
        """Return the facts on pages and in excerpts of other pages. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyVendors:
    """The sources a lookup can ask about a company."""

    crawler: SiteVisitor
    to_site: Callable[[str], str]  # the site an address belongs to, as visits are remembered
    extract_facts: RuleExtractor
    search: Connector[SearchQuery, SearchResult] | None = None
    llm: Connector[ExtractionQuery, ExtractedFacts] | None = None
    people: Connector[PeopleQuery, People] | None = None
    reveal: Connector[RevealQuery, RevealedEmails] | None = None
    verifier: Connector[EmailBatch, BatchVerdicts] | None = None
    rationales: Connector[RationaleQuery, RationaleAnswer] | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """What no vendor is set up for, as text."""
        absent = {
            "search": self.search,
            "a model": self.llm,
            "contacts": self.people if self.reveal else None,
            "verification": self.verifier,
        }
        return tuple(name for name, connector in absent.items() if connector is None)
