"""Match postings to accounts, and add their hiring signals.

A posting belongs to an account by domain, or else by name if all significant words agree and only
one account has it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from stoker.accounts.model import Company, CompanyId
from stoker.accounts.websites import get_host, get_significant_words
from stoker.base.types import Job
from stoker.discovery.sources import SourceSpec
from stoker.heat.model import Signal, SignalKind

if TYPE_CHECKING:
    from stoker.context import TenantStores
    from stoker.heat.settings import HeatSettings

_SHARED_HOST_LABELS = frozenset(  # labels of hosts shared by many companies
    (
        "greenhouse", "lever", "ashbyhq", "ashby", "workday", "myworkdayjobs", "smartrecruiters",
        "workable", "bamboohr", "recruitee", "personio", "teamtailor", "jobvite", "icims",
        "linkedin", "indeed", "glassdoor", "jobstreet", "mycareersfuture", "monster", "feeds",
        "google", "github", "facebook", "medium",
    )
)  # fmt: skip

_HIRING_PHRASE = re.compile(
    # Of texts whose words are one space apart: a row of spaces would hold such a pattern up.
    r"^(?:(?:open|current|latest|all) )?(?:jobs?|careers?|openings|vacancies|positions|roles)"
    r" (?:at|with|in|from|@|of) | (?:jobs|careers|openings|vacancies)$",
    re.IGNORECASE,
)

_AMBIGUOUS = CompanyId("")
PAGE_SIZE = 500
MAX_SOURCE_LENGTH = 1000  # characters of a signal's source that are stored
_MAX_NAME_LENGTH = 300  # characters of a name that are looked at
_MAX_FOREIGN_ORIGIN_LENGTH = 80  # characters of an address in letters other than ASCII


class EmployerIndex:
    """The employers that postings name, and the accounts they turn out to be.

    Takes every posting, then every company; afterwards `find_account` knows. It grows with
    employers, not with postings or accounts.
    """

    def __init__(self) -> None:
        self._found: dict[str, CompanyId | None] = {}

    def __len__(self) -> int:
        """How many things are known that an account could be recognised by."""
        return len(self._found)

    @property
    def has_matches(self) -> bool:
        return any(self._found.values())

    def add_posting(self, source: SourceSpec, job: Job) -> None:
        for key in _list_job_keys(source, job):
            self._found.setdefault(key, None)

    def match_companies(self, companies: Iterable[Company]) -> None:
        """Match live companies against the employers of postings."""
        for company in companies:
            if not company.live:
                continue
            for key in _list_company_keys(company):
                if key in self._found:
                    known = self._found[key]
                    self._found[key] = company.id if known in (None, company.id) else _AMBIGUOUS

    def find_account(self, source: SourceSpec, job: Job) -> CompanyId | None:
        """Return the account a posting belongs to, if it is one's for sure."""
        found = (self._found.get(key) for key in _list_job_keys(source, job))
        return next((account for account in found if account), None)


def build_hiring_signal(
    job: Job, account: CompanyId, *, first_seen_at: datetime, strength: float, source: str
) -> Signal:
    """Return that an account hires, as the posting says; the same posting is the same signal.

    It happened when the job was posted, or when we first saw it if the posting has no date.
    """
    posted = job.posted_at
    at = min(posted, first_seen_at) if posted else first_seen_at
    named = f"posting|{job.id}|{account}"
    return Signal(
        id=f"posting-{hashlib.sha256(named.encode()).hexdigest()[:40]}",
        account=account,
        kind=SignalKind.POSTING,
        at=at,
        strength=strength,
        source=source,
    )


def _list_job_keys(source: SourceSpec, job: Job) -> tuple[str, ...]:
    origin = "/".join(job.url[:_MAX_NAME_LENGTH].split("/", 3)[:3])
    if not origin.isascii() and len(origin) > _MAX_FOREIGN_ORIGIN_LENGTH:
        origin = ""  # reading such a name takes long, and no account has one
    return _build_keys(source.domain, source.company or job.company, origin)


@lru_cache(maxsize=8192)  # most postings come after another one of the same employer's
def _build_keys(domain: str, name: str, origin: str) -> tuple[str, ...]:
    """Return what an account would be recognised by, the surest first."""
    keys = [f"at {domain}"] if domain else []
    # A board's own address says nothing of who is listed there.
    labels = get_host(origin).split(".")
    if not _SHARED_HOST_LABELS & {*labels}:
        keys += [f"at {'.'.join(labels[first:])}" for first in range(len(labels) - 1)]
    spaced = " ".join(name[:_MAX_NAME_LENGTH].split())
    words = get_significant_words(_HIRING_PHRASE.sub("", spaced))
    return (*keys, f"called {' '.join(words)}") if words else tuple(keys)


def _list_company_keys(company: Company) -> Iterator[str]:
    host = get_host(company.website) if company.website else ""
    if host:
        yield f"at {host}"
    words = get_significant_words(company.name[:_MAX_NAME_LENGTH])
    if words:
        yield f"called {' '.join(words)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiringResult:
    """How many accounts hire, by how many postings."""

    accounts: int = 0
    matched: int = 0  # postings of accounts
    new: int = 0  # signals that were not stored before


async def add_hiring_signals(
    store: TenantStores,
    sources: Sequence[SourceSpec],
    employers: EmployerIndex,
    *,
    strength: float,
    heat: HeatSettings,
    listed_at: datetime,
    now: datetime,
) -> HiringResult:
    """Add signals of what these sources listed at that moment, for the accounts it belongs to.

    Adding the same signal twice changes nothing.
    """
    if not strength or not len(employers):
        return HiringResult()
    after = ""
    while page := await store.accounts.list_companies(after=after, limit=PAGE_SIZE):
        employers.match_companies(page)
        after = page[-1].id
    if not employers.has_matches:
        return HiringResult()
    accounts: set[CompanyId] = set()
    matched = new = 0
    for source in sources:
        after = ""
        while listed := await store.listings.list_listings(
            source.name, since=listed_at, after=after, limit=PAGE_SIZE
        ):
            after = listed[-1].listing.job.id
            signals = [
                build_hiring_signal(
                    each.listing.job,
                    account,
                    first_seen_at=each.first_seen_at,
                    strength=strength,
                    source=source.display_name[:MAX_SOURCE_LENGTH],
                )
                for each in listed
                if not each.listing.is_duplicate
                and (account := employers.find_account(source, each.listing.job))
            ]
            if signals:
                added = await store.heat.add_signals(signals, rule=heat, now=now)
                accounts |= {signal.account for signal in signals}
                matched, new = matched + len(signals), new + added.new
    return HiringResult(accounts=len(accounts), matched=matched, new=new)
