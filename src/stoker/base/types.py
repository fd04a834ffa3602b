"""Types that every room uses, and the checks that make their values safe to pass around.

Plain frozen values: they know their own shape and nothing about where they came from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NewType

from stoker.base.errors import ConfigError, PermanentError

TenantId = NewType("TenantId", str)

JobId = NewType("JobId", str)

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

COMPANIES_PER_NIGHT = 1_000  # the default; the defaults of units, tokens and checks follow from it

MAX_TEXT_LENGTH = 100_000  # characters in one value; more than any real title, URL or page excerpt

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

# The owner of the installation's ledger. It is no tenant, and no tenant may have this id.
OPERATORS = TenantId("0-operators")

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def parse_tenant_id(text: str) -> TenantId:
    """Return the text as a tenant's id; ConfigError describes what an id looks like.

    Ids end up in file names, log lines and database settings, so they are kept plain.
    """
    if not _TENANT.fullmatch(text):
        raise ConfigError(
            f"{text!r} is not a tenant id; use 1 to 63 of a-z, 0-9, '-' and '_', "
            "beginning with a letter or digit"
        )
    if text == OPERATORS:
        raise ConfigError(f"{text!r} is kept for what operators do; give the tenant another id")
    return TenantId(text)


def get_tenant_order(tenant: str) -> tuple[bool, int, str]:
    """Return what tenants are sorted by: ids that are numbers by their value, before the others."""
    is_number = tenant.isdecimal()
    return not is_number, int(tenant) if is_number else 0, tenant


def to_utc(moment: datetime, *, what: str = "the time") -> datetime:
    """Return the same moment in UTC; a datetime without a zone is refused, never guessed."""
    if moment.tzinfo is UTC:
        return moment  # nearly always: what we keep is in UTC
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ConfigError(
            f"{what} {moment.isoformat()} has no time zone; "
            "pass an aware datetime, e.g. datetime.now(UTC)"
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ConfigError(
            f"{what} {moment.isoformat()} is not within the years 1 to 9999"
        ) from None


def clean_text(text: str) -> str:
    """Return text that every store keeps letter for letter.

    NUL goes, half a surrogate pair becomes U+FFFD, and what is over the longest length is cut.
    """
    if text.isascii() and "\0" not in text and len(text) <= MAX_TEXT_LENGTH:
        return text  # nearly always, and found without looking at each letter
    kept = text[:MAX_TEXT_LENGTH]
    return _UNSTORABLE.sub(lambda bad: "" if bad[0] == "\0" else "\ufffd", kept)


def is_storable(text: str) -> bool:
    """Return whether every store would keep this text letter for letter."""
    if len(text) > MAX_TEXT_LENGTH:
        return False
    return "\0" not in text if text.isascii() else not _UNSTORABLE.search(text)


def compute_job_id(*, source: str, url: str) -> JobId:
    """Return the id of a posting: the same source and address give the same id, always."""
    # Cleaned here too, so that the id of what was found is the id of what is kept.
    named = f"{clean_text(source)}|{clean_text(url)}"
    return JobId(hashlib.sha256(named.encode()).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job posting found by discovery. Build it with `create`, which cleans its texts."""

    id: JobId
    source: str
    url: str
    title: str
    company: str = ""
    location: str = ""
    posted_at: datetime | None = None

    def __post_init__(self) -> None:
        if self.posted_at is not None:
            to_utc(self.posted_at, what="posted_at")

    @staticmethod
    def create(
        *,
        source: str,
        url: str,
        title: str,
        company: str = "",
        location: str = "",
        posted_at: datetime | None = None,
    ) -> Job:
        """Return a posting with texts every store can keep and its deterministic id."""
        source, url = clean_text(source), clean_text(url)
        if not source.strip() or not url.strip():
            raise PermanentError("a posting needs a source and a url; this one has none")
        return Job(
            id=compute_job_id(source=source, url=url),
            source=source,
            url=url,
            title=clean_text(title),
            company=clean_text(company),
            location=clean_text(location),
            posted_at=posted_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichedJob:
    """The title and text of a posting in words that can be compared."""

    job: JobId
    title: str
    seniority: str = ""
    stack: tuple[str, ...] = ()
    remote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScore:
    """How good a posting is, 0 to 1, its bucket, and the parts the score is made of."""

    job: JobId
    score: float
    bucket: str
    components: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.score <= 1.0:
            raise PermanentError(f"a score is between 0 and 1, not {self.score!r}")


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


class Depth(StrEnum):
    """How deep a look goes."""

    SHALLOW = "SHALLOW"  # the company's own site, and what it says by itself
    DEEP = "DEEP"  # and search, a model, contacts and verification, as far as money goes


SHALLOW_UNITS, DEEP_UNITS = 1, 3  # pull units of a lookup, unless settings say otherwise

DEEP_AGAIN = timedelta(days=30)  # between deep lookups of one company; of pulls, a setting


PullJobId = NewType("PullJobId", str)
