"""Read tables of profiles: a CSV file on disk, or a shared sheet by its address.

`profiles` parses the rows; here a table is read whole, within bounds.
"""

from __future__ import annotations

import asyncio
import io
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.base.retry import parse_retry_after
from stoker.files.tables import Readable, read_table
from stoker.http.client import MAX_REDIRECTS, HttpClient, Request, is_temporary
from stoker.http.url import parse_url
from stoker.touches.profiles import (
    PROFILE_COLUMNS,
    ParsedProfiles,
    parse_profiles,
    to_csv_export_url,
)

MAX_BYTES = 200_000_000  # a million profiles have about 100 MB

DEADLINE = timedelta(seconds=120)

_CLOSED_STATUSES = {401, 403, 404, 410}


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
        rows = read_table(stream, PROFILE_COLUMNS, required=("url",))
        return parse_profiles(rows, zone=zone, now=now)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
