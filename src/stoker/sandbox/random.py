"""Reproducible random numbers, drawn from a seed and a name, never from a clock.

The same seed and name give the same numbers on every machine and in every process.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b, sha256
from itertools import accumulate
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
_WHOLE = float(1 << 64)
_EIGHT = struct.Struct(">8Q")


class Weighted(Generic[Thing]):
    """Things with weights, counted up once so that drawing one is quick."""

    __slots__ = ("ends", "things", "total")

    def __init__(self, things: Sequence[tuple[Thing, int]]) -> None:
        self.things = [thing for thing, _ in things]
        self.ends = list(accumulate(weight for _, weight in things))
        self.total = self.ends[-1]


class Draws:
    """Numbers for one name, one after the other."""

    __slots__ = ("_block", "_key", "_left")

    def __init__(self, *name: object) -> None:
        self._key = "\x1f".join(map(str, name)).encode("utf-8", "backslashreplace")
        self._block = 0
        self._left: list[int] = []

    # Every page takes a hundred of these, so each of them takes its number itself.

    def draw_share(self) -> float:
        """Return a number from 0 up to, and without, 1."""
        return (self._left or self._draw_block()).pop() / _WHOLE

    def draw_below(self, end: int) -> int:
        """Return a whole number from 0 up to, and without, `end`."""
        return (self._left or self._draw_block()).pop() % end

    def draw_between(self, low: int, high: int) -> int:
        """Return a whole number from low to high, both included."""
        return low + (self._left or self._draw_block()).pop() % (high - low + 1)

    def draw_bool(self, share: float) -> bool:
        """Say yes this often: 0 is never, 1 is always."""
        return (self._left or self._draw_block()).pop() / _WHOLE < share

    def pick(self, things: Sequence[Thing]) -> Thing:
        """Return one of the things, each as likely as the others."""
        return things[(self._left or self._draw_block()).pop() % len(things)]

    def pick_weighted(self, things: Weighted[Thing] | Sequence[tuple[Thing, int]]) -> Thing:
        """Return one of the things, each as likely as its weight says."""
        lots = things if isinstance(things, Weighted) else Weighted(things)
        number = (self._left or self._draw_block()).pop() % lots.total
        return lots.things[bisect_right(lots.ends, number)]

    def _draw_block(self) -> list[int]:
        digest = blake2b(self._key, salt=self._block.to_bytes(8, "big")).digest()
        self._block += 1
        self._left = list(_EIGHT.unpack(digest))
        return self._left


def to_uuid(*what: object) -> str:
    """Return what looks like a random UUID, the same for the same things."""
    digest = sha256("|".join(map(str, what)).encode("utf-8", "replace")).hexdigest()
    return "-".join((digest[:8], digest[8:12], "4" + digest[13:16], digest[16:20], digest[20:32]))


def draw_number(*name: object) -> int:
    """Return one 64-bit number for a name."""
    key = "\x1f".join(map(str, name)).encode("utf-8", "backslashreplace")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
