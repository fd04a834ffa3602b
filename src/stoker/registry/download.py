"""data.gov.sg: which files the register has today, and their download.

A collection lists its datasets; a download is initiated, asked after until it is ready, and then
fetched from an address that is good for a while. Everything is free and changes nothing over
there, so what failed is asked for again, a few times and at the pace it is given. What is in a
file is not looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from stoker.base.clock import Clock
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import get_count, get_line, get_list, get_object
from stoker.base.types import Json
from stoker.budgets.model import Health
from stoker.config.fields import Secret
from stoker.context import Context, TenantContext
from stoker.http.api_client import (
    StatusMeaning,
    VendorApi,
    VendorResponse,
    check_api_key,
    check_health,
)
from stoker.http.client import HttpClient, Request, Response, build_http_client, is_temporary
from stoker.http.url import Url, parse_url
from stoker.rate_limits.limiter import build_vendor_limits
from stoker.registry.releases import find_part_in_name, find_release_in_name

NAME = "data.gov.sg"
COLLECTION = 2  # ACRA Information on Corporate Entities
MAX_FILE_BYTES = 300_000_000  # bytes of one file; the largest has 76 MB
ATTEMPTS, MAX_POLLS = 5, 60
MIN_WAIT = timedelta(seconds=10)  # it never says how long; its limits are per 10 seconds
_CALL_TIMEOUT, _FILE_TIMEOUT = timedelta(seconds=30), timedelta(minutes=10)
_ID = re.compile(r"d_[0-9a-f]{8,64}")
_BY_HAND = "or download the files in a browser and give them to: stoker registry import"

FAILURES: Mapping[int, StatusMeaning] = {
    401: StatusMeaning(ConfigError, f"needs a key; give one, {_BY_HAND}"),
    403: StatusMeaning(ConfigError, f"refuses access; try later, {_BY_HAND}"),
    404: StatusMeaning(PermanentError, "has no such collection or file any more"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """One file of the register as it is published: under which id, and which part it is."""

    id: str
    part: str
    release: str


class CallRate(Protocol):
    """The pace that calls are held to."""

    async def acquire(self) -> None: ...

    async def delay_until(self, *, until: datetime) -> None: ...


class DataGov:
    """Lists and downloads the register's files. Looking up and downloading have paces of their own.

    A key is not needed; with one, limits are twice as high.
    """

    def __init__(
        self,
        http: HttpClient,
        *,
        clock: Clock,
        lists: CallRate,
        downloads: CallRate,
        list_url: str,
        download_url: str,
        key: str | None = None,
        deadline: timedelta = _CALL_TIMEOUT,
        attempts: int = ATTEMPTS,
    ) -> None:
        headers = {} if key is None else {"x-api-key": check_api_key(NAME, key)}
        self._http, self._clock = http, clock
        self._lists, self._downloads, self._attempts = lists, downloads, attempts
        self._list, self._download = (
            VendorApi(
                http, name=NAME, base_url=url, headers=headers, deadline=deadline, failures=FAILURES
            )
            for url in (list_url, download_url)
        )

    async def list_files(self) -> list[PublishedFile]:
        """Return the register's files as published now, by part."""
        path = f"/v2/public/api/collections/{COLLECTION}/metadata"
        metadata = await self._call_with_retry(
            self._list, self._lists, path, {"withDatasetMetadata": "true"}, within="data"
        )
        # One release for all: files that are put there minutes apart belong together.
        release = find_release_in_name(
            get_line(get_object(metadata, "collectionMetadata"), "lastUpdatedAt")
        )
        if release is None:
            raise PermanentError(f"{NAME} does not say when the register was last published")
        found = {
            part: PublishedFile(id=id_, part=part, release=release)
            for each in get_list(metadata, "datasetMetadata", most=500)
            if (part := find_part_in_name(get_line(each, "name")))
            and _ID.fullmatch(id_ := get_line(each, "datasetId"))
        }
        if not found:
            raise PermanentError(f"{NAME} lists no files of the register in collection 2")
        return [found[part] for part in sorted(found)]

    async def download(self, published: PublishedFile, *, to: Path) -> None:
        """Write a published file to a path. Raises before anything is there when it is refused."""
        path = f"/v1/public/api/datasets/{published.id}"
        await self._call_with_retry(self._download, self._downloads, f"{path}/initiate-download")
        for _ in range(MAX_POLLS):
            polled = await self._call_with_retry(
                self._download, self._downloads, f"{path}/poll-download", within="data"
            )
            status, url = get_line(polled, "status"), get_line(polled, "url", longest=8_000)
            if url:
                await self._fetch_with_retry(url, to=to)
                return
            if "FAIL" in status.upper() or "ERROR" in status.upper():
                raise PermanentError(f"{NAME} could not make part {published.part} ready")
        raise TransientError(
            f"{NAME} did not get part {published.part} ready; try again later", retry_after=MIN_WAIT
        )

    async def check(self) -> Health:
        """Find out whether it is there and lists the register's files. Never raises."""

        async def look() -> str:
            files = await self.list_files()
            return f"{len(files)} files of release {files[0].release}"

        return await check_health(look)

    async def _fetch_with_retry(self, url: str, *, to: Path) -> None:
        for attempt in range(1, self._attempts + 1):
            try:
                return await fetch_file(self._http, url, to=to)
            except TransientError as error:
                if attempt == self._attempts:
                    raise
                await self._downloads.delay_until(until=self._clock.now() + _compute_wait(error))
                await self._downloads.acquire()
        return None

    async def _call_with_retry(
        self,
        vendor: VendorApi,
        turns: CallRate,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        within: str = "",
    ) -> Json:
        for attempt in range(1, self._attempts + 1):
            await turns.acquire()
            try:
                return _parse_answer(await vendor.get(path, params), within)
            except (TransientError, UncertainError) as error:
                if attempt == self._attempts:
                    raise TransientError(
                        f"{error}; tried {self._attempts} times, try again later"
                    ) from error
                await turns.delay_until(until=self._clock.now() + _compute_wait(error))
        raise TransientError(f"{NAME} was not called")


