"""Job postings, raw and parsed, and the store of what sources listed.

A bad posting is rejected with a reason; the others are not affected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from html import unescape
from html.entities import html5

from stoker.base.errors import PermanentError
from stoker.base.types import EnrichedJob, Job, JobId, Json, clean_text
from stoker.discovery.enrichment import MAX_TEXT_LENGTH, enrich_job

MAX_POSTINGS = 10_000  # of one board; the largest employers list fewer
MAX_CHARACTERS = 4_000_000  # of the postings of one source; ten thousand usual ones have half
MAX_REJECTS = 1_000  # listed with their reasons; the others are only counted
BATCH_SIZE = 1_000  # postings that are taken in together
MAX_URL_LENGTH = 2_000
MAX_LINE_LENGTH = 500
MAX_SOURCE_LENGTH = 100
_MIN_DATE, _MAX_DATE = datetime(1990, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[0-9]{9,13}")
_MILLISECONDS_FROM = 10**11  # as seconds that would be the year 5138
_TAG = re.compile(r"<[^<>]{0,500}>")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPosting:
    """A posting as its source wrote it: anything may be missing, wrong or too long."""

    where: str  # its position in the source: "item 3", "line 7"
    url: str = ""
    title: str = ""
    company: str = ""
    location: str = ""
    posted: Json = None
    source: str = ""  # where a file says it was found; empty: at the source that is read
    text: str = ""  # the description; only searched, never stored
    remote: bool = False  # the source's own word
    parse_error: str = ""  # why nothing could be read there


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPosting:
    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validators:
    """A source's version headers, for the next conditional request."""

    etag: str = ""
    last_modified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A posting as a source lists it, and what its words say."""

    job: Job
    enriched: EnrichedJob
    is_duplicate: bool = False  # a source before this one lists the same opening


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """What one look at a source found."""

    listings: tuple[Listing, ...] = ()
    rejects: tuple[RejectedPosting, ...] = ()
    rejected: int = 0  # all of them, listed in `rejects` or not
    truncated: bool = False  # there was more than is taken from one source
    unchanged: bool = False  # the source says so; it was not read again
    requests: int = 1
    validators: Validators = field(default_factory=Validators)
    columns: str = ""  # which columns of a file are not used, in a sentence; empty: none

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(listing.job for listing in self.listings)


def parse_postings(
    source: str,
    raws: Iterable[RawPosting],
    *,
    company: str = "",
    validators: Validators | None = None,
    more: bool = False,
) -> Postings:
    """Return postings in the order they came, each once. Never raises for what is in one.

    `company` is whose postings they are where the source does not say.
    """
    listings: dict[JobId, Listing] = {}
    rejects: list[RejectedPosting] = []
    rejected = characters = 0
    for raw in raws:
        if len(listings) >= MAX_POSTINGS or characters > MAX_CHARACTERS:
            more = True
            break
        made = _parse_job(source, raw, company)
        if isinstance(made, Job):
            if made.id not in listings:
                says = enrich_job(made, text=_strip_markup(raw.text), remote=raw.remote)
                listings[made.id] = Listing(job=made, enriched=says)
                characters += count_characters(made)
            continue
        rejected += 1
        if len(rejects) < MAX_REJECTS:
            rejects.append(RejectedPosting(where=raw.where, reason=made))
    return Postings(
        listings=tuple(listings.values()),
        rejects=tuple(rejects),
        rejected=rejected,
        truncated=more,
        validators=validators or Validators(),
    )


def count_characters(job: Job) -> int:
    """Return how much text a posting has."""
    return len(job.url) + len(job.title) + len(job.company) + len(job.location)


def split_postings(found: Postings) -> Iterator[Postings]:
    """Yield what a source lists in batches; what is counted once is in the first."""
    yield replace(found, listings=found.listings[:BATCH_SIZE])
    for start in range(BATCH_SIZE, len(found.listings), BATCH_SIZE):
        some = found.listings[start : start + BATCH_SIZE]
        yield replace(found, listings=some, rejects=(), rejected=0, requests=0)


def parse_date(value: Json) -> datetime | None:
    """Return the parsed time in UTC, or None if it is unclear.

    ISO 8601, mail dates, seconds and milliseconds since 1970. Without a zone it is UTC. A date such
    as 01/11/2026 means one thing here and another there, so it means nothing.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = int(value.strip())
    try:
        found = (
            _from_timestamp(value) if isinstance(value, int | float) else _parse_date_text(value)
        )
        if found is None:
            return None
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return found if _MIN_DATE <= found < _MAX_DATE else None


def to_plain_line(text: str, *, longest: int = MAX_LINE_LENGTH) -> str:
    """Return the words of a text without markup, on one line, cleaned and cut."""
    return " ".join(clean_text(_strip_markup(text, longest=longest * 8)).split())[:longest]


def _strip_markup(text: str, *, longest: int = 2 * MAX_TEXT_LENGTH) -> str:
    bare = text[:longest]
    return _TAG.sub(" ", _ENTITY.sub(_decode_entity, bare)) if "&" in bare or "<" in bare else bare


def _decode_entity(found: re.Match[str]) -> str:
    # One at a time: given a long text of names it does not know, `unescape` takes seconds.
    is_number = found[0][1] == "#"
    return unescape(found[0]) if is_number else html5.get(found[0][1:], found[0])


def _parse_job(source: str, raw: RawPosting, company: str) -> Job | str:
    if raw.parse_error:
        return raw.parse_error
    url = raw.url.strip()
    if (
        not url.startswith(("http://", "https://"))
        or len(url) > MAX_URL_LENGTH
        or url.split() != [url]
    ):
        return "it has no web address"
    title = to_plain_line(raw.title)
    if not title:
        return "it has no title"
    try:
        return Job.create(
            source=to_plain_line(raw.source, longest=MAX_SOURCE_LENGTH) or source,
            url=url,
            title=title,
            company=to_plain_line(raw.company) or to_plain_line(company),
            location=to_plain_line(raw.location),
            posted_at=parse_date(raw.posted),
        )
    except PermanentError as error:
        return str(error)


def _from_timestamp(number: float) -> datetime:
    milliseconds = number if number >= _MILLISECONDS_FROM else number * 1000
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _parse_date_text(value: Json) -> datetime | None:
    text = value.strip() if isinstance(value, str) else ""
    if not 8 <= len(text) <= 60:
        return None
    if text[0].isdigit() and text[4:5] == "-":
        return datetime.fromisoformat(text)
    return parsedate_to_datetime(text)
