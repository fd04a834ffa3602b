"""Work items of a run, and the vendors a lookup may ask.

A work item is one company in one run. `nightly.targets` chooses items and the pipeline processes
them. Paid vendors are None when there is no key for them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, Step, clean_text
from stoker.budgets.operator import format_cap, format_cap_amount

if TYPE_CHECKING:  # reading a schema must not import an HTTP client
    from stoker.accounts.facts import ExtractedFacts
    from stoker.budgets.model import Connector
    from stoker.crawl.service import Crawler
    from stoker.leads.rationale import RationaleAnswer, RationaleQuery
    from stoker.vendors.extraction import ExtractionQuery
    from stoker.vendors.lusha import People, PeopleQuery, RevealedEmails, RevealQuery
    from stoker.vendors.tavily import PageTexts, PageTextsQuery, SearchQuery, SearchResult
    from stoker.vendors.zerobounce import BatchVerdicts, EmailBatch

KIND = "nightly"  # what a night's runs are listed under

CRAWL, PULL_UNITS = "crawl", "pull_units"  # what a lookup is paid to, and in which unit


COMPANY_STEPS = (Step.CRAWL, Step.EXTRACT, Step.CONTACTS, Step.VERIFY, Step.SCORE)
"""The steps that are taken company by company."""

LOOKUP_STEPS = (Step.CRAWL, Step.EXTRACT, Step.CONTACTS)
"""The steps that look something up: a run with any of them pays pull units."""


def has_lookup_step(steps: Iterable[Step]) -> bool:
    """Return whether a run of these steps researches companies, or only uses what is stored."""
    return any(step in LOOKUP_STEPS for step in steps)


def is_lookup(unit: WorkItem) -> bool:
    """Say whether anything was looked for: what only verifies or scores took no such step."""
    return any(step in unit.seconds for step in LOOKUP_STEPS)


MAX_REASON_LENGTH = 300  # characters

_URL_PATTERN = re.compile(r"https?://\S{1,500}")


def to_cause(text: str, step: Step | None) -> str:
    """Return a reason as runs count it: without the addresses of one company."""
    # Only a visit is to the company's own site; other steps speak of pages anywhere.
    named = "its site" if step in (None, Step.CRAWL) else "an address"
    return _URL_PATTERN.sub(named, clean_text(text))[:MAX_REASON_LENGTH]


def format_shortage(cap: str, limit: int) -> str:
    """Say that a cap is too full, without the amounts of one request; 0: its limit is not shown."""
    of_limit = f" of {format_cap_amount(cap, limit)}" if limit else ""
    return f"{format_cap(cap)} has too little left{of_limit}"


class WorkState(StrEnum):
    """The state of a work item. Everything but WAITING and CLAIMED is an end."""

    WAITING = "waiting"
    CLAIMED = "taken"
    DONE = "done"
    DEGRADED = "degraded"  # done, but a cap or a vendor left a part of it out
    FAILED = "poisoned"  # this company cannot be processed; the reason says why
    DROPPED = "shed"  # left out so that the rest could be finished in time
    UNKNOWN = "unknown"  # a paid call's outcome is not known; it is not repeated this day


END_STATES = frozenset(WorkState) - {WorkState.WAITING, WorkState.CLAIMED}


class SkipReason(StrEnum):
    """Why a step was skipped: what a later run may do about it."""

    REFUSED = "refused"  # a cap or a stop: as soon as there is room again
    LATER = "later"  # a vendor's bad day: another time
    OFF = "off"  # when a person has acted
    NEVER = "never"  # it will not work, so nothing is left to do
    UNKNOWN = "unknown"  # it may have been paid for: another day, or after a person decided


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedStep:
    """A step that a lookup did without, or a part of it."""

    step: Step
    cause: SkipReason
    connector: str = ""  # that gave no answer; empty in rows of earlier versions that do not say


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One company's work in a run."""

    company: CompanyId
    rank: int  # its place in tonight's order, the most valuable first
    depth: Depth
    state: WorkState = WorkState.WAITING
    owner: str = ""
    claimed_until: datetime | None = None  # how long its owner has it without a sign of life
    reason: str = ""  # why it was chosen, and at this depth
    is_first: bool = False  # nothing was known of the company when it was chosen
    reasons: tuple[str, ...] = ()  # what was left out or went wrong, in sentences
    causes: tuple[str, ...] = ()  # the same without what is the company's own, as runs count them
    skipped: tuple[SkippedStep, ...] = ()  # in the order of the steps
    cost: Mapping[str, int] = field(default_factory=dict)  # by connector and unit: tavily/calls
    saved: Mapping[str, int] = field(default_factory=dict)  # answers that cost nothing again
    seconds: Mapping[str, float] = field(default_factory=dict)  # by step
    ended_at: datetime | None = None


def choose_steps(*, only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[Step, ...]:
    """Return the steps of a run, in order. Raises ConfigError for an unknown step."""
    wanted, unwanted = set(only), set(skip)
    for name in sorted(wanted | unwanted):
        if name not in {step.value for step in Step}:
            raise ConfigError(f"there is no step {name!r}; steps are {', '.join(Step)}")
    if both := sorted(wanted & unwanted):
        raise ConfigError(f"{', '.join(both)} is both in --only and in --skip; use one of them")
    chosen = tuple(step for step in Step if (not wanted or step in wanted) and step not in unwanted)
    if not chosen:
        raise ConfigError("no step is left; skip fewer")
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyVendors:
    """The sources a lookup can ask about a company."""

    crawler: Crawler
    extract_facts: Callable[..., Awaitable[ExtractedFacts]]  # `Crawler.extract_facts`
    search: Connector[SearchQuery, SearchResult] | None = None
    pages: Connector[PageTextsQuery, PageTexts] | None = None  # read for us
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
