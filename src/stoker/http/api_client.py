"""One vendor's API over HTTP: sends the key, turns statuses into the five kinds of error.

A vendor's own meanings are in its failure table; what most vendors mean is here. The cost a
vendor reports counts; without one, the reserved cost does, so that nothing is counted too low. No
vendor text or header appears in an error: either could hold a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar
from urllib.parse import urlencode

from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.retry import parse_retry_after
from stoker.base.strict_json import parse_json
from stoker.base.types import Json
from stoker.budgets.model import Health
from stoker.http.client import HttpClient, Request, Response
from stoker.http.url import parse_url

MAX_CREDITS = 1_000_000  # for one call; a larger number is not believed
_KEY = re.compile(r"[\x21-\x7e]{1,500}")


def check_api_key(vendor: str, key: str) -> str:
    """Return a key that can be sent, or say that there is none. It is not repeated."""
    if not _KEY.fullmatch(key):
        raise ConfigError(f"{vendor} needs a key, one word of plain letters; set it in settings")
    return key


def compute_billed_cost(
    vendor: str, billed: int | None, *, reserved: int, calls: int = 1
) -> Mapping[str, int]:
    """Return what a call cost, by unit: as the vendor billed, or else as reserved.

    Raises UncertainError when the number cannot be meant.
    """
    if billed is not None and billed > MAX_CREDITS:
        raise UncertainError(f"{vendor} says it charged more than {MAX_CREDITS} credits at once")
    return {"calls": calls, "credits": reserved if billed is None else billed}


async def check_health(look: Callable[[], Awaitable[str]]) -> Health:
    """Return how a vendor is, by a look at it that costs nothing. Never raises."""
    try:
        return Health(ok=True, detail=await look())
    except StokerError as error:
        return Health(ok=False, detail=str(error))


MAX_ANSWER_BYTES = 5_000_000
MAX_ANSWER_VALUES = 100_000  # in one answer; each takes far more memory than its bytes
MAX_SMALL_ANSWER_BYTES = 50_000  # read at once; a larger answer in a process of its own


@dataclass(frozen=True, slots=True)
class StatusMeaning:
    """What a status means at a vendor: the kind of error, and the rest of "NAME ..."."""

    kind: type[StokerError]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorResponse:
    """A vendor's answer, read. `data` is None when there was nothing to read."""

    status: int
    headers: Mapping[str, str]
    data: Json


ParsedT = TypeVar("ParsedT")
ErrorClassifier = Callable[[VendorResponse], StokerError | None]
_COME_BACK_LATER = "asks us to slow down"

DEFAULT_STATUSES: Mapping[int, StatusMeaning] = {
    400: StatusMeaning(PermanentError, "does not understand this request"),
    401: StatusMeaning(ConfigError, "refuses our key; check it in the settings"),
    402: StatusMeaning(ConfigError, "requires payment; check the account's balance"),
    403: StatusMeaning(ConfigError, "does not allow this with our key; check the plan and the key"),
    404: StatusMeaning(PermanentError, "has nothing at this address"),
    405: StatusMeaning(PermanentError, "does not offer this"),
    408: StatusMeaning(TransientError, _COME_BACK_LATER),
    413: StatusMeaning(PermanentError, "refuses this request as too large"),
    422: StatusMeaning(PermanentError, "cannot process this request"),
    425: StatusMeaning(TransientError, _COME_BACK_LATER),
    429: StatusMeaning(TransientError, _COME_BACK_LATER),
    503: StatusMeaning(TransientError, _COME_BACK_LATER),
}


def _parse_answer(body: bytes) -> Json:
    return parse_json(body, max_values=MAX_ANSWER_VALUES)


