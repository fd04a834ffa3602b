"""Random streams derived from a seed, a purpose and a day.

Every purpose and day has its own stream, so that planning one day again leaves the others as they
were. Only uniform numbers are taken from numpy, whose other distributions may change between
releases: the same seed gives the same plan, byte for byte.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]

Flags = NDArray[np.bool_]

_SEED_LIMIT = 2**64


class Purpose(IntEnum):
    """What numbers are drawn for."""

    BUDGETS = 1
    PICKS = 2
    TIMES = 3
    OUTCOMES = 4  # of simulations


class RandomStream:
    """One stream of numbers, each from 0 up to 1."""

    def __init__(self, seed: int, purpose: Purpose, *path: int) -> None:
        # A negative part would be refused; as the other half of the range it is as good as any.
        parts = [part % _SEED_LIMIT for part in (seed, purpose, *path)]
        self._source = np.random.Generator(np.random.PCG64(np.random.SeedSequence(parts)))

    def draw_one(self) -> float:
        """Return the next number."""
        return float(self._source.random())

    def draw(self, number: int) -> Floats:
        """Return the next so many numbers."""
        return self._source.random(number)

    def shuffle(self, number: int) -> Ints:
        """Return 0 up to the number, shuffled."""
        return np.argsort(self.draw(number), kind="stable").astype(np.int64, copy=False)
