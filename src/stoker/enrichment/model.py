"""What a night needs remembered: tenants, what they look for, their companies, and its own units.

Verbs of stores, as in `ports`: each atomic, each wholly or not at all, told the time. Everything is
one tenant's own, behind its door, except the directory, which knows only who the tenants are.

What a night is: its steps, the units of work it hands out, and how each of them can end.

A unit is one company's night, known by tenant, run and company. Nothing here is about how a step
is done; `targets` chooses the units, the engine carries them out.

Whom a company's night may ask: its site, a search engine, a model, contact vendors, a verifier.

Those that cost something are connectors, and None when there is no key for them. What is done
with their answers is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from stoker.accounts.facts import Extracted
from stoker.accounts.model import CompanyId, Dossier, SentRow
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, Step
from stoker.budgets.model import Connector
from stoker.crawl.model import Excerpt, Page, PageSeen, SiteVisit
from stoker.leads.rationale import Reworded, Rewording
from stoker.vendors.contacts import People, PeopleAt, Reveal, Revealed
from stoker.vendors.email_verification import Batch, VerifiedBatch
from stoker.vendors.extraction import Extraction
from stoker.vendors.search import Found, Search

KIND = "nightly"  # what a night's runs are listed under

OF_COMPANIES = (Step.CRAWL, Step.EXTRACT, Step.CONTACTS, Step.VERIFY, Step.SCORE)
"""The steps that are taken company by company."""

LOOKS = (Step.CRAWL, Step.EXTRACT, Step.CONTACTS)
"""The steps that find something out: whoever takes any of them looks, and pays pull units."""


def looks(steps: Iterable[Step]) -> bool:
    """Say whether a night of these steps looks at companies, or only works on what is known."""
    return any(step in LOOKS for step in steps)


def was_look(unit: Unit) -> bool:
    """Say whether anything was looked for: what only verifies or scores took no such step."""
    return any(step in unit.seconds for step in LOOKS)


class UnitState(StrEnum):
    """Where one company's night stands. Everything but WAITING and TAKEN is an end."""

    WAITING = "waiting"
    TAKEN = "taken"
    DONE = "done"
    DEGRADED = "degraded"  # done, but a cap or a vendor left a part of it out
    POISONED = "poisoned"  # something about this company cannot be worked on; the reason says what
    SHED = "shed"  # left out so that the rest could be finished in time
    UNKNOWN = "unknown"  # a paid call's outcome is not known; it is not repeated this day


ENDS = frozenset(UnitState) - {UnitState.WAITING, UnitState.TAKEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One company's night."""

    company: CompanyId
    place: int  # its place in tonight's order, the most valuable first
    depth: Depth
    state: UnitState = UnitState.WAITING
    owner: str = ""
    until: datetime | None = None  # how long its owner has it without a sign of life
    because: str = ""  # why it was chosen, and at this depth
    reasons: tuple[str, ...] = ()  # what was left out or went wrong, in sentences
    cost: Mapping[str, int] = field(default_factory=dict)  # by connector and unit: tavily/calls
    saved: Mapping[str, int] = field(default_factory=dict)  # answers that cost nothing again
    seconds: Mapping[str, float] = field(default_factory=dict)  # by step
    ended_at: datetime | None = None


def steps_asked_for(*, only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[Step, ...]:
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


class NightStore(Protocol):
    """One tenant's units of work, and what it has written into its CRM."""

    async def plan_units(self, run: str, units: Sequence[Unit]) -> int:
        """Add units to a run; return how many were new. One already there stays as it is.

        Raises ConflictError, and adds nothing, when a new one's place in the order is another's.
        """
        ...

    async def take_units(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[Unit]:
        """Take the next units nobody has, or whose owner fell silent, in their order.

        An owner has fallen silent when its `until` is not after `now`. Atomic: of many takers each
        unit goes to one. Taking lengthens nothing already taken.
        """
        ...

    async def keep_units(self, run: str, *, owner: str, until: datetime) -> int:
        """Lengthen everything this owner has taken; return how many. It never shortens."""
        ...

    async def finish_unit(self, run: str, unit: Unit, dossier: Dossier | None) -> bool:
        """Write down how a unit ended, and what is known about its company now, together.

        False, and nothing is written, when the unit has ended already, has another owner or was
        never planned; one that nobody has taken has the empty owner. Its place stays as planned.
        The dossier replaces what was known, contacts and score included; empty values never do,
        as `core.merging.merged_dossier` says.
        """
        ...

    async def give_back_units(self, run: str, *, owner: str) -> int:
        """Make everything this owner has taken and not finished free again; return how many."""
        ...

    async def units(
        self, run: str, *, states: Sequence[UnitState] = (), after: int = -1, limit: int = 1000
    ) -> list[Unit]:
        """Return one page of a run's units in their order, beginning after a place."""
        ...

    async def count_units(self, run: str) -> dict[UnitState, int]:
        """Return how many units of a run are in each state; a state without any is left out."""
        ...

    async def last_look(self, company: CompanyId) -> tuple[str, Unit] | None:
        """Return the newest run that had this company, by the run's name, and its unit."""
        ...

    async def sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        """Return what was last written under these ids, by id: the latest, whichever run's.

        With what all writes under the id together have settled.
        """
        ...

    async def keep_sent(self, rows: Sequence[SentRow]) -> None:
        """Remember what was written; `before` of the same run stays as it was first kept.

        What another run wrote under the same id is kept beside it, and what is settled follows
        from that alone. Atomic.
        """
        ...

    async def sent_by(self, run: str, *, after: str = "", limit: int = 1000) -> list[SentRow]:
        """Return one page of what a run wrote, in id order."""
        ...


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
