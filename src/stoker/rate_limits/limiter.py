"""Make each call to a vendor wait for its tenant's turn, a concurrency slot, and the rate.

In that order: the first may take longest, and the last is used up once granted. A vendor's
Retry-After and quota only ever slow calls down. Processes that share a vendor's key share its rate
and slots through the store.
"""

from __future__ import annotations

import asyncio
import time
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

from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.context import Context, TenantContext
from stoker.rate_limits.rate_limit import (
    ConcurrencyLimiter,
    DeficitRoundRobin,
    LocalRateLimiter,
    Rate,
    RateLimiter,
    SharedRateLimiter,
    compute_quota_delay,
)

if TYPE_CHECKING:
    from stoker.rate_limits.store import RateStore
    from stoker.settings import Settings


class FairQueue:
    """Admits tenants in rounds by cost, `concurrency` calls at a time, in one process.

    While a call waits and a slot is free, one is admitted. No waiting tenant is passed over for
    more than a round.
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
        """Wait for the tenant's turn for work of this cost; inside, the call has its slot."""
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
            if not turn.cancelled():  # who gave up may still stand in line for a time
                self._active += 1
                turn.set_result(None)


QUANTUM = 1  # of cost; the finest turns there are, and what costs more waits for more rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorLimit:
    """How one connector may be called."""

    rate: Rate
    concurrency: int
    own_key: bool = False  # every tenant calls with a key of its own, or a server of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimiter:
    """What a call with one vendor key waits for in this process: queue, slot, rate, in that order.

    `slots` are shared with other processes; None when there are none and the queue is enough.
    """

    queue: FairQueue
    slots: ConcurrencyLimiter | None
    rate: RateLimiter
    head_lock: asyncio.Lock  # admits one call at a time to the head of the queue

    async def enter_slot(self, stack: AsyncExitStack, tenant: TenantId, *, cost: int) -> None:
        """Wait for the tenant's turn and a slot; they are left with the stack."""
        await stack.enter_async_context(self.queue.acquire(tenant, cost=cost))
        if self.slots is not None:
            await stack.enter_async_context(self.slots.acquire())


