"""Turns of requests that pass no gate: each at its pace, and none while somebody has stopped it.

Paid calls are stopped at the gate. What is not paid for and still goes out, the CRM and the job
boards, waits here before every request and is refused here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

from stoker.base.clock import Clock
from stoker.base.errors import TransientError
from stoker.base.types import TenantId
from stoker.budgets.model import Stop
from stoker.crawl.model import HostPacer
from stoker.rate_limits.limiter import CallLimiter, VendorLimits

StopsReader = Callable[[TenantId], Awaitable[Sequence[Stop]]]
"""Tells what is stopped for a tenant."""


class UnpaidCalls:
    """Gives turns. Those of a person who looks or takes something back come despite stops."""

    def __init__(
        self, traffic: VendorLimits, *, hosts: HostPacer, clock: Clock, stops: StopsReader
    ) -> None:
        self._traffic = traffic
        self._hosts = hosts
        self._clock = clock
        self._stops = stops

    def for_vendor(
        self, name: str, tenant: TenantId, *, despite_stops: bool = False
    ) -> Callable[[], Awaitable[None]]:
        """Return what waits for a tenant's next turn with a vendor that has one pace."""
        pace = self._traffic.get_rate_limiter(name, tenant=tenant)

        async def turn() -> None:
            await pace.acquire()
            if not despite_stops:
                await self._check_stops(name, tenant)

        return turn

    def for_hosts(
        self,
        name: str,
        tenant: TenantId,
        *,
        gap: timedelta = timedelta.resolution,
        despite_stops: bool = False,
    ) -> Callable[[str], AbstractAsyncContextManager[None]]:
        """Return what lends turns at hosts, each with a clock of its own beside the common pace."""
        passages = CallLimiter(self._traffic, tenant, clock=self._clock)

        @asynccontextmanager
        async def turn(host: str) -> AsyncIterator[None]:
            async with passages.acquire_slot(name):
                await self._hosts.acquire(host, gap=gap)
                if not despite_stops:  # after the wait, which may be long
                    await self._check_stops(name, tenant)
                try:
                    yield
                except TransientError as error:
                    if error.retry_after is not None:  # one host's wish to rest is not the others'
                        until = self._clock.now() + error.retry_after
                        await self._hosts.delay_until(host, until=until)
                    raise

        return turn

    async def _check_stops(self, name: str, tenant: TenantId) -> None:
        for stop in await self._stops(tenant):
            if stop.connector in ("", name):
                why = stop.reason or "no reason was given"
                raise TransientError(
                    f"{name} is stopped ({why}); nothing more is sent until `stoker resume`"
                )
