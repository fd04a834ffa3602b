"""Read profiles from a CSV file, a shared sheet, or a tenant's leads.

Every row becomes a profile or a bad row with a reason; no row stops the others.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from stoker.accounts.contacts import choose_best_contact, get_usable_email
from stoker.accounts.model import CompanyId, CompanyRecord, Contact
from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.retry import parse_retry_after
from stoker.base.types import Json, clean_text, to_utc
from stoker.files.tables import ColumnUse, Readable, TableRow, read_table
from stoker.http.client import MAX_REDIRECTS, HttpClient, Request, is_temporary
from stoker.http.url import parse_url
from stoker.touches.model import Profile, ProfileStatus

MAX_NAME_LENGTH = 200  # characters

MAX_CHANNEL_LENGTH = 40  # characters

MAX_URL_LENGTH = 2_000  # characters, the longest a store finds rows by

MAX_BYTES = 200_000_000  # a million profiles have about 100 MB

DEADLINE = timedelta(seconds=120)

_CLOSED_STATUSES = {401, 403, 404, 410}

MAX_SHOWN_CHARACTERS = 60  # characters of a cell in a sentence

_ONE_DAY = timedelta(days=1)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_SHEET_PATH = re.compile(r"/spreadsheets/d/([A-Za-z0-9_-]{10,200})(?:/.*)?")

# What people call the columns; the first that is there counts.
PROFILE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "url": ("url", "profile_url", "link", "profile", "linkedin_url", "website"),
    "name": ("name", "full_name", "company", "company_name"),
    "person": ("person", "contact", "contact_name", "full_name", "name"),
    "channel": ("channel", "medium", "via"),
    "last_done_at": (
        "last_done_at",
        "last_done",
        "last_touched_at",
        "last_touch",
        "last_contact",
        "last_engaged_date",
        "last_engaged_at",
        "last_engaged",
        "last_like_date",
        "last_liked_at",
    ),
    "status": ("status", "state"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that is no profile, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedProfiles:
    """What was in a table or a list of leads."""

    profiles: tuple[Profile, ...]
    bad_rows: tuple[BadRow, ...]
    columns: ColumnUse | None = None  # of a table

    @property
    def has_status(self) -> bool:
        """Return whether it says which profiles are active, paused, private or deleted."""
        return self.columns is not None and "status" in self.columns.meanings


def parse_profiles(rows: Iterable[TableRow], *, zone: ZoneInfo, now: datetime) -> ParsedProfiles:
    """Return the profiles of a table's rows.

    A date without a time is that day's beginning in `zone`. Of rows with the same address the
    first counts.
    """
    return _sort_out(
        (
            (f"line {row.line}", row.wrong or _parse_profile(row.cells, zone=zone, now=now))
            for row in rows
        ),
        repeated="its url stands in an earlier row",
    )


def leads_to_profiles(records: Iterable[CompanyRecord]) -> ParsedProfiles:
    """Return companies as profiles, each by the address of its website.

    Not one whose website may be a stranger's: touches end in a CRM, too.
    """
    return _sort_out(
        ((str(record.company.id), _lead_to_profile(record)) for record in records),
        repeated="another company has the same website",
    )


def _lead_to_profile(record: CompanyRecord) -> Profile | str:
    company = record.company
    if not company.website:
        return "no website of it is known"
    if record.is_site_probable:
        return f"its website is only probable; accept it with: stoker leads website {company.id}"
    contact = choose_best_contact(record)
    return _build_profile(
        company.website,
        company.name,
        person=contact.name if contact is not None else "",
        channel=_choose_channel(contact),
    )


def _choose_channel(contact: Contact | None) -> str:
    if contact is not None and get_usable_email(contact):
        return "email"
    return "phone" if contact is not None and contact.phone else ""


def _sort_out(found: Iterable[tuple[str, Profile | str]], *, repeated: str) -> ParsedProfiles:
    """Return the profiles among what was found in places, and why the others are none."""
    profiles: dict[str, Profile] = {}
    bad: list[BadRow] = []
    for where, parsed in found:
        if isinstance(parsed, str):
            bad.append(BadRow(where=where, reason=parsed))
        elif parsed.url in profiles:
            bad.append(BadRow(where=where, reason=repeated))
        else:
            profiles[parsed.url] = parsed
    return ParsedProfiles(profiles=tuple(profiles.values()), bad_rows=tuple(bad))


def compute_appeals(
    records: Iterable[CompanyRecord], heats: Mapping[CompanyId, float]
) -> dict[str, float]:
    """Return the appeal of leads, 0 to 1, by the addresses their profiles go by.

    A lead's appeal is its score or its heat, whichever is more.
    """
    appeals: dict[str, float] = {}
    for record in records:
        score = record.score.value if record.score is not None else 0.0
        appeal = min(max(score, heats.get(record.company.id, 0.0)), 1.0)
        parsed = _build_profile(record.company.website, "")
        if isinstance(parsed, Profile) and appeal > appeals.get(parsed.url, 0.0):
            appeals[parsed.url] = appeal
    return appeals


def merge_profiles(known: Iterable[Profile], given: ParsedProfiles) -> list[Profile]:
    """Return known profiles and those of a table or a list of leads, merged by their urls."""
    merged = {each.url: each for each in known}
    for each in given.profiles:
        before = merged.get(each.url)
        merged[each.url] = (
            each
            if before is None
            else merge_profile(before, each, keep_status=not given.has_status)
        )
    return list(merged.values())


def merge_profile(known: Profile, given: Profile, *, keep_status: bool = False) -> Profile:
    """Return a known profile merged with a given one.

    An empty text and a missing moment never replace one; of two moments the later counts. With
    `keep_status` the known status stays, because the source has none.
    """
    moments = [at for at in (known.last_done_at, given.last_done_at) if at is not None]
    has_name = given.name not in ("", given.url)  # without a name a profile goes by its url
    return replace(
        given,
        name=given.name if has_name else known.name or given.name,
        person=given.person or known.person,
        channel=given.channel or known.channel,
        status=known.status if keep_status else given.status,
        last_done_at=max(moments, default=None),
    )


def normalize_profile_url(text: str) -> str:
    """Return the address a profile goes by, written one way. Raises PermanentError."""
    text = clean_text(text).strip()
    address = str(parse_url(text if _SCHEME.match(text) else f"https://{text}"))
    if len(address) > MAX_URL_LENGTH:
        raise PermanentError(f"the address of a profile has at most {MAX_URL_LENGTH} characters")
    return address


def to_csv_export_url(url: str) -> str:
    """Return where a sheet of Google's is as CSV; another address is taken as it is.

    Raises PermanentError when it is no web address.
    """
    address = parse_url(url)
    parts = urlsplit(url)
    sheet = _SHEET_PATH.fullmatch(parts.path)
    if address.host != "docs.google.com" or sheet is None:
        return str(address)
    parameters = {**parse_qs(parts.fragment), **parse_qs(parts.query)}
    page = parameters.get("gid", ["0"])[0]
    if not re.fullmatch(r"[0-9]{1,20}", page):
        raise PermanentError("the page of this sheet (gid) is not a number")
    return f"https://docs.google.com/spreadsheets/d/{sheet[1]}/export?format=csv&gid={page}"


def _parse_profile(row: Mapping[str, Json], *, zone: ZoneInfo, now: datetime) -> Profile | str:
    cells = {name: str(cell) for name, cell in row.items()}
    try:
        status = ProfileStatus(cells.get("status", "").strip().lower() or ProfileStatus.ACTIVE)
    except ValueError:
        known = ", ".join(ProfileStatus)
        return f"its status is {_quote_cell(cells['status'])}; it may be {known}"
    done = cells.get("last_done_at", "").strip()
    try:
        done_at = _parse_moment(done, zone=zone) if done else None
    except (ValueError, OverflowError):
        return f"its last_done_at is {_quote_cell(done)}; give it as 2026-02-07 or 2026-02-07T09:30"
    if done_at is not None and done_at > now + _ONE_DAY:
        return f"its last_done_at, {_quote_cell(done)}, is still to come"
    return _build_profile(
        cells["url"],
        cells.get("name", ""),
        person=cells.get("person", ""),
        channel=cells.get("channel", ""),
        status=status,
        last_done_at=done_at,
    )


def _build_profile(
    url: str,
    name: str,
    *,
    person: str = "",
    channel: str = "",
    status: ProfileStatus = ProfileStatus.ACTIVE,
    last_done_at: datetime | None = None,
) -> Profile | str:
    try:
        url = normalize_profile_url(url)
    except PermanentError as error:
        return f"its url cannot be used: {error}"
    name, person, channel = (
        " ".join(clean_text(text).split())[:MAX_NAME_LENGTH] for text in (name, person, channel)
    )
    return Profile(
        url=url,
        name=name or person or url,
        person=person,
        channel=channel[:MAX_CHANNEL_LENGTH].lower(),
        last_done_at=last_done_at,
        status=status,
    )


def _parse_moment(text: str, *, zone: ZoneInfo) -> datetime:
    read = datetime.fromisoformat(text)
    return to_utc(read if read.tzinfo is not None else read.replace(tzinfo=zone))


def _quote_cell(text: str) -> str:
    return repr(clean_text(text)[:MAX_SHOWN_CHARACTERS])


async def read_profiles_file(path: Path, *, zone: ZoneInfo, now: datetime) -> ParsedProfiles:
    """Return what a CSV file lists. Raises ConfigError when it cannot be read at all."""

    def read() -> ParsedProfiles:
        try:
            with path.open("rb") as file:
                return _parse_table(file, zone=zone, now=now, where=str(path))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error

    return await asyncio.to_thread(read)


async def fetch_profiles(
    http: HttpClient, url: str, *, zone: ZoneInfo, now: datetime
) -> ParsedProfiles:
    """Return what a shared sheet, or any CSV file on the web, lists.

    Raises ConfigError when it is not there for us, TransientError when later may work.
    """
    try:
        address = to_csv_export_url(url)
        call = Request(
            method="GET",
            url=address,
            headers={"accept": "text/csv"},
            deadline=DEADLINE,
            max_bytes=MAX_BYTES,
            max_redirects=MAX_REDIRECTS,
        )
        reply = await http.send(call)
    except PermanentError as error:
        raise ConfigError(f"the table cannot be fetched: {error}") from error
    except UncertainError as error:
        raise TransientError(f"{error}; it is safe to ask again") from error
    where = parse_url(address).display_text
    if is_temporary(reply.status):
        wait = parse_retry_after(reply.headers)
        raise TransientError(
            f"{where} cannot be had now ({reply.status}); try again later", retry_after=wait
        )
    if reply.status in _CLOSED_STATUSES or reply.headers.get("content-type", "").startswith(
        "text/html"
    ):
        raise ConfigError(f"{where} is not open to us; share it with anyone who has the link")
    if reply.status != 200:
        raise ConfigError(f"{where} does not answer with a table ({reply.status})")
    if reply.truncated:
        raise ConfigError(f"{where} has more than {MAX_BYTES} bytes; split the table")
    stream = io.BytesIO(reply.body)
    return await asyncio.to_thread(_parse_table, stream, zone=zone, now=now, where=where)


def _parse_table(stream: Readable, *, zone: ZoneInfo, now: datetime, where: str) -> ParsedProfiles:
    try:
        seen: list[ColumnUse] = []
        rows = read_table(stream, PROFILE_COLUMNS, required=("url",), on_columns=seen.append)
        parsed = parse_profiles(rows, zone=zone, now=now)
        return replace(parsed, columns=seen[0])
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
