"""Sources of postings: how a person names one, and what is remembered of it between runs.

A source is written `kind:place`, and after bars whose postings it lists and at which domain they
are: `greenhouse:acme | Acme Pte Ltd | acme.com.sg`. What an address asks with may be a secret, so
it is never shown. How a kind is read, its connector knows.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from stoker.accounts.websites import host_of
from stoker.base.errors import ConfigError
from stoker.base.types import storable
from stoker.discovery.model import Listing, Postings, Validators

LONGEST_PLACE = 2_000  # bytes; places are looked up by name

HIDDEN = "[secret]"

_USER = re.compile(r"//[^|\"\n]*@")  # as far as it could possibly go

_ASKED_WITH = re.compile(r"[?#][^\s|\"]+")

_PART = re.compile(r"[^&;#]+")

_BOARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

_FILES = (".csv", ".jsonl", ".ndjson")

_FORM = "write kind:place, e.g. greenhouse:acme, feed:https://acme.com/jobs.rss, file:jobs.csv"


class SourceKind(StrEnum):
    """Where a source is listed; also what its postings say they came from."""

    GREENHOUSE = "greenhouse"
    LEVER = "lever"
    ASHBY = "ashby"
    FEED = "feed"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSource:
    """One source that somebody wants read."""

    kind: SourceKind
    place: str  # a board's name, a feed's address, a file's path
    company: str = ""  # whose postings they are where the source does not say
    domain: str = ""  # the account's own domain

    @property
    def name(self) -> str:
        """What it goes by: in settings, in the store, on the command line. It may be a secret."""
        return f"{self.kind}:{self.place}"

    @property
    def shown(self) -> str:
        """Its name as anybody may read it: without the values a feed is asked with."""
        feed = self.kind is SourceKind.FEED
        return _ASKED_WITH.sub(_hidden_values, self.name) if feed else self.name

    def __str__(self) -> str:
        said = [self.shown, self.company, self.domain]
        while not said[-1]:
            said.pop()
        return " | ".join(said)


class SourceState(StrEnum):
    """How reading a source went, the last time."""

    READ = "read"
    UNCHANGED = "unchanged"  # it says so itself, and what it listed before still holds
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSeen:
    """What is remembered of a source between runs."""

    name: str
    state: SourceState
    tried_at: datetime
    read_at: datetime | None = None  # when it last told what it lists; None: it never did
    version: int = 0  # of `job_enriching` that made something of its postings
    validators: Validators = field(default_factory=Validators)
    listed: int = 0  # postings, when it was last read
    because: str = ""  # why it failed, or what was left out


def wanted_source(text: str) -> WantedSource:
    """Return the source somebody means, or say in a ConfigError how one is written."""
    named, *more = [part.strip() for part in text.split("|")]
    kind, colon, place = named.partition(":")
    place, told = place.strip(), without_secrets(text)[:80]
    if not colon or kind.strip() not in list(SourceKind) or len(more) > 2:
        raise ConfigError(f"{told!r} is no source of postings; {_FORM}")
    if not place or not storable(text) or not text.isprintable():
        raise ConfigError(f"{told!r} names no place; {_FORM}")
    if len(place.encode()) > LONGEST_PLACE:
        raise ConfigError(f"a source's place has at most {LONGEST_PLACE} bytes; {_FORM}")
    company, domain = (*more, "", "")[:2]
    found = WantedSource(
        kind=SourceKind(kind.strip()),
        place=place,
        company=company,
        domain=host_of(domain) if domain else "",
    )
    if why := _cannot_be(found):
        raise ConfigError(f"{told!r}: {why}")
    if domain and not found.domain:
        raise ConfigError(
            f"{told!r}: {without_secrets(domain)[:80]!r} is no domain; write e.g. acme.com.sg"
        )
    return found


def shown_names(sources: Iterable[WantedSource]) -> dict[str, str]:
    """Return what each source is shown as, by its name; two that look alike are numbered."""
    alike: dict[str, int] = {}
    shown: dict[str, str] = {}
    for source in sources:
        nth = alike[source.shown] = alike.get(source.shown, 0) + 1
        shown[source.name] = source.shown if nth == 1 else f"{source.shown} #{nth}"
    return shown


def without_secrets(text: str) -> str:
    """Return what somebody wrote, source or not, without anything that could be a secret."""
    return _ASKED_WITH.sub(_hidden_values, _USER.sub(f"//{HIDDEN}@", text))


def _hidden_values(asked_with: re.Match[str]) -> str:
    def hidden(part: re.Match[str]) -> str:
        name, sign, _ = part[0].partition("=")
        return f"{name}={HIDDEN}" if sign else HIDDEN

    return asked_with[0][0] + _PART.sub(hidden, asked_with[0][1:])


def _cannot_be(source: WantedSource) -> str:
    match source.kind:
        case SourceKind.FEED:
            if not host_of(source.place) or "://" not in source.place:
                return (
                    "a feed is named by its whole address, without a user name, e.g. "
                    "feed:https://acme.com/jobs.rss"
                )
        case SourceKind.FILE:
            if not source.place.lower().endswith(_FILES):
                return f"a file of postings ends in {', '.join(_FILES)}"
        case _:
            if not _BOARD.fullmatch(source.place):
                return "a board's name is one word of letters, digits, '.', '_' and '-'"
    return ""


class PostingSource(Protocol):
    """One source of postings, ready to be read."""

    def read(self, known: Validators | None) -> AsyncIterator[Postings]:
        """Yield what it lists, batch by batch; with `known`, it may say that nothing changed.

        Raises TransientError when later may work, PermanentError when there is nothing to read,
        and ConfigError when a person must act first.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A posting as a source lists it, and since when and until when it was seen there."""

    listing: Listing
    first_seen_at: datetime
    last_seen_at: datetime


class ListingStore(Protocol):
    """What one tenant's sources of postings listed."""

    async def put_source(self, seen: SourceSeen) -> None:
        """Remember how a source was found, in place of what was known of it."""
        ...

    async def sources(self) -> list[SourceSeen]:
        """Return every source that was ever tried, in the order of their names."""
        ...

    async def put_listings(self, source: str, listings: Sequence[Listing], *, at: datetime) -> int:
        """Remember that a source lists these now, in place of what was known of them.

        Returns how many it had never listed before. When a posting was first seen stays as it was,
        and when it was last seen never goes back. Of two with one id the last counts. Atomic.
        """
        ...

    async def listings(
        self, source: str, *, since: datetime, after: str = "", limit: int = 1000
    ) -> list[Listed]:
        """Return one page of what a source was seen to list then or since, in id order."""
        ...

    async def count_listings(self, source: str, *, since: datetime, before: datetime) -> int:
        """Return how many postings of a source were last seen with since <= last_seen < before."""
        ...

    async def forget_listings(self, *, before: datetime, limit: int = 10_000) -> int:
        """Forget up to so many postings not seen since before then, the longest gone first.

        Returns how many went.
        """
        ...
