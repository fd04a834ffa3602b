"""One HTTP/1.1 answer, taken in as it comes off the wire: head, then body, then done.

Everything is bounded while it comes in, not afterwards: the head, the body decompressed, and the
bytes it is all wrapped in. Nothing here waits or knows where the bytes come from.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import Enum, auto

import httptools

from stoker.base.errors import UncertainError

ACCEPT_ENCODING = "gzip, deflate"
_STEP_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
BodySink = Callable[[bytes], object]
"""Takes a body's pieces as they come, in order; raises UncertainError when it cannot."""

_MAX_GZIP_MEMBERS = 1_000  # of one gzip body; each costs as much as a large piece
_MAX_SMALL_PIECES = 10_000  # of one body, besides one for every so many bytes
_SMALL_PIECE_BYTES = 64


def build_decoder(encoding: str, *, most: int, into: BodySink | None = None) -> BodyDecoder | None:
    """Return what takes in a body of this Content-Encoding; None when it is refused.

    The body is kept, or passed piece by piece to `into`.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return BodyDecoder(most, into)
    if name in ("gzip", "x-gzip", "deflate"):
        return DeflateDecoder(most, into)
    return None


class BodyDecoder:
    """A body sent as it is, taken in piece by piece."""

    def __init__(self, most: int, into: BodySink | None = None) -> None:
        self._most = most
        self._body = bytearray()
        self._sink: BodySink = into or self._body.extend
        self._size = 0
        self.full = False  # there is more than was asked for

    def add(self, piece: bytes) -> None:
        """Take a piece in; what is too much sets `full` and is dropped."""
        room = self._most - self._size
        if len(piece) > room:
            piece, self.full = piece[:room], True
        if piece:
            self._sink(piece)
            self._size += len(piece)

    def get_body(self) -> bytes:
        """Return what came, at most as much as was asked for; nothing where it was handed on."""
        return bytes(self._body)


class DeflateDecoder(BodyDecoder):
    """A body sent as gzip, zlib or raw deflate; several gzip members are one body.

    What its first two bytes say counts, not its header: "deflate" has always meant two things.
    """

    def __init__(self, most: int, into: BodySink | None = None) -> None:
        super().__init__(most, into)
        self._wire = 0
        self._decompressor: zlib._Decompress | None = None
        self._waiting = b""  # too little to tell what comes
        self._members = 0
        self._ended = False  # what follows the end is padding

    def add(self, piece: bytes) -> None:
        self._wire += len(piece)
        # A stream of nothing in small print yields no output for ever; it is cut as well.
        if self._wire > self._most + _STEP_BYTES:
            self.full = True
        left = self._waiting + piece
        self._waiting = b""
        while left and not self.full and not self._ended:
            left = (
                self._decompress_step(left)
                if self._decompressor is not None
                else self._start_member(left)
            )

    def get_body(self) -> bytes:
        if self._wire and not self.full and (self._decompressor is not None or not self._members):
            raise UncertainError("its compressed body is incomplete")
        return super().get_body()

    def _start_member(self, left: bytes) -> bytes:
        """Choose how to go on from here, once two bytes are there to tell; return what is left."""
        if len(left) < 2:
            self._waiting = left
            return b""
        if left.startswith(_GZIP_MAGIC):
            self._decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif self._members:
            self._ended = True
        else:
            header = left[0] & 0x0F == zlib.DEFLATED and int.from_bytes(left[:2]) % 31 == 0
            self._decompressor = zlib.decompressobj(zlib.MAX_WBITS if header else -zlib.MAX_WBITS)
        return left

    def _decompress_step(self, left: bytes) -> bytes:
        """Undo one step of what there is; return what is left of it."""
        room = self._most - self._size
        undo = self._decompressor or zlib.decompressobj()
        try:
            out = undo.decompress(left, min(room + 1, _STEP_BYTES))
        except zlib.error as error:
            raise UncertainError("its compressed body cannot be read") from error
        super().add(out)
        if undo.eof:
            self._decompressor = None
            self._members += 1
            self.full = self.full or self._members > _MAX_GZIP_MEMBERS
            return undo.unused_data
        return undo.unconsumed_tail


MAX_HEAD_BYTES = 128 * 1024  # bytes before the body; no honest server comes near it
MAX_HEADERS = 500  # lines, those after the body included
_MAX_FRAMING_BYTES = 1_000_000  # bytes that framing may take on top of twice the body
_NO_BODY = {204, 304}

_MAX_ERROR_BYTES = 100_000  # kept of an answer that is not the one a sink takes


class Outcome(Enum):
    COMPLETE = auto()
    TRUNCATED = auto()  # there was more than was asked for
    REFUSED = auto()  # its encoding is one we did not ask for
    BROKEN = auto()


class ResponseParser:
    """Takes in one answer until it has an `outcome`.

    The body of a 200 goes into the sink piece by piece where there is one, and is kept otherwise.
    Its `on_` methods are called by the parser.
    """

    __slots__ = (
        "_by_closing", "_has_head", "_head_only", "_header_count", "_into", "_most", "_parser",
        "_piece_count", "_wire",
        "body", "body_bytes", "headers", "outcome", "problem", "reusable", "status",
    )  # fmt: skip

    def __init__(self, *, method: str, most: int, into: BodySink | None = None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}  # names in lower case
        self.body: BodyDecoder | None = None
        self.body_bytes = 0
        self.outcome: Outcome | None = None  # None while more is to come
        self.problem = ""  # what broke it
        self.reusable = False  # the connection is good for another request
        self._has_head = False
        self._head_only = method == "HEAD"
        self._by_closing = False
        self._most = most
        self._into = into
        self._wire = self._header_count = self._piece_count = 0
        self._parser = httptools.HttpResponseParser(self)
        # Servers that are a little off are read as every browser reads them. What could make an
        # answer end in two places stays strict.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
            lenient_data_after_close=True,
        )

    @property
    def is_lost(self) -> bool:
        """Whether the connection ended before anything came."""
        return self.outcome is Outcome.BROKEN and not self._wire

    def feed(self, data: bytes) -> None:
        self._wire += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._break("it switched to another protocol than HTTP")
        except httptools.HttpParserError:
            self._break("it is not valid HTTP")
        if self.outcome is not None:
            return
        if not self._has_head:
            if self._wire > MAX_HEAD_BYTES:
                self._break("its headers do not end")
        elif self._wire > 2 * self._most + _MAX_FRAMING_BYTES and self.body is not None:
            self.body.full = True
            self._end(Outcome.TRUNCATED)

    def feed_eof(self) -> None:
        """Take in that the other side closed, in good order: the end of some answers."""
        if self.outcome is None and self._has_head and self._by_closing:
            self._end(Outcome.COMPLETE)
        self._break("it is incomplete")

    def feed_loss(self) -> None:
        """Take in that the connection broke: never the end of an answer."""
        self._break("the connection broke")

    def release(self) -> None:
        """Let go of the parser once nothing more comes.

        It holds on to us as we to it, and what stands in a circle, a large body with it, stays in
        memory until the garbage collector runs.
        """
        del self._parser

    # What the parser tells us.

    def on_message_begin(self) -> None:
        if self.outcome is not None:
            self.reusable = False  # more came than one answer: whose would the next one be?

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            self._break("it has too many headers")
        if self._has_head or self.outcome is not None:
            return  # trailers say nothing we want to know
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self.outcome is not None:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        self._has_head = True
        into = self._into if self.status == 200 else None
        if self._into is not None and into is None:
            self._most = min(self._most, _MAX_ERROR_BYTES)
        self.body = build_decoder(
            self.headers.get("content-encoding", ""), most=self._most, into=into
        )
        bodiless = self._head_only or self.status in _NO_BODY
        if self.body is None and not bodiless:
            self._end(Outcome.REFUSED)
        elif self._head_only:
            # The parser waits for the body that its headers speak of; we do not.
            self.body = build_decoder("", most=0)
            self._end(Outcome.COMPLETE)
        elif bodiless:
            self.body = build_decoder("", most=0)
        self._by_closing = not bodiless and not (
            "content-length" in self.headers or "transfer-encoding" in self.headers
        )

    def on_body(self, piece: bytes) -> None:
        if self.outcome is not None or self.body is None:
            return
        self.body_bytes += len(piece)
        self._piece_count += 1
        try:
            self.body.add(piece)
        except UncertainError as error:
            self._break(str(error))
            return
        # Every piece costs time, however small it is.
        if self._piece_count > _MAX_SMALL_PIECES + self.body_bytes // _SMALL_PIECE_BYTES:
            self.body.full = True
        if self.body.full:
            self._end(Outcome.TRUNCATED)

    def on_message_complete(self) -> None:
        if self.outcome is not None:
            return
        if self._has_head:
            self._end(Outcome.COMPLETE, reusable=self._parser.should_keep_alive())
            return
        self.headers.clear()  # that was only a word before the answer, such as 100 Continue

    def _end(self, outcome: Outcome, *, reusable: bool = False) -> None:
        self.outcome = outcome
        self.reusable = reusable

    def _break(self, why: str) -> None:
        if self.outcome is None:
            self.problem = why
            self._end(Outcome.BROKEN)
        self.reusable = False