class VendorApi:
    """A vendor at a base address, asked with our key. It asks once and never again by itself.

    `failures` stands before what is usual. `judge` sees every answer that is not a success first,
    its data read where it can be, and may return what to raise: for vendors whose meaning is in
    the body. Keys belong into `headers`, which are never shown.
    """

    def __init__(
        self,
        http: HttpClient,
        *,
        name: str,
        base_url: str,
        headers: Mapping[str, str],
        deadline: timedelta,
        failures: Mapping[int, StatusMeaning] | None = None,
        judge: ErrorClassifier | None = None,
        most_bytes: int = MAX_ANSWER_BYTES,
        may_be_private: bool = False,
        private_setting: str = "",
    ) -> None:
        try:
            base = parse_url(base_url, may_be_private=may_be_private)
        except PermanentError as error:
            raise ConfigError(f"{name}'s base address cannot be used: {error}") from error
        if not base.is_confidential:
            raise ConfigError(f"{name}'s base address must begin with https://: a key goes along")
        self.name = name
        self._http = http
        self._base = str(base).rstrip("/")
        self._may_be_private, self._private_setting = may_be_private, private_setting
        self._headers = dict(headers)
        self._deadline = deadline
        self._failures = {**DEFAULT_STATUSES, **(failures or {})}
        self._judge = judge
        self._most_bytes = most_bytes
        self._pool = ProcessPool()

    def __repr__(self) -> str:
        return f"Vendor({self.name!r})"

    async def post(
        self, path: str, data: Json, *, headers: Mapping[str, str] | None = None
    ) -> VendorResponse:
        """Send a question as JSON and return the answer.

        Raises as `Connector.ask` says. An answer that came but cannot be read is UncertainError:
        it may have been charged.
        """
        try:
            body = json.dumps(data, allow_nan=False).encode()
        except (ValueError, TypeError, RecursionError) as error:
            raise PermanentError(f"a request to {self.name} cannot be written as JSON") from error
        sent = {"content-type": "application/json", "accept": "application/json", **(headers or {})}
        return await self.read(await self.send("POST", path, body=body, headers=sent))

    async def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> VendorResponse:
        """Ask for what is at a path and return the answer. Raises as `post`."""
        if params:
            path = f"{path}?{urlencode(params)}"
        sent = {"accept": "application/json", **(headers or {})}
        return await self.read(await self.send("GET", path, headers=sent))

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request and return the reply of a success, unread. Raises as `post`."""
        call = Request(
            method=method,
            url=self._base + path,
            headers={**self._headers, **(headers or {})},
            body=body,
            deadline=self._deadline,
            max_bytes=self._most_bytes,
            billable=True,
            is_vendor=True,
            may_be_private=self._may_be_private,
            private_setting=self._private_setting,
        )
        try:
            reply = await self._http.send(call)
        except PermanentError as error:
            # Nothing about the question: the address itself is refused or leads nowhere.
            raise ConfigError(f"{self.name} cannot be called at its address: {error}") from error
        if not 200 <= reply.status < 300:
            raise self._to_error(reply)
        if reply.truncated:
            raise UncertainError(f"{self.name} answered with more than {self._most_bytes} bytes")
        return reply

    async def read(self, reply: Response) -> VendorResponse:
        """Return a success as the JSON it holds. Raises UncertainError when it holds none."""
        try:
            data = await self.parse_body(_parse_answer, reply.body) if reply.body else None
        except PermanentError as error:
            raise UncertainError(f"{self.name} gave an unreadable answer: {error}") from error
        return VendorResponse(status=reply.status, headers=reply.headers, data=data)

    async def parse_body(self, parse: Callable[[bytes], ParsedT], body: bytes) -> ParsedT:
        """Return what a function makes of a body; of a large one, in a process of its own.

        Raises PermanentError as the function does, and when it takes too long.
        """
        if len(body) <= MAX_SMALL_ANSWER_BYTES:
            return parse(body)
        parsed = await self._pool.run(parse, body)
        if isinstance(parsed, Aborted):
            raise PermanentError(parsed.reason)
        return parsed

    def _to_error(self, reply: Response) -> StokerError:
        if self._judge is not None:
            try:
                is_small = 0 < len(reply.body) <= MAX_SMALL_ANSWER_BYTES
                data = parse_json(reply.body) if is_small and not reply.truncated else None
            except PermanentError:
                data = None
            answered = VendorResponse(status=reply.status, headers=reply.headers, data=data)
            if (judged := self._judge(answered)) is not None:
                return judged
        known = self._failures.get(reply.status)
        if known is None:
            return self._to_unexpected_error(reply)
        because = f"{self.name} {known.text} ({reply.status})"
        if issubclass(known.kind, TransientError):
            return known.kind(because, retry_after=parse_retry_after(reply.headers))
        return known.kind(because)

    def _to_unexpected_error(self, reply: Response) -> StokerError:
        status = reply.status
        if status >= 500:
            # Some vendors know better than their status says whether coming again is any use.
            useless = reply.headers.get("x-should-retry", "").strip().lower() == "false"
            because = f"{self.name} failed on this request ({status})"
            return UncertainError(because, broke_down=not useless)
        if 300 <= status < 400:
            return ConfigError(
                f"{self.name} has moved ({status}); its base address must be where it is now"
            )
        return PermanentError(f"{self.name} refuses this request ({status})")
