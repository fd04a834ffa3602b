"""What a paid call waits for on its way to a vendor: the tenant's turn, a place, the rate.

In that order, because the first may take longest and the last is used up once given. What a vendor
says about waiting is taken here too, and only ever slows us down. Money is `paying`'s business.

Tenants wait here for their turn on a connector.

Whose turn it is is decided in `core.fairness`; here is only the waiting, and letting so many in at
once. One turnstile serves one process; it knows nothing of money or rates.

One process's paces, places and turnstiles: one of each per connector, made when asked for.

Where many processes use a vendor's key they share its pace and places through the store; where one
does, nobody has to be asked. How fast a connector may go is told by whoever builds this.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from stoker.base.clock import Clock
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.rate_limits.fairness import DeficitRoundRobin
from stoker.rate_limits.rate_limit import (
    ConcurrencyLimiter,
    LocalRateLimiter,
    Rate,
    RateLimiter,
    SharedRateLimiter,
    acquire_all,
    compute_quota_delay,
)

if TYPE_CHECKING:
    from stoker.budgets.model import SharedStore


class FairQueue:
    """Lets tenants in by turns, so much cost each round, and `concurrency` of them at a time.

    While anybody waits and there is room, somebody goes in. Nobody who waits is passed over for
    more than a round, however much the others bring.
    """

    def __init__(
        self, *, at_once: int, quantum: int, weights: Mapping[TenantId, int] | None = None
    ) -> None:
        if at_once < 1:
            raise ConfigError(f"a turnstile lets at least one in at a time, not {at_once}")
        self._max_active = at_once
        self._active = 0
        self._waiting: DeficitRoundRobin[TenantId, asyncio.Future[None]] = DeficitRoundRobin(
            quantum=quantum, weights=weights
        )

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def acquire(self, tenant: TenantId, *, cost: int) -> AsyncIterator[None]:
        """Wait for the tenant's turn for work of this cost, and keep the room while inside."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(tenant, turn, cost=cost)
        self._admit_next()
        try:
            await turn
            yield
        finally:
            if turn.cancelled():
                self._waiting.drop(tenant, turn)
            else:
                self._active -= 1
                self._admit_next()

    def _admit_next(self) -> None:
        while self._active < self._max_active and (next_in := self._waiting.take()) is not None:
            _, turn = next_in
            if not turn.cancelled():  # who gave up may still stand in line for a moment
                self._active += 1
                turn.set_result(None)


QUANTUM = 1  # of cost; the finest turns there are, and what costs more waits for more rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorLimit:
    """How one connector may be called."""

    rate: Rate
    concurrency: int
    own_key: bool = False  # every tenant calls with a key of its own, or a server of its own


class VendorLimits:
    """How this process's calls go. `shared` is None when no other process uses the same keys.

    A tenant has to be named where each calls with a key of its own. `own_keys` says whose line,
    by connector and tenant, those stand in that brought a key to a vendor the others share one at.
    """

    def __init__(
        self,
        way: Callable[[str], VendorLimit],
        *,
        shared: SharedStore | None,
        owner: str,
        clock: Clock,
        weights: Mapping[TenantId, int] | None = None,
        own_keys: Mapping[tuple[str, TenantId], str] | None = None,
        ticks: Callable[[], int] | None = None,
    ) -> None:
        self._read_limit = way
        self._shared = shared
        self._owner = owner
        self._clock = clock
        self._weights = dict(weights or {})
        self._own_keys = dict(own_keys or {})
        self._ticks = ticks
        self._limits: dict[str, VendorLimit] = {}
        self._rate_limiters: dict[str, RateLimiter] = {}
        self._concurrency_limiters: dict[str, ConcurrencyLimiter] = {}
        self._fair_queues: dict[str, FairQueue] = {}
        self._head_locks: dict[str, asyncio.Lock] = {}

    def get_limit(self, connector: str) -> VendorLimit:
        """Return how a connector may be called. Raises ConfigError when nobody has said."""
        if connector not in self._limits:
            self._limits[connector] = self._read_limit(connector)
        return self._limits[connector]

    def get_rate_limiter(self, connector: str, *, tenant: TenantId | None = None) -> RateLimiter:
        """Return the pace of a connector's calls, of all tenants that call with the same key."""
        name = self._get_key(connector, tenant)
        if name not in self._rate_limiters:
            rate = self.get_limit(connector).rate
            if self._shared is None:
                self._rate_limiters[name] = LocalRateLimiter(
                    rate, clock=self._clock, ticks=self._ticks
                )
            else:
                key = f"connector/{name}"
                self._rate_limiters[name] = SharedRateLimiter(
                    key, rate, shared=self._shared, clock=self._clock
                )
        return self._rate_limiters[name]

    def find_concurrency_limiter(
        self, connector: str, *, tenant: TenantId | None = None
    ) -> ConcurrencyLimiter | None:
        """Return the places that processes share; None when the turnstile alone says how many."""
        if self._shared is None:
            return None
        name = self._get_key(connector, tenant)
        if name not in self._concurrency_limiters:
            self._concurrency_limiters[name] = ConcurrencyLimiter(
                f"connector/{name}",
                self.get_limit(connector).concurrency,
                shared=self._shared,
                owner=self._owner,
                clock=self._clock,
            )
        return self._concurrency_limiters[name]

    def get_fair_queue(self, connector: str, *, tenant: TenantId | None = None) -> FairQueue:
        """Return where this process's tenants wait for their turn on a connector."""
        name = self._get_key(connector, tenant)
        if name not in self._fair_queues:
            self._fair_queues[name] = FairQueue(
                at_once=self.get_limit(connector).concurrency,
                quantum=QUANTUM,
                weights=self._weights,
            )
        return self._fair_queues[name]

    def get_head_lock(self, connector: str, *, tenant: TenantId | None = None) -> asyncio.Lock:
        """Return what lets one at a time to the front, before the pace; in the order of asking."""
        return self._head_locks.setdefault(self._get_key(connector, tenant), asyncio.Lock())

    def _get_key(self, connector: str, tenant: TenantId | None) -> str:
        if not self.get_limit(connector).own_key:
            whose = self._own_keys.get((connector, tenant)) if tenant else None
            return f"{connector}/{whose}" if whose else connector
        if tenant is None:
            raise ConfigError(f"each tenant calls {connector} with a key of its own; say whose")
        return f"{connector}/{tenant}"


