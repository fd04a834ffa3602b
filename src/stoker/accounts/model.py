"""What a night needs remembered: tenants, what they look for, their companies, and its own units.

Verbs of stores, as in `ports`: each atomic, each wholly or not at all, told the time. Everything is
one tenant's own, behind its door, except the directory, which knows only who the tenants are.

A company as one tenant knows it: who it is, what was found out, whom to write to, how good.

Plain values. Facts carry where they came from, so that each can be traced, weighed against the
next and taken back.

What is known about a company after somebody said more.

The newer word replaces the older one, and silence replaces nothing: an empty text, None or an
empty list says that somebody did not find out, not that there is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NewType, Protocol

from stoker.accounts.facts import Fact
from stoker.base.errors import PermanentError
from stoker.base.types import Json, TenantId

if TYPE_CHECKING:
    from stoker.accounts.icp import IcpRule

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
class Candidate:
    """What choosing tonight's targets needs to know about a candidate."""

    id: CompanyId
    scored: bool
    contacts: int
    last_seen_at: datetime | None
    last_looked_at: datetime | None = None
    heat: float = 0.0


class EmailStatus(StrEnum):
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
    verdict: EmailStatus = EmailStatus.UNVERIFIED
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
class CompanyRecord:
    """Everything a tenant knows about one company."""

    company: Company
    facts: tuple[Fact, ...] = ()
    contacts: tuple[Contact, ...] = ()
    score: LeadScore | None = None
    looked_at: datetime | None = None  # when it was last looked at
    run: str = ""  # by which night
    extracted_from: str = ""  # the fingerprint of the corpus the findings were taken from
    notes: Mapping[str, str] = field(default_factory=dict)  # what a later night should know


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Somebody Stoker works for. Its settings are not here."""

    id: TenantId
    name: str = ""
    active: bool = True


class TenantDirectory(Protocol):
    """Who the tenants are. It holds nothing else of theirs."""

    async def save_tenant(self, tenant: Tenant) -> bool:
        """Add or change a tenant; say whether that changed anything.

        Raises ConfigError when its id cannot be one.
        """
        ...

    async def list_tenants(self) -> list[Tenant]:
        """Return all tenants, in id order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person who may act for a tenant. What proves who they are is not here."""

    id: str  # what they sign in as
    name: str = ""
    role: str
    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmConnection:
    """Where a tenant's results go. Its key is a setting, and never in a store."""

    kind: str  # odoo
    url: str
    database: str
    active: bool = True
    key_expires_at: datetime | None = None  # keys of Odoo last three months at most


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertCount:
    """How companies compared with what was known."""

    new: int = 0
    changed: int = 0
    same: int = 0


class AccountStore(Protocol):
    """One tenant's companies and what it knows about them."""

    async def save_user(self, user: User) -> None:
        """Remember a person under their id, in place of what was known of them."""
        ...

    async def list_users(self) -> list[User]:
        """Return everybody who may or might act for this tenant, in id order."""
        ...

    async def complete_setup_step(self, step: str, *, at: datetime) -> None:
        """Remember that a step of setting this tenant up was done; the first time counts."""
        ...

    async def list_setup_steps(self) -> dict[str, datetime]:
        """Return the steps of setting this tenant up that were done, and when, by step."""
        ...

    async def save_rule(self, rule: IcpRule) -> None:
        """Remember a rule under its name, in place of an older one."""
        ...

    async def find_rule(self, name: str) -> IcpRule | None:
        """Return the rule of this name."""
        ...

    async def save_connection(self, connection: CrmConnection) -> None:
        """Remember where results go, in place of where they went before."""
        ...

    async def find_connection(self) -> CrmConnection | None:
        """Return where results go."""
        ...

    async def upsert_companies(self, companies: Sequence[Company], *, now: datetime) -> UpsertCount:
        """Put companies in place of what was known of their ids, if they differ.

        As `core.merging.merged_company`: what is empty or None never replaces a value. New and
        changed ones are last seen `now`, never earlier than before; what is given as their
        `last_seen_at` does not count. The same company twice is one after the other. Atomic.
        """
        ...

    async def list_companies(self, *, after: str = "", limit: int = 1000) -> list[Company]:
        """Return one page of companies, in id order."""
        ...

    async def save_candidates(
        self, ids: Sequence[CompanyId], *, rule: str, after: str = "", upto: str | None = None
    ) -> None:
        """Remember which companies fit a rule, in place of those that did before. Atomic.

        With `after` and `upto`, only of the ids between them, the second among them: whoever goes
        through companies page by page says it so. Ids that are not between them do not count.
        """
        ...

    async def list_candidates(
        self, *, rule: str, after: str = "", limit: int = 1000
    ) -> list[Candidate]:
        """Return one page of the companies that fit a rule, as targets are chosen from them.

        In id order. A company that was never put here is not among them.
        """
        ...

    async def count_visited_since(self, since: datetime) -> int:
        """Return how many companies were looked at in this moment or later."""
        ...

    async def find_company_record(self, company: CompanyId) -> CompanyRecord | None:
        """Return everything known about a company, looked at or not; None if there is none."""
        ...

    async def list_company_records(
        self,
        *,
        after: str = "",
        limit: int = 100,
        run: str | None = None,
        least: float | None = None,
    ) -> list[CompanyRecord]:
        """Return one page of the dossiers of companies that were looked at, in id order.

        With `run`, those which that run wrote last; with `least`, those whose score is at least
        so much; with both, those that are both.
        """
        ...

    async def find_registry_cursor(self) -> datetime | None:
        """Return up to when changes of the register have been taken over."""
        ...

    async def set_registry_cursor(self, at: datetime) -> None:
        """Remember up to when changes of the register have been taken over.

        As it is said: earlier than before means taking some of them over again.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRow:
    """What we last wrote into a record of a tenant's CRM, and what was there before."""

    external_id: str
    model: str
    digest: str
    values: Mapping[str, Json]  # as we wrote them
    before: Mapping[str, Json]  # as they were when this run first wrote; empty: it made the record
    run: str  # or `core.upserts.FOUND`: no run that is remembered wrote it
    at: datetime
    # Other digests that need no sending, as `core.upserts.settled_by` says; `find_sent_rows` tells
    # them.
    settled: frozenset[str] = frozenset()


def merge_company(known: Company, said: Company) -> Company:
    """Return the company as known, with what was said of it now. It is never seen earlier."""
    return replace(
        said,
        name=said.name or known.name,
        ssic=said.ssic or known.ssic,
        year=known.year if said.year is None else said.year,
        postal_code=said.postal_code or known.postal_code,
        website=said.website or known.website,
        employees=known.employees if said.employees is None else said.employees,
        last_seen_at=_choose_later(known.last_seen_at, said.last_seen_at),
    )


def merge_company_record(known: CompanyRecord, said: CompanyRecord) -> CompanyRecord:
    """Return the dossier as known, with what was said in a newer one.

    Findings are replaced together, and so are contacts, notes and the score with its parts.
    """
    return CompanyRecord(
        company=merge_company(known.company, said.company),
        facts=said.facts or known.facts,
        contacts=said.contacts or known.contacts,
        score=said.score or known.score,
        looked_at=said.looked_at or known.looked_at,
        run=said.run or known.run,
        extracted_from=said.extracted_from or known.extracted_from,
        notes=said.notes or known.notes,
    )


def _choose_later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)
