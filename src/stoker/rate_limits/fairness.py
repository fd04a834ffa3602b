"""Choose which tenant's call goes next when many wait for one connector.

Deficit round robin in cost units: each round every waiting tenant may spend its weight times a
quantum, and keeps what it could not use while it waits. No waiting tenant is passed over for more
than a round, and no share is saved up while idle. Work that costs more than a tenant's round waits
for as many rounds as it costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stoker.base.errors import ConfigError

TenantT = TypeVar("TenantT", bound=Hashable)

ItemT = TypeVar("ItemT")


@dataclass
class _TenantQueue(Generic[ItemT]):
    waiting: deque[tuple[int, ItemT]] = field(default_factory=deque)
    deficit: int = 0


class DeficitRoundRobin(Generic[TenantT, ItemT]):
    """A queue per tenant, served in rounds. Work-conserving: while any work waits, some goes."""

    def __init__(self, *, quantum: int, weights: Mapping[TenantT, int] | None = None) -> None:
        if quantum < 1:
            raise ConfigError(f"a quantum is at least 1, not {quantum}")
        self._quantum = quantum
        self._weights = dict(weights or {})
        if any(weight < 1 for weight in self._weights.values()):
            raise ConfigError("a tenant's weight is at least 1")
        self._queues: dict[TenantT, _TenantQueue[ItemT]] = {}
        self._round: deque[TenantT] = deque()
        self._fresh = True  # whether the one in front has had this round's quantum

    def __len__(self) -> int:
        return sum(len(line.waiting) for line in self._queues.values())

    def put(self, who: TenantT, what: ItemT, *, cost: int) -> None:
        """Append work to its tenant's queue. A cost of zero counts as one."""
        if cost < 0:
            raise ConfigError(f"work costs 0 or more, not {cost}")
        if who not in self._queues:
            self._queues[who] = _TenantQueue()
            self._round.append(who)
        # Free work would never end its tenant's round, and the others would wait for ever.
        self._queues[who].waiting.append((max(cost, 1), what))

    def take(self) -> tuple[TenantT, ItemT] | None:
        """Return the next work and its tenant; None when the queues are empty."""
        passed = 0
        while self._round:
            who = self._round[0]
            line = self._queues[who]
            if self._fresh:
                line.deficit += self._allowance(who)
                self._fresh = False
            cost, what = line.waiting[0]
            if cost <= line.deficit:
                line.waiting.popleft()
                line.deficit -= cost
                self._remove_if_empty(who)
                return who, what
            self._round.rotate(-1)
            self._fresh = True
            passed += 1
            if passed == len(self._round):
                self._skip_idle_rounds()
        return None

    def drop(self, who: TenantT, what: ItemT) -> bool:
        """Remove work from its queue; return whether it was there."""
        line = self._queues.get(who)
        for place, (_, waiting) in enumerate(line.waiting if line else ()):
            if line and waiting is what:
                del line.waiting[place]
                self._remove_if_empty(who)
                return True
        return False

    def _allowance(self, who: TenantT) -> int:
        return self._quantum * self._weights.get(who, 1)

    def _remove_if_empty(self, who: TenantT) -> None:
        if self._queues[who].waiting:
            return
        # Leaving the round forfeits what is left: a share is for those who wait.
        del self._queues[who]
        if self._round[0] == who:
            self._fresh = True
        self._round.remove(who)

    def _skip_idle_rounds(self) -> None:
        """Credit at once all the rounds in which no tenant could afford its first work."""
        short = (
            -(-(line.waiting[0][0] - line.deficit) // self._allowance(who))
            for who, line in self._queues.items()
        )
        rounds = min(short) - 1
        for who, line in self._queues.items():
            line.deficit += rounds * self._allowance(who)
