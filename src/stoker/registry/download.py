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
from stoker.base.jsontools import list_in, object_in, text_in, whole_in
from stoker.base.types import Json
from stoker.budgets.model import Health
from stoker.http.api_client import Answered, Failure, Vendor, healthy, usable_key
from stoker.http.client import Call, Http, Reply
from stoker.http.url import WebAddress, web_address
from stoker.registry.releases import part_named, release_named

NAME = "data.gov.sg"

LIST_URL = "https://api-production.data.gov.sg"

DOWNLOAD_URL = "https://api-open.data.gov.sg"

COLLECTION = 2  # ACRA Information on Corporate Entities

MOST_FILE = 300_000_000  # bytes of one file; the largest has 76 MB

ATTEMPTS, MOST_POLLS = 5, 60

WAIT = timedelta(seconds=10)  # it never says how long; its limits are per 10 seconds

_CALL, _FILE = timedelta(seconds=30), timedelta(minutes=10)

_ID = re.compile(r"d_[0-9a-f]{8,64}")

_BY_HAND = "or download the files in a browser and give them to: stoker registry import"

FAILURES: Mapping[int, Failure] = {
    401: Failure(ConfigError, f"wants a key; give one, {_BY_HAND}"),
    403: Failure(ConfigError, f"does not let us in; try later, {_BY_HAND}"),
    404: Failure(PermanentError, "has no such collection or file any more"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One file of the register as it is published: under which id, and which part it is."""

    id: str
    part: str
    release: str


class Turns(Protocol):
    """The pace that calls are held to."""

    async def turn(self) -> None:
        """Wait until a call may go."""
        ...

    async def push_back(self, *, until: datetime) -> None:
        """Let nothing go before then."""
        ...


class DataGov:
    """Lists and downloads the register's files. Looking up and downloading have paces of their own.

    A key is not needed; with one, limits are twice as high.
    """

    def __init__(
        self,
        http: Http,
        *,
        clock: Clock,
        lists: Turns,
        downloads: Turns,
        list_url: str = LIST_URL,
        download_url: str = DOWNLOAD_URL,
        key: str | None = None,
        deadline: timedelta = _CALL,
        attempts: int = ATTEMPTS,
    ) -> None:
        headers = {} if key is None else {"x-api-key": usable_key(NAME, key)}
        self._http, self._clock = http, clock
        self._lists, self._downloads, self._attempts = lists, downloads, attempts
        self._list, self._download = (
            Vendor(
                http, name=NAME, base_url=url, headers=headers, deadline=deadline, failures=FAILURES
            )
            for url in (list_url, download_url)
        )

    async def files(self) -> list[Published]:
        """Return the register's files as published now, by part."""
        path = f"/v2/public/api/collections/{COLLECTION}/metadata"
        said = await self._asked(
            self._list, self._lists, path, {"withDatasetMetadata": "true"}, within="data"
        )
        # One release for all: files that are put there minutes apart belong together.
        release = release_named(text_in(object_in(said, "collectionMetadata"), "lastUpdatedAt"))
        if release is None:
            raise PermanentError(f"{NAME} does not say when the register was last published")
        found = {
            part: Published(id=id_, part=part, release=release)
            for each in list_in(said, "datasetMetadata", most=500)
            if (part := part_named(text_in(each, "name")))
            and _ID.fullmatch(id_ := text_in(each, "datasetId"))
        }
        if not found:
            raise PermanentError(f"{NAME} lists no files of the register in collection 2")
        return [found[part] for part in sorted(found)]

    async def download(self, published: Published, *, to: Path) -> None:
        """Write a published file to a path. Raises before anything is there when it is refused."""
        path = f"/v1/public/api/datasets/{published.id}"
        await self._asked(self._download, self._downloads, f"{path}/initiate-download")
        for _ in range(MOST_POLLS):
            polled = await self._asked(
                self._download, self._downloads, f"{path}/poll-download", within="data"
            )
            status, url = text_in(polled, "status"), text_in(polled, "url", longest=8_000)
            if url:
                await self._fetched(url, to=to)
                return
            if "FAIL" in status.upper() or "ERROR" in status.upper():
                raise PermanentError(f"{NAME} could not make part {published.part} ready")
        raise TransientError(
            f"{NAME} did not get part {published.part} ready; try again later", retry_after=WAIT
        )

    async def check(self) -> Health:
        """Find out whether it is there and lists the register's files. Never raises."""

        async def look() -> str:
            files = await self.files()
            return f"{len(files)} files of release {files[0].release}"

        return await healthy(look)

    async def _fetched(self, url: str, *, to: Path) -> None:
        for attempt in range(1, self._attempts + 1):
            try:
                return await fetch(self._http, url, to=to)
            except TransientError as error:
                if attempt == self._attempts:
                    raise
                await self._downloads.push_back(until=self._clock.now() + _wait(error))
                await self._downloads.turn()
        return None

    async def _asked(
        self,
        vendor: Vendor,
        turns: Turns,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        within: str = "",
    ) -> Json:
        for attempt in range(1, self._attempts + 1):
            await turns.turn()
            try:
                return _told(await vendor.get(path, params), within)
            except (TransientError, UncertainError) as error:
                if attempt == self._attempts:
                    raise TransientError(
                        f"{error}; tried {self._attempts} times, try again later"
                    ) from error
                await turns.push_back(until=self._clock.now() + _wait(error))
        raise TransientError(f"{NAME} was not asked")


async def fetch(http: Http, url: str, *, to: Path, most: int = MOST_FILE) -> None:
    """Write what is at an address to a path, whole or not at all; nothing of ours goes along.

    Raises PermanentError for an address that is refused, an answer that is no file, and more than
    `most` bytes; TransientError when it may work later.
    """
    address = _trusted(url)
    coming = to.with_name(f"{to.name}.coming")
    try:
        with coming.open("wb") as file:
            reply = await _taken(http, url, file, most=most)
        if reply.status in (408, 425, 429) or reply.status >= 500:
            raise TransientError(f"{address.netloc} has no file for us right now ({reply.status})")
        if reply.status != 200:
            raise PermanentError(f"{address.netloc} does not give out the file ({reply.status})")
        _trusted(reply.url)  # redirects may have led elsewhere
        if reply.cut:
            raise PermanentError(f"{address.netloc} sends more than {most:,} bytes")
        coming.replace(to)
    except OSError as error:
        raise TransientError(
            f"the file cannot be kept at {to.parent} ({error.strerror}); make room and try again"
        ) from error
    finally:
        with suppress(OSError):
            coming.unlink()


async def _taken(http: Http, url: str, file: BinaryIO, *, most: int) -> Reply:
    """Write a file as it comes: the largest does not fit into every machine's memory."""
    failed: list[OSError] = []

    def take(piece: bytes) -> None:
        try:
            file.write(piece)
        except OSError as error:
            failed.append(error)
            raise UncertainError("it cannot be kept") from error

    call = Call(method="GET", url=url, deadline=_FILE, most_bytes=most, hops=3, into=take)
    try:
        return await http.send(call)
    except UncertainError as error:
        if failed:
            raise failed[0] from error
        raise TransientError(f"{error}; nothing was kept, try again") from error


def _trusted(url: str) -> WebAddress:
    """Return an address whose files nobody on the way can have changed."""
    address = web_address(url)
    if address.scheme != "https" and not address.host.endswith(".test"):
        raise PermanentError(f"{address.netloc} offers the file without https; it is not taken")
    return address


def _told(answered: Answered, within: str) -> Json:
    code = whole_in(answered.data, "code")
    if code == 24:
        # Its way to say "too many", whatever the status.
        raise TransientError(f"{NAME} asks us to come back later (24)")
    if code not in (0, None):
        raise PermanentError(f"{NAME} does not answer this question (code {code})")
    if not object_in(answered.data):
        raise UncertainError(f"{NAME} gave an answer that says nothing")
    return object_in(answered.data, within) if within else answered.data


def _wait(error: StokerError) -> timedelta:
    asked = error.retry_after if isinstance(error, TransientError) else None
    return max(asked or WAIT, WAIT)
