"""One clock per host: a minimum delay between two requests of any tenant or worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from stoker.base.clock import Clock
from stoker.context import Context
from stoker.rate_limits.limiter import has_shared_rates
from stoker.rate_limits.rate_limit import MAX_DELAY as RATE_LIMIT_MAX_DELAY
from stoker.rate_limits.rate_limit import Rate, SharedRateLimiter

if TYPE_CHECKING:
    from stoker.rate_limits.store import RateStore

MAX_HOSTS = 1000  # remembered before idle ones are dropped
MIN_LIFETIME = timedelta(minutes=1)  # at least: its robots.txt may ask for a longer delay
MAX_DELAY = timedelta(hours=1)  # a longer crawl-delay is cut to this


class HostPacer(Protocol):
    """Delays requests: one clock per host, for all tenants and workers."""

    async def acquire(self, host: str, *, gap: timedelta) -> None:
        """Wait until a request to this host may be sent, at least `gap` after the last."""
        ...

    async def delay_until(self, host: str, *, until: datetime) -> None:
        """Send nothing to this host before then; an earlier moment changes nothing."""
        ...


@dataclass(slots=True)
class _Host:
    last_at: timedelta | None = None
    gap: timedelta = MIN_LIFETIME  # the longest delay that a caller asked for
    open_at: timedelta = timedelta.min
    waiting: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class LocalHostPacer:
    """A `HostPacer` for hosts that no other process of ours visits."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._hosts: dict[str, _Host] = {}
        self._drop_above = MAX_HOSTS

    async def acquire(self, host: str, *, gap: timedelta) -> None:
        gap = min(gap, MAX_DELAY)
        known = self._get_host(host)
        known.waiting += 1
        known.gap = max(known.gap, gap)
        try:
            async with known.lock:
                # Computed again after each wait: the host may have been delayed meanwhile.
                while (wait := self._compute_wait(known, gap)) > timedelta(0):
                    await self._clock.sleep(wait)
                known.last_at = self._clock.elapsed()
        finally:
            known.waiting -= 1

    async def delay_until(self, host: str, *, until: datetime) -> None:
        known = self._get_host(host)
        wait = min(until - self._clock.now(), RATE_LIMIT_MAX_DELAY)
        known.open_at = max(known.open_at, self._clock.elapsed() + wait)

    def _compute_wait(self, known: _Host, gap: timedelta) -> timedelta:
        opens_at = known.open_at
        if known.last_at is not None:
            opens_at = max(opens_at, known.last_at + gap)
        return opens_at - self._clock.elapsed() if opens_at > timedelta.min else timedelta(0)

    def _get_host(self, host: str) -> _Host:
        if host not in self._hosts:
            if len(self._hosts) >= self._drop_above:
                self._drop_idle()
            self._hosts[host] = _Host()
        return self._hosts[host]

    def _drop_idle(self) -> None:
        now = self._clock.elapsed()
        self._hosts = {
            host: known
            for host, known in self._hosts.items()
            if known.waiting
            or known.open_at > now
            or (known.last_at is not None and known.last_at + known.gap > now)
        }
        self._drop_above = max(MAX_HOSTS, 2 * len(self._hosts))


class SharedHostPacer:
    """A `HostPacer` for hosts that many processes visit; their shared store keeps the clock."""

    def __init__(self, *, shared: RateStore, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock
        # The clock is in the store; here is only which callers of this process wait.
        self._limiters: dict[tuple[str, timedelta], SharedRateLimiter] = {}

    async def acquire(self, host: str, *, gap: timedelta) -> None:
        await self._get_limiter(host, min(max(gap, timedelta.resolution), MAX_DELAY)).acquire()

    async def delay_until(self, host: str, *, until: datetime) -> None:
        await self._get_limiter(host, timedelta.resolution).delay_until(until=until)

    def _get_limiter(self, host: str, gap: timedelta) -> SharedRateLimiter:
        if (host, gap) not in self._limiters:
            if len(self._limiters) >= MAX_HOSTS:
                self._limiters.clear()
            rate = Rate(calls=1, per=gap)
            self._limiters[host, gap] = SharedRateLimiter(
                f"host/{host}", rate, shared=self._shared, clock=self._clock
            )
        return self._limiters[host, gap]


def build_host_pacer(context: Context) -> HostPacer:
    """Build the clock of every host that a process visits."""
    if has_shared_rates(context.settings):
        return SharedHostPacer(shared=context.backend.shared(), clock=context.clock)
    return LocalHostPacer(clock=context.clock)