class QueueHead:
    """A place at the very front: the call may go now, and its turn is not used up yet.

    `proceed` is what is left of the way, once. Whoever goes it lets the next one come to the front;
    whoever leaves without going has used nothing up.
    """

    def __init__(self, pace: RateLimiter, *, place: AsyncExitStack, line: AsyncExitStack) -> None:
        self._rate_limiter = pace
        self._slot = place
        self._head_lock = line
        self._used = False

    def proceed(self) -> AbstractAsyncContextManager[None] | None:
        """Return what is left to go through; None once somebody has gone."""
        return None if self._used else self._proceed()

    @asynccontextmanager
    async def _proceed(self) -> AsyncIterator[None]:
        self._used = True
        async with self._slot.pop_all():
            async with self._head_lock.pop_all():
                await self._rate_limiter.acquire()
            yield


class CallLimiter:
    """One tenant's ways to vendors: `gate.pay_for(request, step, passage=passages.through(…))`."""

    def __init__(self, traffic: VendorLimits, tenant: TenantId, *, clock: Clock) -> None:
        self._limits = traffic
        self._tenant = tenant
        self._clock = clock
        self._waiting: Counter[str] = Counter()  # calls that may not go yet, by connector

    @asynccontextmanager
    async def acquire_slot(self, connector: str, cost: int = 1) -> AsyncIterator[None]:
        """Wait until a call of this cost may go, and keep its place while inside.

        Tenants are let through by turns, in units of cost. A turn under the rate is used up also
        by a call that fails. Raises ConfigError for a connector without settings, and what the
        store raises when processes share the rate: without a turn, nothing goes.
        """
        turnstile = self._limits.get_fair_queue(connector, tenant=self._tenant)
        places = self._limits.find_concurrency_limiter(connector, tenant=self._tenant)
        pace = self._limits.get_rate_limiter(connector, tenant=self._tenant)
        async with AsyncExitStack() as way:
            with self._count_waiting(connector):
                await way.enter_async_context(turnstile.acquire(self._tenant, cost=cost))
                if places is not None:
                    await way.enter_async_context(places.acquire())
                await way.enter_async_context(acquire_all(pace))
            yield

    @asynccontextmanager
    async def acquire_head(self, connector: str) -> AsyncIterator[QueueHead]:
        """Wait until a call of cost 1 may go, for whoever says only then what it is.

        One waiter of this process is at the front at a time, and stays there until it goes or
        leaves. Of several processes, all may be; who is slower goes a turn later. Raises what
        `acquire_slot` raises.
        """
        pace = self._limits.get_rate_limiter(connector, tenant=self._tenant)
        places = self._limits.find_concurrency_limiter(connector, tenant=self._tenant)
        turnstile = self._limits.get_fair_queue(connector, tenant=self._tenant)
        async with AsyncExitStack() as place, AsyncExitStack() as line:
            with self._count_waiting(connector):
                await place.enter_async_context(turnstile.acquire(self._tenant, cost=1))
                if places is not None:
                    await place.enter_async_context(places.acquire())
                await line.enter_async_context(
                    self._limits.get_head_lock(connector, tenant=self._tenant)
                )
                while (wait := await pace.get_next_allowed_at() - self._clock.now()) > timedelta(0):
                    await self._clock.sleep(wait)
            yield QueueHead(pace, place=place, line=line)

    async def delay_until(self, connector: str, until: datetime) -> None:
        """Heed a vendor that asked us to wait: nobody with this key calls before then.

        An hour at most, however long it wants us gone; then we ask again. Never sooner than what
        was asked before.
        """
        pace = self._limits.get_rate_limiter(connector, tenant=self._tenant)
        await pace.delay_until(until=until)

    async def list_cooldowns(self, *, besides: Collection[str] = ()) -> dict[str, datetime]:
        """Return which vendors want to be left alone that calls wait for, and until when.

        And of those `besides`, whom somebody waits for elsewhere. What our own rate makes calls
        wait is no rest. Raises what the store raises when processes share the rate.
        """
        found = {}
        for connector in sorted({*(+self._waiting), *besides}):
            opens_at = await self._limits.get_rate_limiter(
                connector, tenant=self._tenant
            ).get_next_allowed_at()
            if opens_at - self._clock.now() > self._limits.get_limit(connector).rate.interval:
                found[connector] = opens_at
        return found

    @contextmanager
    def _count_waiting(self, connector: str) -> Iterator[None]:
        self._waiting[connector] += 1
        try:
            yield
        finally:
            self._waiting[connector] -= 1

    async def apply_quota(self, connector: str, *, left: int, resets_at: datetime) -> None:
        """Heed what a vendor says is left of its quota: what is left has to last until its reset.

        Slows us down when our own pace would use it up sooner; otherwise changes nothing.
        """
        rate = self._limits.get_limit(connector).rate
        until = compute_quota_delay(rate, left=left, resets_at=resets_at, now=self._clock.now())
        if until is not None:
            await self.delay_until(connector, until)
