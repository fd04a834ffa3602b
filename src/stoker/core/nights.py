"""What a night is: its steps, the units of work it hands out, and how each of them can end.

A unit is one company's night, known by tenant, run and company. Nothing here is about how a step
is done; `targets` chooses the units, the engine carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from stoker.core.companies import CompanyId
from stoker.errors import ConfigError


class Step(StrEnum):
    """The steps of a tenant's night, in order."""

    REFRESH = "refresh"
    CANDIDATES = "candidates"
    SELECT = "select"
    CRAWL = "crawl"
    EXTRACT = "extract"  # search where the site says too little, then extraction
    CONTACTS = "contacts"
    VERIFY = "verify"
    SCORE = "score"
    EXPORT = "export"


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


class Depth(StrEnum):
    """How deep a look goes."""

    SHALLOW = "SHALLOW"  # the company's own site, and what it says by itself
    DEEP = "DEEP"  # and search, a model, contacts and verification, as far as money goes


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
