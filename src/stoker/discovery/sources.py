"""Sources of postings: how a setting names one, what is remembered of it, and a run's report.

A source is written `kind:place`, and after bars its company and domain: `greenhouse:acme | Acme Pte
Ltd | acme.com.sg`. The query of a feed's address may hold a secret, so it is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from stoker.accounts.websites import get_host
from stoker.base.errors import ConfigError
from stoker.base.types import Json, is_storable
from stoker.discovery.model import Listing, Validators
from stoker.runs.model import RunState, format_run_name

MAX_ADDRESS_BYTES = 2_000  # bytes; places are looked up by name
MAX_REASONS = 20  # reasons of one kind that a person will read
HIDDEN = "[secret]"
_USER_PART = re.compile(r"//[^|\"\n]*@")  # as far as it could possibly go
_QUERY_PART = re.compile(r"[?#][^\s|\"]+")
_PART = re.compile(r"[^&;#]+")
BOARD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FILES = (".csv", ".jsonl", ".ndjson")
_COUNT_NAMES = ("listed", "new", "gone", "twins", "rejected", "requests")

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


@dataclass(slots=True, kw_only=True)
class SourceReport:
    """What reading a source in one run came to; it is added to while the source is read."""

    name: str  # as it is shown
    state: SourceState = SourceState.READ
    reason: str = ""  # why it failed, or what was left out
    listed: int = 0  # postings it lists
    new: int = 0  # of them, never listed there before
    gone: int = 0  # listed there the last time, and no longer
    twins: int = 0  # of those listed, at a source before it as well
    rejected: int = 0  # that could not be read
    requests: int = 0
    truncated: bool = False
    columns: str = ""  # which columns of a file are not used
    validators: Validators = field(default_factory=Validators)
    elapsed: timedelta = timedelta(0)


def build_counts(reports: Sequence[SourceReport], totals: Mapping[str, int]) -> dict[str, int]:
    """Return all numbers by name, as a manifest keeps them."""
    counts = {name: sum(getattr(each, name) for each in reports) for name in _COUNT_NAMES}
    counts |= totals
    counts["sources"] = len(reports)
    counts["sources_failed"] = sum(each.state is SourceState.FAILED for each in reports)
    for each in reports:
        own = {name: getattr(each, name) for name in _COUNT_NAMES if getattr(each, name)}
        own["state"] = list(SourceState).index(each.state)
        counts |= {f"{each.name} {name}": number for name, number in own.items()}
    return counts


def build_summary(
    at: datetime, reports: Sequence[SourceReport], *, exported: int
) -> dict[str, Json]:
    """Return what a run came to, as scripts read it from its summary file."""
    found = sum(each.listed + each.rejected for each in reports)
    counts: dict[str, Json] = {
        "total_discovered": found,
        "filtered_out": found - exported,
        "exported": exported,
    }
    return {
        "run_ts": format_run_name(at),
        "timestamp_utc": at.isoformat(),
        "enabled_sources": {each.name: True for each in reports},
        "counts": counts,
        "per_source": {
            "jobs_fetched": {each.name: each.listed for each in reports},
            "malformed_entries": {each.name: each.rejected for each in reports},
            "requests": {each.name: each.requests for each in reports},
            "scraper_failures": sum(each.state is SourceState.FAILED for each in reports),
        },
        "reasons": [*list_reasons(reports, rejects=())],
    }


def parse_source_counts(counts: Mapping[str, int]) -> dict[str, dict[str, int | str]]:
    """Return each source's numbers out of a manifest's counts, by the source's name."""
    found: dict[str, dict[str, int | str]] = {}
    for key, number in counts.items():
        name, _, what = key.rpartition(" ")
        if name and what in ("state", *_COUNT_NAMES):
            own = found.setdefault(name, dict.fromkeys(("state", *_COUNT_NAMES), 0))
            is_state = what == "state"
            own[what] = dict(enumerate(SourceState)).get(number, "") if is_state else number
    return found


def compute_outcome(reports: Sequence[SourceReport]) -> tuple[RunState, str]:
    """Return how a discovery ended, and why: a source that failed fails alone."""
    failed = [each for each in reports if each.state is SourceState.FAILED]
    if not failed:
        return RunState.DONE, ""
    first = f"{failed[0].name}: {failed[0].reason}"
    if len(failed) == len(reports):
        return RunState.FAILED, f"no source could be read; {first}"
    return RunState.PARTIAL, f"{len(failed)} of {len(reports)} sources could not be read; {first}"


def list_reasons(reports: Sequence[SourceReport], *, rejects: Sequence[str]) -> tuple[str, ...]:
    """Return the sentences a person should read: what failed, what was left out, what was bad."""
    reasons = [
        f"{each.name} {'failed' if each.state is SourceState.FAILED else 'is incomplete'}: "
        f"{each.reason}"
        for each in reports
        if each.reason
    ]
    reasons += [f"{each.name}: {each.columns}" for each in reports if each.columns]
    shown = [*reasons[:MAX_REASONS], *rejects[:MAX_REASONS]]
    more = len(reasons) + len(rejects) - len(shown)
    return (*shown, f"and {more} more of the kind") if more else tuple(shown)
