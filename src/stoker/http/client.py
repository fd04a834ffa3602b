"""The HTTP client that every connector and the crawler go through: one call, one bounded reply.

It keeps one deadline over everything, bounds what it takes in, and follows redirects by its own
rules. What a status means is not known here, nor which addresses may be visited. No header value
and no query gets into an error.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from stoker.base.errors import ConfigError, PermanentError, TransientError, UncertainError
from stoker.context import Context
from stoker.http.pool import ConnectionPool
from stoker.http.resolver import LookUp, look_up
from stoker.http.response import ACCEPT_ENCODING, BodySink, Outcome, ResponseParser
from stoker.http.ssrf import PrivateAddressError, SafeConnector
from stoker.http.url import Url, parse_url, resolve_link

MAX_REDIRECTS = 5
SPARE_CONNECTIONS = 100  # for vendors, besides those for sites
REDIRECT_STATUSES = {301, 302, 303, 307, 308}

# The only headers that go along to another origin; any other may be a credential.
_SAFE_HEADERS = {"accept", "accept-language", "user-agent"}
_RETRY_STATUSES = {408, 425, 429}
_VALIDATOR = re.compile(r"[\x20-\x7e]{0,500}")
_METHOD = re.compile(r"[A-Z]{3,10}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
_RESERVED_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `deadline` is for all of it: looking up, connecting, redirects, the body."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    deadline: timedelta
    max_bytes: int = 5_000_000
    max_redirects: int = 0  # at most MAX_REDIRECTS; with none, a redirect is the reply
    billable: bool = False  # it may cost something: an answer we cannot take is then uncertain
    is_vendor: bool = False  # settings name the host, no page or list does
    may_be_private: bool = False  # a setting allows this host and port to be private; no redirects
    private_setting: str = ""  # which one would
    body_sink: BodySink | None = None  # takes the body of a 200; the reply has none of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What the server returned; none of it is trusted."""

    status: int
    headers: Mapping[str, str]  # names in lower case; several of a name joined by ", "
    body: bytes  # decompressed, at most as much as was asked for
    url: str  # where it ended
    truncated: bool  # there was more
    wire_bytes: int  # of the body, as sent


def is_temporary(status: int) -> bool:
    """Return whether a status asks us to come back later."""
    return status in _RETRY_STATUSES or status >= 500


def build_conditions(*, etag: str, last_modified: str) -> dict[str, str]:
    """Return the headers that ask for a page only if it changed since these were sent."""
    if etag:
        return {"if-none-match": etag}
    return {"if-modified-since": last_modified} if last_modified else {}


def get_validators(reply: Response) -> tuple[str, str]:
    """Return ETag and Last-Modified that can be sent back; an odd one counts as none."""
    values = (reply.headers.get(name, "") for name in ("etag", "last-modified"))
    etag, modified = (value if _VALIDATOR.fullmatch(value) else "" for value in values)
    return etag, modified


