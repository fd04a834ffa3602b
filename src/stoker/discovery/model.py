"""Job postings as boards, feeds and files write them down, made into ours one by one.

One that makes no sense is set aside with a reason and takes no other with it. Where postings come
from, and in which words, each source knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from html import unescape

from stoker.base.errors import PermanentError
from stoker.base.types import Enriched, Job, JobId, Json, clean_text
from stoker.discovery.enrichment import LONGEST_TEXT, enriched

MOST_POSTINGS = 10_000  # of one board; the largest employers list fewer

MOST_REJECTS = 1_000  # kept with their reasons; the others are only counted

LONGEST_URL = 2_000

LONGEST_LINE = 500

_EARLIEST, _LATEST = datetime(1990, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NUMBER = re.compile(r"[0-9]{9,13}")

_MILLISECONDS_FROM = 10**11  # as seconds that would be the year 5138

_TAG = re.compile(r"<[^<>]{0,500}>")


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPosting:
    """A posting as somebody wrote it: anything may be missing, wrong or far too long."""

    where: str  # its place in the source, for whoever wants to repair it: "item 3", "line 7"
    url: str = ""
    title: str = ""
    company: str = ""
    location: str = ""
    posted: Json = None
    text: str = ""  # what the work is, in as many words as there are; only looked at, never kept
    remote: bool = False  # the source's own word
    unreadable: str = ""  # why nothing could be read there


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPosting:
    """A posting that was not taken, and why."""

    where: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validators:
    """What a source said of its version, to ask next time only for what changed."""

    etag: str = ""
    last_modified: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A posting as a source lists it, and what its words say."""

    job: Job
    enriched: Enriched
    twin: bool = False  # a source before this one lists the same opening


@dataclass(frozen=True, slots=True, kw_only=True)
class PostingsAt:
    """The question what a board or feed lists, asked for what changed if that is known."""

    place: str
    company: str = ""  # whose postings they are where the source does not say
    known: Validators | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """What one look at a source found."""

    listings: tuple[Listing, ...] = ()
    rejects: tuple[RejectedPosting, ...] = ()
    rejected: int = 0  # all of them, kept or not
    more: bool = False  # there was more than is taken from one source
    unchanged: bool = False  # the source says so; it was not read again
    requests: int = 1
    validators: Validators = field(default_factory=Validators)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The postings alone."""
        return tuple(listing.job for listing in self.listings)


def taken(
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
    rejected = 0
    for raw in raws:
        if len(listings) >= MOST_POSTINGS:
            more = True
            break
        made = _made(source, raw, company)
        if isinstance(made, Job):
            if made.id not in listings:
                says = enriched(made, text=_plain(raw.text), remote=raw.remote)
                listings[made.id] = Listing(job=made, enriched=says)
            continue
        rejected += 1
        if len(rejects) < MOST_REJECTS:
            rejects.append(RejectedPosting(where=raw.where, because=made))
    return Postings(
        listings=tuple(listings.values()),
        rejects=tuple(rejects),
        rejected=rejected,
        more=more,
        validators=validators or Validators(),
    )


def moment(said: Json) -> datetime | None:
    """Return the moment somebody meant, in UTC; None when that cannot be said.

    ISO 8601, mail dates, seconds and milliseconds since 1970. Without a zone it is UTC. A date such
    as 01/11/2026 means one thing here and another there, so it means nothing.
    """
    if isinstance(said, bool) or said is None:
        return None
    if isinstance(said, str) and _NUMBER.fullmatch(said.strip()):
        said = int(said.strip())
    try:
        found = _counted(said) if isinstance(said, int | float) else _written(said)
        if found is None:
            return None
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return found if _EARLIEST <= found < _LATEST else None


def one_line(text: str, *, longest: int = LONGEST_LINE) -> str:
    """Return the words of a text without markup, on one line, cleaned and cut."""
    bare = text[: longest * 8]
    if "&" in bare or "<" in bare:
        bare = _TAG.sub(" ", unescape(bare))
    return " ".join(clean_text(bare).split())[:longest]


def _plain(text: str) -> str:
    bare = text[: 2 * LONGEST_TEXT]
    return _TAG.sub(" ", unescape(bare)) if "&" in bare or "<" in bare else bare


def _made(source: str, raw: RawPosting, company: str) -> Job | str:
    if raw.unreadable:
        return raw.unreadable
    url = raw.url.strip()
    if (
        not url.startswith(("http://", "https://"))
        or len(url) > LONGEST_URL
        or url.split() != [url]
    ):
        return "it has no web address"
    title = one_line(raw.title)
    if not title:
        return "it has no title"
    try:
        return Job.found(
            source=source,
            url=url,
            title=title,
            company=one_line(raw.company) or one_line(company),
            location=one_line(raw.location),
            posted_at=moment(raw.posted),
        )
    except PermanentError as error:
        return str(error)


def _counted(number: float) -> datetime:
    milliseconds = number if number >= _MILLISECONDS_FROM else number * 1000
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _written(said: Json) -> datetime | None:
    text = said.strip() if isinstance(said, str) else ""
    if not 8 <= len(text) <= 60:
        return None
    if text[0].isdigit() and text[4:5] == "-":
        return datetime.fromisoformat(text)
    return parsedate_to_datetime(text)
