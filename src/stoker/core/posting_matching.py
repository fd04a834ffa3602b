"""Whose postings they are: an account's, by its domain or else by its name, or nobody's we know.

A domain is the stronger word. A name counts when all its telling words agree and only one account
has it; two accounts of one name are nobody, until a domain tells them apart. A posting of an
account is a signal that it hires.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache

from stoker.core.companies import Company, CompanyId
from stoker.core.heat import Signal, SignalKind
from stoker.core.model import Job
from stoker.core.posting_sources import WantedSource
from stoker.core.websites import host_of, name_words

_LISTED_FOR_OTHERS = frozenset(  # labels of hosts that list everybody's postings, or host pages
    (
        "greenhouse", "lever", "ashbyhq", "ashby", "workday", "myworkdayjobs", "smartrecruiters",
        "workable", "bamboohr", "recruitee", "personio", "teamtailor", "jobvite", "icims",
        "linkedin", "indeed", "glassdoor", "jobstreet", "mycareersfuture", "monster", "feeds",
        "google", "github", "facebook", "medium",
    )
)  # fmt: skip
_SAYS_THAT_IT_HIRES = re.compile(
    # Of texts whose words are one space apart: a row of spaces would hold such a pattern up.
    r"^(?:(?:open|current|latest|all) )?(?:jobs?|careers?|openings|vacancies|positions|roles)"
    r" (?:at|with|in|from|@|of) | (?:jobs|careers|openings|vacancies)$",
    re.IGNORECASE,
)
_MORE_THAN_ONE = CompanyId("")
_LONGEST_NAME = 300  # characters of a name that are looked at


class Employers:
    """The employers that postings name, and the accounts they turn out to be.

    First every employer is `wanted`, then every account is `met`; afterwards `account_of` knows.
    It grows with employers, not with postings or accounts.
    """

    def __init__(self) -> None:
        self._found: dict[str, CompanyId | None] = {}

    def __len__(self) -> int:
        """How many things are known that an account could be recognised by."""
        return len(self._found)

    @property
    def any_found(self) -> bool:
        """Whether any of them is an account's."""
        return any(self._found.values())

    def want(self, source: WantedSource, job: Job) -> None:
        """Remember whom a posting speaks of."""
        for key in _keys_of(source, job):
            self._found.setdefault(key, None)

    def meet(self, companies: Iterable[Company]) -> None:
        """Look whether accounts are among those wanted; what is no longer live is nobody."""
        for company in companies:
            if not company.live:
                continue
            for key in _own_keys(company):
                if key in self._found:
                    known = self._found[key]
                    self._found[key] = company.id if known in (None, company.id) else _MORE_THAN_ONE

    def account_of(self, source: WantedSource, job: Job) -> CompanyId | None:
        """Return the account a posting belongs to, if it is one's for sure."""
        found = (self._found.get(key) for key in _keys_of(source, job))
        return next((account for account in found if account), None)


def hiring_signal(
    job: Job, account: CompanyId, *, first_seen_at: datetime, strength: float, source: str
) -> Signal:
    """Return that an account hires, as the posting says; the same posting is the same signal.

    It happened when the job was posted, or when we first saw it if nobody says.
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


def _keys_of(source: WantedSource, job: Job) -> tuple[str, ...]:
    origin = "/".join(job.url[:_LONGEST_NAME].split("/", 3)[:3])
    return _keys(source.domain, source.company or job.company, origin)


@lru_cache(maxsize=8192)  # most postings come after another one of the same employer's
def _keys(domain: str, name: str, origin: str) -> tuple[str, ...]:
    """Return what an account would be recognised by, the surest first."""
    keys = [f"at {domain}"] if domain else []
    # A board's own address says nothing of who is listed there.
    labels = host_of(origin).split(".")
    if not _LISTED_FOR_OTHERS & {*labels}:
        keys += [f"at {'.'.join(labels[first:])}" for first in range(len(labels) - 1)]
    spaced = " ".join(name[:_LONGEST_NAME].split())
    words = name_words(_SAYS_THAT_IT_HIRES.sub("", spaced))
    return (*keys, f"called {' '.join(words)}") if words else tuple(keys)


def _own_keys(company: Company) -> Iterator[str]:
    host = host_of(company.website) if company.website else ""
    if host:
        yield f"at {host}"
    words = name_words(company.name[:_LONGEST_NAME])
    if words:
        yield f"called {' '.join(words)}"
