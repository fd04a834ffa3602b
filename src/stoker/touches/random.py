"""Chance, derived: streams of numbers that follow from a seed and what they are for.

Every purpose and day has a stream of its own, so that planning one day anew leaves the others as
they were. Only plain uniform numbers are taken from numpy, whose other distributions may change
from one release to the next: the same seed gives the same plan, byte for byte.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]

Flags = NDArray[np.bool_]

_LONGEST_SEED = 2**64


class Purpose(IntEnum):
    """What numbers are drawn for."""

    BUDGETS = 1
    PICKS = 2
    TIMES = 3
    OUTCOMES = 4  # of rehearsals


class Chance:
    """One stream of numbers, each from 0 up to 1."""

    def __init__(self, seed: int, purpose: Purpose, *path: int) -> None:
        # A negative part would be refused; as the other half of the range it is as good as any.
        parts = [part % _LONGEST_SEED for part in (seed, purpose, *path)]
        self._source = np.random.Generator(np.random.PCG64(np.random.SeedSequence(parts)))

    def one(self) -> float:
        """Return the next number."""
        return float(self._source.random())

    def some(self, number: int) -> Floats:
        """Return the next so many numbers."""
        return self._source.random(number)

    def order(self, number: int) -> Ints:
        """Return 0 up to the number, shuffled."""
        return np.argsort(self.some(number), kind="stable").astype(np.int64, copy=False)
