"""A company as one tenant knows it: who it is, what was found out, whom to write to, how good.

Plain values. Facts carry where they came from, so that each can be traced, weighed against the
next and taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from stoker.core.findings import Finding
from stoker.errors import PermanentError

CompanyId = NewType("CompanyId", str)  # the register's number, where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """One company of one tenant, without what was found out about it."""

    id: CompanyId
    name: str
    live: bool = True
    ssic: str = ""
    year: int | None = None  # of incorporation
    postal_code: str = ""
    website: str = ""  # empty: nobody knows it yet
    employees: int | None = None  # None: nobody knows, which is not a reason to refuse it
    last_seen_at: datetime | None = None  # when the register or a look last told us something new


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What choosing tonight's targets needs to know about a candidate."""

    id: CompanyId
    scored: bool
    contacts: int
    last_seen_at: datetime | None
    last_looked_at: datetime | None = None
    heat: float = 0.0


class Verdict(StrEnum):
    """What a verifier said of an email address."""

    VALID = "valid"
    INVALID = "invalid"
    CATCH_ALL = "catch_all"
    UNKNOWN = "unknown"
    RISKY = "risky"  # a trap, a complainer, an address nobody should write to
    UNVERIFIED = "unverified"  # nobody was asked yet, or no money was left to ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """A person or a mailbox at a company, and where we have it from."""

    name: str = ""  # empty: a mailbox nobody's name is on
    title: str = ""
    seniority: str = ""
    email: str = ""
    phone: str = ""
    verdict: Verdict = Verdict.UNVERIFIED
    source: str
    confidence: float

    def __post_init__(self) -> None:
        if not (self.name or self.email or self.phone):
            raise PermanentError("a contact needs a name, an email address or a phone number")

    @property
    def key(self) -> str:
        """What tells one contact of a company from the next: the address, else the name."""
        return (self.email or self.name or self.phone).casefold()


class Bucket(StrEnum):
    """How good a lead is, in a word."""

    HIGH = "High"
    MEDIUM = "Medium"
    LOW = "Low"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadScore:
    """How good a lead is, what that is made of, and a sentence saying why."""

    value: float  # 0 to 1
    bucket: Bucket
    features: Mapping[str, float]
    feature_hash: str  # the same features have the same hash, and so the same rationale
    rationale: str

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise PermanentError(f"a score is between 0 and 1, not {self.value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """Everything a tenant knows about one company."""

    company: Company
    findings: tuple[Finding, ...] = ()
    contacts: tuple[Contact, ...] = ()
    score: LeadScore | None = None
    looked_at: datetime | None = None  # when it was last looked at
    run: str = ""  # by which night
    extracted_from: str = ""  # the fingerprint of the corpus the findings were taken from
    notes: Mapping[str, str] = field(default_factory=dict)  # what a later night should know