class HttpClient:
    """Sends calls, over connections it keeps open for a while. Close it when done.

    `sandbox` is the loopback address that names ending in `.test` lead to, and nothing else does.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        sandbox: str | None = None,
        connections: int = 100,
        tls: ssl.SSLContext | None = None,
        look_up: LookUp = look_up,
    ) -> None:
        if not user_agent or not _HEADER_VALUE.fullmatch(user_agent):
            raise ConfigError("the user agent is one line of plain text that names the caller")
        self._user_agent = user_agent
        self._connector = SafeConnector(sandbox=sandbox, look_up=look_up)
        self._connections = ConnectionPool(self._connector, most=connections, tls=tls)

    async def send(self, call: Request) -> Response:
        """Send one call and return the reply, whatever its status.

        Raises PermanentError when the address is refused or does not exist, redirects do not end
        or lead where we do not go, or the body is in an encoding we did not ask for;
        TransientError when no connection was made, so that nothing was sent; UncertainError when
        the request may have arrived: no answer in time, or a broken one.
        """
        address = parse_url(call.url, may_be_private=call.may_be_private)
        if not 0 <= call.max_redirects <= MAX_REDIRECTS:
            raise ConfigError(
                f"at most {MAX_REDIRECTS} redirects are followed, not {call.max_redirects}"
            )
        progress = _Progress()
        try:
            async with asyncio.timeout(call.deadline.total_seconds()):
                return await self._follow_redirects(call, address, progress)
        except PrivateAddressError as error:
            if not call.private_setting:
                raise
            hint = f"if it is your own server, set {call.private_setting} = true"
            raise PermanentError(f"{error}; {hint}") from error
        except TimeoutError as error:
            if progress.sent:
                raise UncertainError(f"{address.display_text} did not answer in time") from error
            raise TransientError(f"{address.netloc} could not be reached in time") from error

    async def close(self) -> None:
        """Close all connections. Closing twice is once."""
        await self._connections.close()
        self._connector.close()

    async def _follow_redirects(self, call: Request, address: Url, progress: _Progress) -> Response:
        for _ in range(call.max_redirects + 1):
            reply = await self._exchange(call, address, progress)
            to = reply.headers.get("location") if reply.status in REDIRECT_STATUSES else None
            if not call.max_redirects or not to:
                return reply
            call, address = _build_redirect(call, address, reply.status, to)
        raise PermanentError(f"{address.netloc} redirects more than {call.max_redirects} times")

    async def _exchange(self, call: Request, address: Url, progress: _Progress) -> Response:
        request = self._build_request(call, address)
        answer, kept = await self._send_once(call, address, request, progress)
        if kept and answer.is_lost and _can_resend(call):
            # The server closed a connection while our request was on its way to it.
            answer, _ = await self._send_once(call, address, request, progress, afresh=True)
        if answer.outcome is Outcome.REFUSED:
            why = f"{address.display_text} answers in an encoding we did not ask for"
            raise UncertainError(why) if call.billable else PermanentError(why)
        if answer.outcome is Outcome.BROKEN or answer.body is None:
            raise UncertainError(
                f"{address.display_text} sent an invalid response: {answer.problem}"
            )
        return Response(
            status=answer.status,
            headers=answer.headers,
            body=answer.body.get_body(),
            url=str(address),
            truncated=answer.outcome is Outcome.TRUNCATED,
            wire_bytes=answer.body_bytes,
        )

    async def _send_once(
        self,
        call: Request,
        address: Url,
        request: bytes,
        progress: _Progress,
        *,
        afresh: bool = False,
    ) -> tuple[ResponseParser, bool]:
        """Return the answer to one request, and whether its connection had been used before."""
        connection = await self._connections.acquire(
            address, afresh=afresh, is_vendor=call.is_vendor
        )
        kept = connection.idle_since is not None
        answer = ResponseParser(method=call.method, most=call.max_bytes, into=call.body_sink)
        progress.sent = True
        try:
            await connection.exchange(request, answer)
        finally:
            self._connections.release(connection, keep=answer.reusable)
            answer.release()
        return answer, kept

    def _build_request(self, call: Request, address: Url) -> bytes:
        """Return a request as it is sent; its head is checked, so that it stays one request."""
        if not _METHOD.fullmatch(call.method):
            raise PermanentError("the method of a request is a word in capitals")
        headers = {"host": address.netloc, "user-agent": self._user_agent, "accept": "*/*"}
        for name, value in call.headers.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
                raise PermanentError("a header of this request has a name that cannot be sent")
            if not _HEADER_VALUE.fullmatch(value):
                raise PermanentError(f"the header {name} has a value that cannot be sent")
            headers[name.lower()] = value
        headers["accept-encoding"] = ACCEPT_ENCODING
        if call.body is not None or call.method not in ("GET", "HEAD"):
            headers["content-length"] = str(len(call.body or b""))
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"{call.method} {address.target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")
        return head + call.body if call.body else head


class _Progress:
    """How far a call got, for saying what a missed deadline means."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False


def _can_resend(call: Request) -> bool:
    """Whether a request may be sent twice."""
    return call.method in ("GET", "HEAD") and not call.billable


def _build_redirect(call: Request, origin: Url, status: int, to: str) -> tuple[Request, Url]:
    """Return the next request of a redirect, without what only the first origin may know."""
    address = resolve_link(origin, _decode_header(to))
    if status == 303 or (status in (301, 302) and call.method == "POST"):
        method = "HEAD" if call.method == "HEAD" else "GET"
        kept = {k: v for k, v in call.headers.items() if k.lower() != "content-type"}
        call = replace(call, method=method, body=None, headers=kept)
    if address.origin != origin.origin:
        harmless = {k: v for k, v in call.headers.items() if k.lower() in _SAFE_HEADERS}
        downgrade = origin.scheme == "https" and address.scheme == "http"
        if call.body is not None or (downgrade and len(harmless) < len(call.headers)):
            raise PermanentError(f"{origin.netloc} redirects a request that may not leave it")
        call = replace(call, headers=harmless)
    return call, address


def _decode_header(header: str) -> str:
    """Return a header's text in UTF-8 where it is that; many servers send it, none may."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


def build_http_client(context: Context) -> HttpClient:
    """Build the client that everything goes through; it is closed with the process."""
    settings = context.settings
    client = HttpClient(
        user_agent=settings.crawl.user_agent,
        sandbox=settings.sandbox.address,
        connections=settings.crawl.concurrency + SPARE_CONNECTIONS,
    )
    context.parts.exits.push_async_callback(client.close)
    return client
