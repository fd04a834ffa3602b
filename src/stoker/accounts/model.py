"""Companies, contacts and leads, and how newer records merge into known ones.

Facts carry their source, so that each can be traced, compared and taken back. When records are
merged the newer value wins, and an empty one replaces nothing: it means that nothing was found, not
that there is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NewType

from stoker.accounts.facts import Fact
from stoker.base.errors import PermanentError

CompanyId = NewType("CompanyId", str)  # the register's number, where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """One company of one tenant, without its facts."""

    id: CompanyId
    name: str
    live: bool = True
    ssic: str = ""
    year: int | None = None  # of incorporation
    postal_code: str = ""
    website: str = ""  # empty: not known yet
    employees: int | None = None  # None: not known, which is no reason to refuse it
    last_seen_at: datetime | None = None  # when the register or a lookup last brought something new
    is_given: bool = False  # a person named it as an account, so it fits whatever the ICP
    posture: float | None = None  # as a person gave it, 0 to 1; None: the lead score is used


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What choosing tonight's targets needs to know about a company."""

    id: CompanyId
    scored: bool
    contacts: int
    last_seen_at: datetime | None
    last_looked_at: datetime | None = None
    heat: float = 0.0
    posture: float | None = None  # as a person gave it


class EmailStatus(StrEnum):
    VALID = "valid"
    INVALID = "invalid"
    CATCH_ALL = "catch_all"
    UNKNOWN = "unknown"
    RISKY = "risky"  # a trap, a complainer, an address not to write to
    UNVERIFIED = "unverified"  # not verified yet, or no budget was left


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """A person or a mailbox at a company, with its source."""

    name: str = ""  # empty: a mailbox without a person's name
    title: str = ""
    seniority: str = ""
    email: str = ""
    phone: str = ""
    verdict: EmailStatus = EmailStatus.UNVERIFIED
    source: str
    confidence: float
    identity: str = ""  # the key it was first known by; empty while that is its address or name

    def __post_init__(self) -> None:
        if not (self.name or self.email or self.phone):
            raise PermanentError("a contact needs a name, an email address or a phone number")

    @property
    def key(self) -> str:
        """What tells contacts of a company apart, and names their records in a CRM.

        It stays when the address becomes known or changes.
        """
        return self.identity or (self.email or self.name or self.phone).casefold()


class SiteOwner(StrEnum):
    """How sure it is that a website is the company's own."""

    GIVEN = "given"  # a person or the register named it
    CONFIRMED = "confirmed"  # what ties it to the company is in the proof
    PROBABLE = "probable"  # only a search for the company's name led there


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteVerdict:
    """Whose a website is, as the last lookup judged it."""

    host: str  # what it is about; empty: there are only other sites' pages about the company
    owner: SiteOwner
    proof: str = ""  # what was seen, in words
    source: str = ""  # the page it was seen on


class Bucket(StrEnum):
    HIGH = "High"
    MEDIUM = "Medium"
    LOW = "Low"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadScore:
    """How good a lead is, its features, and a sentence that says why."""

    value: float  # 0 to 1
    bucket: Bucket
    features: Mapping[str, float]
    feature_hash: str  # the same features have the same hash, and so the same rationale
    rationale: str

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise PermanentError(f"a score is between 0 and 1, not {self.value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyRecord:
    company: Company
    facts: tuple[Fact, ...] = ()
    contacts: tuple[Contact, ...] = ()
    score: LeadScore | None = None
    looked_at: datetime | None = None  # the last lookup
    run: str = ""  # the run of that lookup
    extracted_from: str = ""  # fingerprint of the text the facts came from
    notes: Mapping[str, str] = field(default_factory=dict)  # for later runs
    site: SiteVerdict | None = None  # None: not looked up since verdicts are stored

    @property
    def is_site_probable(self) -> bool:
        """Whether what was found may be about another company, or made up by a stranger."""
        return self.site is not None and self.site.owner is SiteOwner.PROBABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertCount:
    """How many companies were new, changed or equal."""

    new: int = 0
    changed: int = 0
    same: int = 0


def merge_company(known: Company, newer: Company) -> Company:
    """Return the known company updated with newer values; it is never seen earlier.

    What a person gave stays: only an import of accounts changes that.
    """
    return replace(
        newer,
        name=newer.name or known.name,
        ssic=newer.ssic or known.ssic,
        year=known.year if newer.year is None else newer.year,
        postal_code=newer.postal_code or known.postal_code,
        website=newer.website or known.website,
        employees=known.employees if newer.employees is None else newer.employees,
        last_seen_at=_choose_later(known.last_seen_at, newer.last_seen_at),
        is_given=known.is_given,
        posture=known.posture,
    )


def _choose_later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)
