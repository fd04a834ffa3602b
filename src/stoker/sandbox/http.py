"""The sandbox's HTTP/1.1 server on loopback: requests, responses, connections.

Requests of one connection are answered one after the other. Input that is not a request gets 400
and the connection closes; memory is bounded by the limits below. A response can be wrong on purpose
in every way a real one can: lying length, reset, drip, no end.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from email.utils import parsedate_to_datetime
from hashlib import sha256
from http import HTTPStatus
from urllib.parse import parse_qs

import httptools

from stoker.base.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    host: str  # lower case, without a port
    path: str  # as it stood, still quoted
    search: str = ""  # what stood behind the question mark
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    number: int = 0  # the how-manieth request this is

    @property
    def query(self) -> Mapping[str, list[str]]:
        return parse_qs(self.search, keep_blank_values=True, max_num_fields=1000)

    def get_argument(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def get_number(self, name: str, default: int) -> int:
        text = self.get_argument(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else default

    def parse_json(self) -> Json:
        """Return the body as JSON; ValueError when it is none."""
        try:
            read: Json = json.loads(self.body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    after: timedelta | None = None  # how long it takes before the first byte
    stream: Iterable[bytes] | None = None  # in place of a body: piece by piece, may have no end
    hang: bool = False  # nothing is ever sent
    reset: bool = False  # the connection is reset, behind `close_after` bytes if that is given
    close_after: int | None = None  # the connection closes behind so many bytes of head and body
    drip: timedelta | None = None  # so long between one byte of the body and the next
    lying_length: int | None = None  # what Content-Length says instead

    def replace_fields(self, **changes: object) -> Response:
        return replace(self, **changes)  # type: ignore[arg-type]  # named by the caller, checked there


Handler = Callable[[Request], Response]
"""Answers one request: at once, without waiting, from its content and the world's seed."""


def to_json_response(
    data: Json, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        status=status,
        headers={"content-type": "application/json", **(headers or {})},
        # Half a surrogate pair comes back as the escape it came in.
        body=json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "backslashreplace"
        ),
    )


def to_page_response(markup: str | bytes, *, status: int = 200, charset: str = "utf-8") -> Response:
    body = markup if isinstance(markup, bytes) else markup.encode(charset, "xmlcharrefreplace")
    return Response(
        status=status, headers={"content-type": f"text/html; charset={charset}"}, body=body
    )


def to_text_response(text: str, *, status: int = 200) -> Response:
    return Response(
        status=status, headers={"content-type": "text/plain; charset=utf-8"}, body=text.encode()
    )


def hash_body(response: Response) -> str:
    """Return a strong ETag of a response."""
    return f'"{sha256(response.body).hexdigest()[:32]}"'


def answer_unless_known(
    request: Request, response: Response, validators: Mapping[str, str]
) -> Response:
    """Return the response with these validators, or 304 to a client that has seen exactly this."""
    known, etag = request.headers.get("if-none-match"), validators.get("etag")
    since, changed = request.headers.get("if-modified-since"), validators.get("last-modified")
    if known is not None:
        same = etag is not None and (known == "*" or etag.removeprefix("W/") in known)
    else:
        same = since is not None and changed is not None and _is_not_later(changed, since)
    if same:
        return Response(status=304, headers=validators)
    return response.replace_fields(headers={**response.headers, **validators})


def _is_not_later(changed: str, since: str) -> bool:
    try:
        return parsedate_to_datetime(changed) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):  # a date that is none, or one without a zone
        return False


_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_BODILESS = frozenset((204, 304))


def build_head(response: Response, *, close: bool) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {_PHRASES.get(response.status, 'Answer')}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in response.headers.items()]
    if response.stream is not None and response.lying_length is None:
        lines.append("transfer-encoding: chunked\r\n")
    elif response.status not in _BODILESS and "transfer-encoding" not in response.headers:
        length = len(response.body) if response.lying_length is None else response.lying_length
        lines.append(f"content-length: {length}\r\n")
    lines.append("connection: close\r\n\r\n" if close else "\r\n")
    return "".join(lines).encode("latin-1", "replace")


def has_body(response: Response, method: str) -> bool:
    return method != "HEAD" and response.status not in _BODILESS


MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
_MAX_PIPELINED = 16  # requests of one connection that may wait; then it is not read any further
_PIECE_BYTES = 64 * 1024
_PIECES_PER_WRITE = 16  # pieces of a stream before others have their turn
_LINGER_RESET = struct.pack("ii", 1, 0)  # linger on, for no time at all: closing sends a reset


