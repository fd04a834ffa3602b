"""Requests in, answers out: what the make-believe internet is asked, and what it may answer.

Plain values and the rules for writing them down as HTTP/1.1. An answer can be wrong on purpose in
every way a real one can. Sockets are `listening.py`'s business; who answers is the box's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from urllib.parse import parse_qs

from stoker.core.model import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, as it came."""

    method: str
    host: str  # lower case, without a port
    path: str  # as it stood, still quoted
    search: str = ""  # what stood behind the question mark
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    number: int = 0  # the how-manieth request this is

    @property
    def query(self) -> Mapping[str, list[str]]:
        """What stood behind the question mark, by name."""
        return parse_qs(self.search, keep_blank_values=True, max_num_fields=1000)

    def argument(self, name: str, default: str = "") -> str:
        """Return the first value of a name behind the question mark."""
        return self.query.get(name, [default])[0]

    def json(self) -> Json:
        """Return the body as JSON; ValueError when it is none."""
        try:
            read: Json = json.loads(self.body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One answer, and what goes wrong on its way. Without faults it is an honest one."""

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

    def but(self, **changes: object) -> Told:
        """Return the same answer with something changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # named by the caller, checked there


Handler = Callable[[Asked], Told]
"""Answers one request: at once, without waiting, from its content and the world's seed."""


def json_told(data: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Told:
    """Return an answer that is JSON."""
    return Told(
        status=status,
        headers={"content-type": "application/json", **(headers or {})},
        # Half a surrogate pair comes back as the escape it came in.
        body=json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "backslashreplace"
        ),
    )


def page_told(markup: str | bytes, *, status: int = 200, charset: str = "utf-8") -> Told:
    """Return an answer that is a web page."""
    body = markup if isinstance(markup, bytes) else markup.encode(charset, "xmlcharrefreplace")
    return Told(status=status, headers={"content-type": f"text/html; charset={charset}"}, body=body)


def text_told(text: str, *, status: int = 200) -> Told:
    """Return an answer that is plain text."""
    return Told(
        status=status, headers={"content-type": "text/plain; charset=utf-8"}, body=text.encode()
    )


_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_WORDLESS = frozenset((204, 304))


def head_of(told: Told, *, close: bool) -> bytes:
    """Return the head of an answer: status line, headers, and how its body ends."""
    lines = [f"HTTP/1.1 {told.status} {_PHRASES.get(told.status, 'Answer')}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in told.headers.items()]
    if told.stream is not None and told.lying_length is None:
        lines.append("transfer-encoding: chunked\r\n")
    elif told.status not in _WORDLESS and "transfer-encoding" not in told.headers:
        length = len(told.body) if told.lying_length is None else told.lying_length
        lines.append(f"content-length: {length}\r\n")
    lines.append("connection: close\r\n\r\n" if close else "\r\n")
    return "".join(lines).encode("latin-1", "replace")


def has_body(told: Told, method: str) -> bool:
    """Say whether anything follows the head."""
    return method != "HEAD" and told.status not in _WORDLESS
