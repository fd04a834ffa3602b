"""A body as it comes off the wire, decompressed within bounds, whatever it claims to be.

gzip and deflate are undone step by step, never further than asked. Anything else is refused: we
do not ask for it, and some of it cannot be undone in small steps.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from stoker.base.errors import UncertainError

ACCEPT_ENCODING = "gzip, deflate"
_STEP_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
BodySink = Callable[[bytes], object]
"""Takes a body's pieces as they come, in order; raises UncertainError when it cannot."""

_MAX_GZIP_MEMBERS = 1_000  # of one gzip body; each costs as much as a large piece


def build_decoder(encoding: str, *, most: int, into: BodySink | None = None) -> BodyDecoder | None:
    """Return what takes in a body of this Content-Encoding; None when it is refused.

    It is kept, or handed on piece by piece where somebody takes it.
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
        self._pieces: list[bytes] = []
        self._sink: BodySink = into or self._pieces.append
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
        return b"".join(self._pieces)


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
            raise UncertainError("its compressed body breaks off")
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