class HttpConnection(asyncio.Protocol):
    def __init__(self, handler: Handler, lines: set[HttpConnection]) -> None:
        self._handler, self._connections = handler, lines
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, bool] | Response] = deque()
        self._stream: Iterator[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answering = self._ended = self._writing = False
        self._reading = self._writable = self._keep_alive = True
        self.on_message_begin()

    # What the socket says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a line needs a stream")
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._transport = self._stream = self._timer = None
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(400, b"that is no request\n")
        if self._head_size - self._body_size > MAX_HEAD_BYTES:
            self._refuse(431, b"that head is too large\n")
        if self._body_size > MAX_BODY_BYTES:
            self._refuse(413, b"that body is too large\n")

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self._stream is not None and not self._writing:
            self._write_pieces()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the parser says.

    def on_message_begin(self) -> None:
        self._url = b""
        self._fields: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = self._body_size = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._fields[key] = f"{self._fields[key]}, {text}" if key in self._fields else text

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size <= MAX_BODY_BYTES:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._ended:
            return
        if self._parser.should_upgrade():
            self._refuse(400, b"this is no place to change protocols\n")
            return
        try:
            url = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            self._refuse(400, b"that is no address\n")
            return
        named = url.host.decode("latin-1") if url.host else self._fields.get("host", "")
        host = named.partition(":")[0].strip().lower().removesuffix(".")
        if not host:
            self._refuse(400, b"say which host is meant\n")
            return
        request = Request(
            method=self._parser.get_method().decode("latin-1"),
            host=host,
            path=(url.path or b"/").decode("latin-1"),
            search=(url.query or b"").decode("latin-1"),
            headers=self._fields,
            body=b"".join(self._body),
        )
        self._waiting.append((request, self._parser.should_keep_alive()))
        # Bytes of the next request may already be counted; they start again with it.
        self._head_size = self._body_size = 0
        if not self._answering:
            self._answer_next()
        elif len(self._waiting) > _MAX_PIPELINED and self._transport is not None and self._reading:
            self._transport.pause_reading()
            self._reading = False

    # What becomes of a request.

    def _refuse(self, status: int, why: bytes) -> None:
        if self._ended:
            return
        self._ended = True
        self._waiting.append(
            Response(status=status, headers={"content-type": "text/plain"}, body=why)
        )
        if not self._answering:
            self._answer_next()

    def _answer_next(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if len(self._waiting) <= _MAX_PIPELINED and not self._reading:
            self._transport.resume_reading()
            self._reading = True
        if not self._waiting:
            self._answering = False
            return
        self._answering = True
        waiting = self._waiting.popleft()
        if isinstance(waiting, Response):
            self._write(waiting, method="GET", keep=False)
            return
        request, keep = waiting
        response = self._handler(request)
        if response.hang:
            return
        if response.after:
            self._timer = self._loop.call_later(
                response.after.total_seconds(), self._write, response, request.method, keep
            )
        else:
            self._write(response, request.method, keep)

    def _write(self, response: Response, method: str, keep: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        keep = keep and response.lying_length is None
        head = build_head(response, close=not keep)
        body = response.body if has_body(response, method) else b""
        if response.reset or response.close_after is not None:
            transport.write((head + body)[: response.close_after or 0])
            self._end(reset=response.reset)
        elif has_body(response, method) and (
            response.stream is not None or response.drip is not None
        ):
            transport.write(head)
            self._keep_alive = keep
            if response.drip is None:
                self._stream = _split_body(response)
                self._write_pieces()
            else:
                self._drip(_split_body(response), response.drip.total_seconds())
        else:
            transport.write(head + body)
            self._finish_response(keep=keep)

    def _write_pieces(self) -> None:
        self._writing = False
        for _ in range(_PIECES_PER_WRITE):
            transport = self._transport
            # A transport whose peer has gone takes everything and never says stop.
            if self._stream is None or transport is None or transport.is_closing():
                return
            if not self._writable:
                return
            piece = next(self._stream, None)
            if piece is None:
                self._stream = None
                self._finish_response(keep=self._keep_alive)
                return
            transport.write(piece)
        # A fast reader never makes us wait, and others want to be answered too.
        self._writing = True
        self._loop.call_soon(self._write_pieces)

    def _drip(self, pieces: Iterator[bytes], seconds: float) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        byte = next(pieces, None)
        if byte is None:
            self._finish_response(keep=self._keep_alive)
            return
        self._transport.write(byte)
        self._timer = self._loop.call_later(seconds, self._drip, pieces, seconds)

    def _finish_response(self, *, keep: bool) -> None:
        if keep:
            self._answer_next()
        else:
            self._end(reset=False)

    def _end(self, *, reset: bool) -> None:
        self._ended = True
        if self._transport is None:
            return
        if reset:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self._transport.close()


def _split_body(response: Response) -> Iterator[bytes]:
    if response.stream is None:
        for at in range(len(response.body)):
            yield response.body[at : at + 1]
        return
    framed = response.lying_length is None
    for piece in response.stream:
        for at in range(0, len(piece), _PIECE_BYTES):
            part = piece[at : at + _PIECE_BYTES]
            yield b"%x\r\n%b\r\n" % (len(part), part) if framed else part
    if framed:
        yield b"0\r\n\r\n"


async def open_server(handler: Handler, *, port: int) -> tuple[asyncio.Server, set[HttpConnection]]:
    """Open a port on loopback, and nowhere else; return the server and its open lines."""
    lines: set[HttpConnection] = set()
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpConnection(handler, lines), "127.0.0.1", port, backlog=1024
    )
    return server, lines
