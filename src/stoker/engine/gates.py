"""One gate per tenant in this process, opened when first asked for, closed together.

What a gate is stands in `paying`; whose promises it makes, under which caps, is told by whoever
builds this.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType

from stoker.core.model import TenantId
from stoker.engine.paying import Gate
from stoker.engine.promises import Promises
from stoker.errors import ConfigError
from stoker.ports import Clock


class Gates:
    """The gates of one process. While open, their promises are kept alive."""

    def __init__(self, promises: Callable[[TenantId], Promises], *, clock: Clock) -> None:
        self._promises = promises
        self._clock = clock
        self._gates: dict[TenantId, Gate] = {}
        self._open = AsyncExitStack()
        self._closed = False

    async def gate(self, tenant: TenantId) -> Gate:
        """Return a tenant's gate, the same each time. Raises ConfigError once this is closed."""
        if self._closed:
            raise ConfigError("this process is closing; ask for money while it is open")
        if tenant not in self._gates:
            promises = self._promises(tenant)
            # Before the first wait, so that whoever asks meanwhile gets this one.
            self._gates[tenant] = Gate(promises, clock=self._clock)
            await self._open.enter_async_context(promises)
        return self._gates[tenant]

    async def __aenter__(self) -> Gates:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        await self._open.aclose()
