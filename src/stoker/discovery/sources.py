"""Sources of postings: how a setting names one, and what is remembered of it between runs.

A source is written `kind:place`, and after bars its company and domain: `greenhouse:acme | Acme Pte
Ltd | acme.com.sg`. The query of a feed's address may hold a secret, so it is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from stoker.accounts.websites import get_host
from stoker.base.errors import ConfigError
from stoker.base.types import is_storable
from stoker.discovery.model import Listing, Validators

MAX_ADDRESS_BYTES = 2_000  # bytes; places are looked up by name
HIDDEN = "[secret]"
_USER_PART = re.compile(r"//[^|\"\n]*@")  # as far as it could possibly go
_QUERY_PART = re.compile(r"[?#][^\s|\"]+")
_PART = re.compile(r"[^&;#]+")
BOARD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FILES = (".csv", ".jsonl", ".ndjson")

_FORMAT_HINT = (
    "write kind:place, e.g. greenhouse:acme, feed:https://acme.com/jobs.rss, file:jobs.csv"
)


class SourceKind(StrEnum):
    """Where a source is listed; also what its postings say they came from."""

    GREENHOUSE = "greenhouse"
    LEVER = "lever"
    ASHBY = "ashby"
    FEED = "feed"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    kind: SourceKind
    address: str  # a board's name, a feed's address, a file's path
    company: str = ""  # whose postings they are where the source does not say
    domain: str = ""  # the account's own domain

    @property
    def name(self) -> str:
        """What it goes by: in settings, in the store, on the command line. It may be a secret."""
        return f"{self.kind}:{self.address}"

    @property
    def display_name(self) -> str:
        """Its name without the secrets that a feed's address may hold."""
        feed = self.kind is SourceKind.FEED
        return _QUERY_PART.sub(_hide_values, self.name) if feed else self.name

    def __str__(self) -> str:
        parts = [self.display_name, self.company, self.domain]
        while not parts[-1]:
            parts.pop()
        return " | ".join(parts)


class SourceState(StrEnum):
    """How reading a source went, the last time."""

    READ = "read"
    UNCHANGED = "unchanged"  # it says so itself, and what it listed before still holds
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """What is remembered of a source between runs."""

    name: str
    state: SourceState
    tried_at: datetime
    read_at: datetime | None = None  # when it was last read; None: never
    version: int = 0  # of `job_enriching` that made something of its postings
    validators: Validators = field(default_factory=Validators)
    listed: int = 0  # postings, when it was last read
    reason: str = ""  # why it failed, or what was left out


def parse_source(text: str) -> SourceSpec:
    """Return the source a text names. Raises ConfigError that says how one is written."""
    named, *more = [part.strip() for part in text.split("|")]
    kind, colon, place = named.partition(":")
    place, shown = place.strip(), hide_secrets(text)[:80]
    if not colon or kind.strip() not in list(SourceKind) or len(more) > 2:
        raise ConfigError(f"{shown!r} is not a source of postings; {_FORMAT_HINT}")
    if not place or not is_storable(text) or not text.isprintable():
        raise ConfigError(f"{shown!r} names no place; {_FORMAT_HINT}")
    if len(place.encode()) > MAX_ADDRESS_BYTES:
        raise ConfigError(f"a source's place has at most {MAX_ADDRESS_BYTES} bytes; {_FORMAT_HINT}")
    company, domain = (*more, "", "")[:2]
    found = SourceSpec(
        kind=SourceKind(kind.strip()),
        address=place,
        company=company,
        domain=get_host(domain) if domain else "",
    )
    if why := _find_problem(found):
        raise ConfigError(f"{shown!r}: {why}")
    if domain and not found.domain:
        raise ConfigError(
            f"{shown!r}: {hide_secrets(domain)[:80]!r} is no domain; write e.g. acme.com.sg"
        )
    return found


def build_display_names(sources: Iterable[SourceSpec]) -> dict[str, str]:
    """Return what each source is shown as, by its name; two that look alike are numbered."""
    alike: dict[str, int] = {}
    shown: dict[str, str] = {}
    for source in sources:
        nth = alike[source.display_name] = alike.get(source.display_name, 0) + 1
        shown[source.name] = source.display_name if nth == 1 else f"{source.display_name} #{nth}"
    return shown


def hide_secrets(text: str) -> str:
    """Return a text, source or not, without anything that could be a secret."""
    return _QUERY_PART.sub(_hide_values, _USER_PART.sub(f"//{HIDDEN}@", text))


def _hide_values(asked_with: re.Match[str]) -> str:
    def hidden(part: re.Match[str]) -> str:
        name, sign, _ = part[0].partition("=")
        return f"{name}={HIDDEN}" if sign else HIDDEN

    return asked_with[0][0] + _PART.sub(hidden, asked_with[0][1:])


def _find_problem(source: SourceSpec) -> str:
    match source.kind:
        case SourceKind.FEED:
            if not get_host(source.address) or "://" not in source.address:
                return (
                    "a feed is named by its whole address, without a user name, e.g. "
                    "feed:https://acme.com/jobs.rss"
                )
        case SourceKind.FILE:
            if not source.address.lower().endswith(_FILES):
                return f"a file of postings ends in {', '.join(_FILES)}"
        case _:
            if not BOARD_NAME.fullmatch(source.address):
                return "a board's name is one word of letters, digits, '.', '_' and '-'"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredListing:
    """A posting as a source lists it, and since when and until when it was seen there."""

    listing: Listing
    first_seen_at: datetime
    last_seen_at: datetime
