"""Whose turn it is, when many tenants wait for one connector.

Deficit round robin in cost units: each round every waiting tenant may spend its weight times a
quantum, and what it could not use it keeps while it waits. Nobody who waits is passed over for
more than a round, however much the others queue, and nobody's share is saved up while idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stoker.errors import ConfigError

Who = TypeVar("Who", bound=Hashable)
What = TypeVar("What")


@dataclass
class _Line(Generic[What]):
    waiting: deque[tuple[int, What]] = field(default_factory=deque)
    deficit: int = 0


class RoundRobin(Generic[Who, What]):
    """Waiting work by tenant, given out in turn. Work-conserving: while any waits, some goes."""

    def __init__(self, *, quantum: int, weights: Mapping[Who, int] | None = None) -> None:
        if quantum < 1:
            raise ConfigError(f"a quantum is at least 1, not {quantum}")
        self._quantum = quantum
        self._weights = dict(weights or {})
        if any(weight < 1 for weight in self._weights.values()):
            raise ConfigError("a tenant's weight is at least 1")
        self._lines: dict[Who, _Line[What]] = {}
        self._round: deque[Who] = deque()
        self._fresh = True  # whether the one in front has had this round's quantum

    def __len__(self) -> int:
        return sum(len(line.waiting) for line in self._lines.values())

    def put(self, who: Who, what: What, *, cost: int) -> None:
        """Let work wait at the end of its tenant's line."""
        if cost < 0:
            raise ConfigError(f"work costs 0 or more, not {cost}")
        if who not in self._lines:
            self._lines[who] = _Line()
            self._round.append(who)
        self._lines[who].waiting.append((cost, what))

    def take(self) -> tuple[Who, What] | None:
        """Return the next piece of work and whose it is; None when nobody waits."""
        while self._round:
            who = self._round[0]
            line = self._lines[who]
            if self._fresh:
                line.deficit += self._quantum * self._weights.get(who, 1)
                self._fresh = False
            cost, what = line.waiting[0]
            if cost > line.deficit:
                self._round.rotate(-1)
                self._fresh = True
                continue
            line.waiting.popleft()
            line.deficit -= cost
            if not line.waiting:
                # Leaving the round forfeits what is left: a share is for those who wait.
                del self._lines[who]
                self._round.popleft()
                self._fresh = True
            return who, what
        return None

    def drop(self, who: Who, what: What) -> bool:
        """Take work out of its line, if it still waits there; say whether it did."""
        line = self._lines.get(who)
        if line is None:
            return False
        for place, (_, waiting) in enumerate(line.waiting):
            if waiting is what:
                del line.waiting[place]
                if not line.waiting:
                    if self._round[0] == who:
                        self._fresh = True
                    del self._lines[who]
                    self._round.remove(who)
                return True
        return False
