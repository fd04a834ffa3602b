"""Tenants wait here for their turn on a connector.

Whose turn it is is decided in `core.fairness`; here is only the waiting, and letting so many in at
once. One turnstile serves one process; it knows nothing of money or rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from stoker.core.fairness import RoundRobin
from stoker.core.model import TenantId
from stoker.errors import ConfigError


class Turnstile:
    """Lets tenants in by turns, so much cost each round, and `at_once` of them at a time.

    While anybody waits and there is room, somebody goes in. Nobody who waits is passed over for
    more than a round, however much the others bring.
    """

    def __init__(
        self, *, at_once: int, quantum: int, weights: Mapping[TenantId, int] | None = None
    ) -> None:
        if at_once < 1:
            raise ConfigError(f"a turnstile lets at least one in at a time, not {at_once}")
        self._at_once = at_once
        self._inside = 0
        self._waiting: RoundRobin[TenantId, asyncio.Future[None]] = RoundRobin(
            quantum=quantum, weights=weights
        )

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, tenant: TenantId, *, cost: int) -> AsyncIterator[None]:
        """Wait for the tenant's turn for work of this cost, and keep the room while inside."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(tenant, turn, cost=cost)
        self._let_in()
        try:
            await turn
            yield
        finally:
            if turn.cancelled():
                self._waiting.drop(tenant, turn)
            else:
                self._inside -= 1
                self._let_in()

    def _let_in(self) -> None:
        while self._inside < self._at_once and (next_in := self._waiting.take()) is not None:
            _, turn = next_in
            if not turn.cancelled():  # who gave up may still stand in line for a moment
                self._inside += 1
                turn.set_result(None)