class VendorLimits:
    """The limiters of this process, one per vendor key.

    `shared` is None if no other process uses them. The tenant is required where each calls with a
    key of its own. `own_keys` is the key name, by connector and tenant, of tenants that use their
    own key at a vendor whose key the others share.
    """

    def __init__(
        self,
        way: Callable[[str], VendorLimit],
        *,
        shared: RateStore | None,
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
        self._limiters: dict[str, KeyLimiter] = {}

    def get_limit(self, connector: str) -> VendorLimit:
        """Return how a connector may be called. Raises ConfigError when settings have none."""
        if connector not in self._limits:
            self._limits[connector] = self._read_limit(connector)
        return self._limits[connector]

    def get_limiter(self, connector: str, *, tenant: TenantId | None = None) -> KeyLimiter:
        """Return the limiter of all tenants that call a connector with the same key."""
        name = self._get_key(connector, tenant)
        if name not in self._limiters:
            self._limiters[name] = self._build_limiter(name, self.get_limit(connector))
        return self._limiters[name]

    def _build_limiter(self, name: str, limit: VendorLimit) -> KeyLimiter:
        key, clock, shared = f"connector/{name}", self._clock, self._shared
        rate: RateLimiter = LocalRateLimiter(limit.rate, clock=clock, ticks=self._ticks)
        slots = None
        if shared is not None:
            rate = SharedRateLimiter(key, limit.rate, shared=shared, clock=clock)
            slots = ConcurrencyLimiter(
                key, limit.concurrency, shared=shared, owner=self._owner, clock=clock
            )
        return KeyLimiter(
            queue=FairQueue(at_once=limit.concurrency, quantum=QUANTUM, weights=self._weights),
            slots=slots,
            rate=rate,
            head_lock=asyncio.Lock(),
        )

    def _get_key(self, connector: str, tenant: TenantId | None) -> str:
        if not self.get_limit(connector).own_key:
            whose = self._own_keys.get((connector, tenant)) if tenant else None
            return f"{connector}/{whose}" if whose else connector
        if tenant is None:
            raise ConfigError(f"each tenant calls {connector} with a key of its own; say whose")
        return f"{connector}/{tenant}"


class QueueHead:
    """The head of the queue: the call may go now, and has not used up the rate yet.

    `proceed` uses it up, once, and lets the next waiter become the head. Leaving without it uses
    nothing up.
    """

    def __init__(
        self, rate: RateLimiter, *, slot: AsyncExitStack, head_lock: AsyncExitStack
    ) -> None:
        self._rate_limiter = rate
        self._slot = slot
        self._head_lock = head_lock
        self._used = False

    def proceed(self) -> AbstractAsyncContextManager[None] | None:
        """Return the context in which the call is made; None if it was returned before."""
        return None if self._used else self._proceed()

    @asynccontextmanager
    async def _proceed(self) -> AsyncIterator[None]:
        self._used = True
        async with self._slot.pop_all():
            async with self._head_lock.pop_all():
                await self._rate_limiter.acquire()
            yield


class CallLimiter:
    """One tenant's way to vendors: `budget.spend(request, call, slot=limiter.acquire_slot(…))`."""

    def __init__(self, limits: VendorLimits, tenant: TenantId, *, clock: Clock) -> None:
        self._limits = limits
        self._tenant = tenant
        self._clock = clock
        self._waiting: Counter[str] = Counter()  # calls that may not go yet, by connector

    @asynccontextmanager
    async def acquire_slot(self, connector: str, cost: int = 1) -> AsyncIterator[None]:
        """Wait until a call of this cost may go; inside, it has its slot.

        Tenants are admitted in rounds, by cost. A failed call also uses up the rate. Raises
        ConfigError for a connector without settings, and the store's errors when processes share
        the rate.
        """
        limiter = self._limits.get_limiter(connector, tenant=self._tenant)
        async with AsyncExitStack() as slot:
            with self._count_waiting(connector):
                await limiter.enter_slot(slot, self._tenant, cost=cost)
                await limiter.rate.acquire()
            yield

    @asynccontextmanager
    async def acquire_head(self, connector: str) -> AsyncIterator[QueueHead]:
        """Wait until a call of cost 1 may go, for callers that choose the call only then.

        One waiter of this process is the head at a time, until it proceeds or leaves. Several
        processes may each have one; the slower one waits for the next free time. Raises what
        `acquire_slot` raises.
        """
        limiter = self._limits.get_limiter(connector, tenant=self._tenant)
        async with AsyncExitStack() as slot, AsyncExitStack() as head:
            with self._count_waiting(connector):
                await limiter.enter_slot(slot, self._tenant, cost=1)
                await head.enter_async_context(limiter.head_lock)
                while (wait := await self._compute_wait(limiter)) > timedelta(0):
                    await self._clock.sleep(wait)
            yield QueueHead(limiter.rate, slot=slot, head_lock=head)

    async def _compute_wait(self, limiter: KeyLimiter) -> timedelta:
        return await limiter.rate.get_next_allowed_at() - self._clock.now()

    async def delay_until(self, connector: str, until: datetime) -> None:
        """Make all calls with this key wait until a vendor's Retry-After.

        At most an hour; never sooner than an earlier delay.
        """
        limiter = self._limits.get_limiter(connector, tenant=self._tenant)
        await limiter.rate.delay_until(until=until)

    async def list_cooldowns(self, *, besides: Collection[str] = ()) -> dict[str, datetime]:
        """Return the vendors with a cooldown that calls wait for, and until when.

        Also those in `besides`. Waiting for our own rate is no cooldown. Raises the store's errors
        when processes share the rate.
        """
        found = {}
        for connector in sorted({*(+self._waiting), *besides}):
            limiter = self._limits.get_limiter(connector, tenant=self._tenant)
            opens_at = await limiter.rate.get_next_allowed_at()
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
        """Slow calls down so that the vendor's remaining quota lasts until its reset.

        Changes nothing when our own rate is slow enough.
        """
        rate = self._limits.get_limit(connector).rate
        until = compute_quota_delay(rate, left=left, resets_at=resets_at, now=self._clock.now())
        if until is not None:
            await self.delay_until(connector, until)


def build_vendor_limits(context: Context) -> VendorLimits:
    """Build the limiters of a process from its settings."""
    settings, clock = context.settings, context.clock

    def read_limit(connector: str) -> VendorLimit:
        section = settings.get_connector(connector)
        return VendorLimit(
            rate=section.to_rate(), concurrency=section.concurrency, own_key=section.own_key
        )

    return VendorLimits(
        read_limit,
        shared=context.backend.shared() if has_shared_rates(settings) else None,
        owner=context.owner,
        clock=clock,
        weights={
            tenant.id: settings.for_tenant(tenant.id).pacing.weight for tenant in settings.tenants
        },
        own_keys=_list_own_keys(settings),
        # The same time as the machine's own clock tells, and cheaper to ask for.
        ticks=time.monotonic_ns if isinstance(clock, SystemClock) else None,
    )


def build_call_limiter(tenant: TenantContext) -> CallLimiter:
    """Build what a tenant's paid calls wait for."""
    limits = tenant.process.get(build_vendor_limits)
    return CallLimiter(limits, tenant.id, clock=tenant.clock)


def has_shared_rates(settings: Settings) -> bool:
    """Say whether several processes use the vendors' keys, and share rates through the store."""
    if settings.pacing.processes == "auto":
        # A file is open to many processes as well: a daemon, and a person at a terminal.
        return settings.storage.backend != "memory"
    return settings.pacing.processes == "many"


def _list_own_keys(settings: Settings) -> dict[tuple[str, TenantId], str]:
    """Return the queue of each tenant that calls a vendor with another key than the installation's.

    Tenants with the same key share a queue, named by the first of them.
    """
    queues: dict[tuple[str, TenantId], str] = {}
    first: dict[tuple[str, object], str] = {}
    for tenant in settings.tenants:
        for setting, key in tenant.overrides.items():
            section, _, vendor = setting.partition(".")
            if section == "keys" and key != settings.get_value(setting):
                queues[vendor, tenant.id] = first.setdefault((vendor, key), tenant.id)
    return queues