async def fetch_file(http: HttpClient, url: str, *, to: Path, most: int = MAX_FILE_BYTES) -> None:
    """Write what is at an address to a path, whole or not at all; nothing of ours goes along.

    Raises PermanentError for an address that is refused, an answer that is no file, and more than
    `most` bytes; TransientError when it may work later.
    """
    address = _require_https(url)
    coming = to.with_name(f"{to.name}.coming")
    try:
        with coming.open("wb") as file:
            reply = await _stream_to_file(http, url, file, most=most)
        if is_temporary(reply.status):
            raise TransientError(f"{address.netloc} does not offer the file now ({reply.status})")
        if reply.status != 200:
            raise PermanentError(f"{address.netloc} refuses the file ({reply.status})")
        _require_https(reply.url)  # redirects may have led elsewhere
        if reply.truncated:
            raise PermanentError(f"{address.netloc} sends more than {most:,} bytes")
        coming.replace(to)
    except OSError as error:
        raise TransientError(
            f"the file cannot be stored in {to.parent} ({error.strerror}); make room and try again"
        ) from error
    finally:
        with suppress(OSError):
            coming.unlink()


async def _stream_to_file(http: HttpClient, url: str, file: BinaryIO, *, most: int) -> Response:
    """Write a file as it comes: the largest does not fit into every machine's memory."""
    failed: list[OSError] = []

    def take(piece: bytes) -> None:
        try:
            file.write(piece)
        except OSError as error:
            failed.append(error)
            raise UncertainError("it cannot be stored") from error

    call = Request(
        method="GET",
        url=url,
        deadline=_FILE_TIMEOUT,
        max_bytes=most,
        max_redirects=3,
        body_sink=take,
    )
    try:
        return await http.send(call)
    except UncertainError as error:
        if failed:
            raise failed[0] from error
        raise TransientError(f"{error}; nothing was stored, try again") from error


def _require_https(url: str) -> Url:
    """Return an address whose files cannot be changed on the way."""
    address = parse_url(url)
    if not address.is_confidential:
        raise PermanentError(
            f"{address.netloc} offers the file without https; it is not downloaded"
        )
    return address


def _parse_answer(answered: VendorResponse, within: str) -> Json:
    code = get_count(answered.data, "code")
    if code == 24:
        # Code 24 means "too many requests", with any HTTP status.
        raise TransientError(f"{NAME} asks us to slow down (24)")
    if code not in (0, None):
        raise PermanentError(f"{NAME} refuses this request (code {code})")
    if not get_object(answered.data):
        raise UncertainError(f"{NAME} returned an empty answer")
    return get_object(answered.data, within) if within else answered.data


def _compute_wait(error: StokerError) -> timedelta:
    asked = error.retry_after if isinstance(error, TransientError) else None
    return max(asked or MIN_WAIT, MIN_WAIT)


def get_portal(tenant: TenantContext) -> DataGov:
    """Return where the register is published, the same for every tenant."""
    return tenant.process.get(build_portal)


def build_portal(context: Context) -> DataGov:
    """Build where the register is published, at the rate it allows."""
    settings, limits = context.settings, context.get(build_vendor_limits)
    key: Secret | None = settings.get_value("keys.datagov")
    return DataGov(
        context.get(build_http_client),
        clock=context.clock,
        lists=limits.get_limiter("datagov").rate,
        downloads=limits.get_limiter("datagov_downloads").rate,
        list_url=settings.get_value("datagov.base_url"),
        download_url=settings.get_value("datagov_downloads.base_url"),
        key=None if key is None else key.reveal(),
    )
