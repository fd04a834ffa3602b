"""One HTTP/1.1 answer, taken in as it comes off the wire: head, then body, then done.

Everything is bounded while it comes in, not afterwards: the head, the body decompressed, and the
bytes it is all wrapped in. Nothing here waits or knows where the bytes come from.
"""

from __future__ import annotations

import httptools

from stoker.base.errors import UncertainError
from stoker.http.body import BodyDecoder, BodySink, build_decoder

MAX_HEAD_BYTES = 128 * 1024  # bytes before the body; no honest server comes near it

_MAX_FRAMING_BYTES = 1_000_000  # bytes that framing may take on top of twice the body

_NO_BODY = {204, 304}

_MAX_ERROR_BYTES = (
    100_000  # bytes kept of an answer that is not the one somebody takes piece by piece
)


class ResponseParser:
    """Takes in one answer. `done` when it is whole, cut at its bounds, refused, or broken.

    The body of a 200 is handed on `body_sink` whoever takes it, if anybody does, and kept
    otherwise.
    Its `on_` methods are called by the parser.
    """

    __slots__ = (
        "_by_closing",
        "_head_only",
        "_into",
        "_most",
        "_parser",
        "_wire",
        "body",
        "body_bytes",
        "broken",
        "done",
        "has_head",
        "headers",
        "keep",
        "refused",
        "status",
    )

    def __init__(self, *, method: str, most: int, into: BodySink | None = None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}  # names in lower case
        self.body: BodyDecoder | None = None
        self.body_bytes = 0
        self.has_head = False
        self.done = False
        self.keep = False  # the connection is good for another request
        self.broken = ""  # why the answer cannot be taken
        self.refused = False  # its encoding is one we did not ask for
        self._head_only = method == "HEAD"
        self._by_closing = False
        self._most = most
        self._into = into
        self._wire = 0
        self._parser = httptools.HttpResponseParser(self)
        # Servers that are a little off are read as every browser reads them. What could make an
        # answer end in two places stays strict.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
            lenient_data_after_close=True,
        )

    @property
    def received_any(self) -> bool:
        """Whether anything came at all."""
        return self._wire > 0

    @property
    def is_truncated(self) -> bool:
        """Whether there was more than was asked for."""
        return self.body is not None and self.body.full

    def feed(self, data: bytes) -> None:
        """Take in what came."""
        self._wire += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._break("it wants to speak something else than HTTP")
        except httptools.HttpParserError:
            self._break("it is not HTTP as it should be")
        if self.done:
            return
        if not self.has_head:
            if self._wire > MAX_HEAD_BYTES:
                self._break("its headers do not end")
        elif self._wire > 2 * self._most + _MAX_FRAMING_BYTES and self.body is not None:
            self.body.full = True
            self._end(keep=False)

    def feed_eof(self) -> None:
        """Take in that the other side closed, in good order: the end of some answers."""
        if not self.done and self.has_head and self._by_closing:
            self._end(keep=False)
        self._break("it breaks off")

    def feed_loss(self) -> None:
        """Take in that the connection broke: never the end of an answer."""
        self._break("the connection broke")

    def release(self) -> None:
        """Let go of the parser once nothing more comes.

        It holds on to us as we to it, and what stands in a circle, a large body with it, stays in
        memory until somebody happens to look for circles.
        """
        del self._parser

    # What the parser tells us.

    def on_message_begin(self) -> None:
        if self.done:
            self.keep = False  # more came than one answer: whose would the next one be?

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head or self.done:
            return  # trailers say nothing we want to know
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self.done:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        self.has_head = True
        into = self._into if self.status == 200 else None
        if self._into is not None and into is None:
            self._most = min(self._most, _MAX_ERROR_BYTES)
        self.body = build_decoder(
            self.headers.get("content-encoding", ""), most=self._most, into=into
        )
        bodiless = self._head_only or self.status in _NO_BODY
        if self.body is None and not bodiless:
            self.refused = True
            self._end(keep=False)
        elif self._head_only:
            # The parser waits for the body that its headers speak of; we do not.
            self.body = build_decoder("", most=0)
            self._end(keep=False)
        elif bodiless:
            self.body = build_decoder("", most=0)
        self._by_closing = not bodiless and not (
            "content-length" in self.headers or "transfer-encoding" in self.headers
        )

    def on_body(self, piece: bytes) -> None:
        if self.done or self.body is None:
            return
        self.body_bytes += len(piece)
        try:
            self.body.add(piece)
        except UncertainError as error:
            self._break(str(error))
            return
        if self.body.full:
            self._end(keep=False)

    def on_message_complete(self) -> None:
        if self.done:
            return
        if self.has_head:
            self._end(keep=self._parser.should_keep_alive())
            return
        self.headers.clear()  # that was only a word before the answer, such as 100 Continue

    def _end(self, *, keep: bool) -> None:
        self.done = True
        self.keep = keep

    def _break(self, why: str) -> None:
        if not self.done:
            self.broken = why
            self._end(keep=False)
        self.keep = False
