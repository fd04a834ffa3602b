"""Whose postings they are: an account's, by its domain or else by its name, or nobody's we know.

A domain is the stronger word. A name counts when all its telling words agree and only one account
has it; two accounts of one name are nobody, until a domain tells them apart. A posting of an
account is a signal that it hires.

Which postings are the same opening, listed by two sources.

Two are twins when they have one address, but for what only says where a reader came from, or when
company, title and day (without a day: place) are the same words; of a company nobody names, only
the address counts. Within one source nothing is a twin: a company may look for two of a kind.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from stoker.accounts.model import Company, CompanyId
from stoker.accounts.websites import host_of, name_words
from stoker.base.types import Job
from stoker.discovery.sources import WantedSource
from stoker.heat.heat import Signal, SignalKind

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


Keys = NDArray[np.uint64]

_ONLY_SAYS_WHERE_FROM = re.compile(r"utm_.*|gh_src|lever-source.*|source|src|ref|fbclid|gclid")

_WORDS = re.compile(r"[^\W_]+")


def twin_keys(job: Job) -> tuple[int, int]:
    """Return what a posting is recognised by: one number for its address, one for its words."""
    at, employer = _number(f"at|{plain_address(job.url)}"), name_words(job.company)
    if not employer:
        return at, at  # many look for somebody of the same title on the same day
    title = " ".join(_WORDS.findall(job.title.casefold()))
    when = job.posted_at.date().isoformat() if job.posted_at else ""
    place = "" if when else " ".join(_WORDS.findall(job.location.casefold()))
    words = "|".join((" ".join(employer), title, when, place))
    return at, _number(f"says|{words}")


def plain_address(url: str) -> str:
    """Return an address without what makes no difference to where it leads."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    said = parse_qsl(parts.query, keep_blank_values=True)
    kept = sorted(pair for pair in said if not _ONLY_SAYS_WHERE_FROM.fullmatch(pair[0].lower()))
    host = parts.netloc.casefold().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{kept}"


class Twins:
    """The keys of all sources read so far: sixteen bytes a posting, however many there are.

    A source's own keys are looked for among those of the sources before it, so they are kept
    apart until the source is done.
    """

    def __init__(self) -> None:
        self._before: list[Keys] = []  # sorted, each at least twice as long as the next
        self._own: list[Keys] = []

    def among(self, keys: Sequence[tuple[int, int]]) -> list[bool]:
        """Say of each posting of a source whether one before it listed the same; remember it."""
        asked = np.array(keys, np.uint64).reshape(-1, 2)
        found = np.zeros(asked.shape, np.bool_)
        for some in self._before:
            at = np.minimum(np.searchsorted(some, asked), len(some) - 1)
            found |= some[at] == asked
        self._own.append(asked.ravel())
        return [bool(each) for each in found[:, 0] | found[:, 1]]

    def next_source(self) -> None:
        """Be done with one source: what it listed may have twins in the next."""
        own = np.unique(np.concatenate(self._own)) if self._own else np.array([], np.uint64)
        self._own = []
        if not len(own):
            return
        self._before.append(own)
        while len(self._before) > 1 and len(self._before[-2]) < 2 * len(self._before[-1]):
            last, other = self._before.pop(), self._before.pop()
            self._before.append(np.unique(np.concatenate((other, last))))


def _number(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
