"""How often something was broken, and what did not survive it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Tally:
    """How often something was broken, and each promise that did not survive it."""

    n: int = 0
    acked: int = 0
    broken: list[str] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.n + other.n, self.acked + other.acked, self.broken + other.broken)


def twice(ran: Sequence[object]) -> list[tuple[object, int]]:
    """Return what was done more than once, and how often."""
    return [(what, times) for what, times in Counter(ran).items() if times > 1]
