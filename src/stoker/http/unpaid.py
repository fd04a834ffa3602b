"""Let requests pass that cost nothing: each at its rate, and none while it is stopped.

Paid calls are stopped by the budget. Requests to the CRM and the job boards wait here, and are
refused here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

from stoker.base.clock import Clock
from stoker.base.errors import TransientError
from stoker.base.types import TenantId
from stoker.budgets.model import Stop
from stoker.context import Context
from stoker.rate_limits.host_delays import HostPacer, build_host_pacer
from stoker.rate_limits.limiter import CallLimiter, VendorLimits, build_vendor_limits

StopsReader = Callable[[TenantId], Awaitable[Sequence[Stop]]]
"""Returns what is stopped for a tenant."""


class UnpaidCalls:
    """Let requests pass. With `despite_stops` those of a person pass even while stopped."""

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
        """Return a function that waits for a tenant's next request to a vendor."""
        limiter = self._traffic.get_limiter(name, tenant=tenant).rate

        async def turn() -> None:
            await limiter.acquire()
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
        """Return a function that waits for a host's own delay and the common rate."""
        limiter = CallLimiter(self._traffic, tenant, clock=self._clock)

        @asynccontextmanager
        async def turn(host: str) -> AsyncIterator[None]:
            async with limiter.acquire_slot(name):
                await self._hosts.acquire(host, gap=gap)
                if not despite_stops:  # after the wait, which may be long
                    await self._check_stops(name, tenant)
                try:
                    yield
                except TransientError as error:
                    if error.retry_after is not None:  # one host's back-off is not the others'
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


def build_unpaid_calls(context: Context) -> UnpaidCalls:
    """Build what requests of a process pass that cost nothing."""
    return UnpaidCalls(
        context.get(build_vendor_limits),
        hosts=context.get(build_host_pacer),
        clock=context.clock,
        stops=lambda tenant: context.backend.tenant(tenant).budgets.list_stops(),
    )
