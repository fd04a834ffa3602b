"""Limit the rate and the concurrency of calls, in one process or shared by many, and take turns.

The rate is the generic cell rate algorithm: one timestamp per key. Callers go in the order of
asking; a granted call is counted even if it fails. Calls are counted when they leave; a rate's
`share` leaves room for what they lose on the way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from stoker.base.clock import CLOCK_TOLERANCE, Clock
from stoker.base.errors import ConfigError, StokerError
from stoker.base.heartbeat import send_heartbeats

if TYPE_CHECKING:
    from stoker.rate_limits.store import RateStore

TenantT = TypeVar("TenantT", bound=Hashable)

ItemT = TypeVar("ItemT")

MAX_DELAY = timedelta(hours=1)  # then we call again, whatever the vendor asked

_MAX_RECOVERY = timedelta(days=36_500)  # beyond it, times would leave the calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many calls in any stretch of time this long, of which `burst` may come at once.

    The reservation holds for every stretch [t, t + per), not only for whole minutes; so a larger
    burst is paid for with a slower steady pace. `share` below one leaves the rest of a vendor's
    quota to others. `interval` is the steady pace, the time between calls once the burst is used
    up; `slack` is how far ahead of that pace a burst may run.
    """

    calls: int
    per: timedelta
    burst: int = 1
    share: float = 1.0
    interval: timedelta = field(init=False, repr=False, compare=False)
    slack: timedelta = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.calls < 1 or self.per <= timedelta(0):
            raise ConfigError(f"a rate is at least one call in some time, not {self!r}")
        if not 0 < self.share <= 1:
            raise ConfigError(f"a share of a rate is above 0 and at most 1, not {self.share}")
        ours = self.calls * Fraction(str(self.share))  # as it was written: 0.29 of 100 is 29
        most = max(1, int(ours))
        if not 1 <= self.burst <= most:
            raise ConfigError(f"a burst is 1 to {most} calls, not {self.burst}")
        # In any stretch of `per` come the burst and one call an interval after it; that sum is
        # what has to stay within the calls allowed, so parts of a call are given up. A share of
        # less than one call is one call in a longer stretch. Rounded up, never down.
        steady = min(ours, Fraction(most)) - self.burst + 1
        apart = ceil(self.per // timedelta.resolution / steady)
        if apart * self.burst > _MAX_RECOVERY // timedelta.resolution:
            raise ConfigError(
                f"{self!r} would take more than {_MAX_RECOVERY.days // 365} years to recover; "
                "use a smaller burst or a larger share"
            )
        interval = timedelta.resolution * apart
        # Worked out once, here: `check_rate` is asked hundreds of thousands of times a second.
        object.__setattr__(self, "interval", interval)
        object.__setattr__(self, "slack", interval * (self.burst - 1))


@dataclass(frozen=True, slots=True)
class RateDecision:
    """Whether a call may go now; if not, `at` is when. The caller stores `next_at`."""

    allowed: bool
    at: datetime
    next_at: datetime


def check_rate(rate: Rate, next_at: datetime | None, *, now: datetime) -> RateDecision:
    """Decide about one call, given the stored timestamp of its key (None: never called).

    Pure: the caller uses up the rate by storing `next_at`, also when the call may not go. A
    timestamp that no correct clock can have written is ignored: one a day ahead would block all
    calls for a day. The call then waits as if the whole burst had just gone.
    """
    if next_at is not None and next_at > _compute_latest_valid(rate, now=now):
        next_at = compute_postponed_until(rate, until=now + rate.interval)
    due = max(next_at, now) if next_at else now
    opens_at = due - rate.slack
    if opens_at > now:
        return RateDecision(False, opens_at, due)
    return RateDecision(True, now, due + rate.interval)


def postpone_next_at(next_at: datetime | None, *, until: datetime) -> datetime:
    """Return the timestamp after a vendor's Retry-After; never earlier than it was.

    For a rate with a burst, `until` is from `compute_postponed_until`: otherwise the burst would
    come early.
    """
    return until if next_at is None else max(next_at, until)


def compute_postponed_until(rate: Rate, *, until: datetime) -> datetime:
    """Return how far to push a key back so that nothing goes under this rate before `until`.

    The first call may go at that time, the others at the steady pace after it.
    """
    return until + rate.slack


def _compute_latest_valid(rate: Rate, *, now: datetime) -> datetime:
    # A burst that has just gone, or the longest delay, within clock tolerance.
    return compute_postponed_until(rate, until=now + MAX_DELAY + rate.interval) + CLOCK_TOLERANCE


POLL_INTERVAL = timedelta(milliseconds=25)  # there is no notification of a free slot

HEARTBEATS_PER_LEASE = 3

_MICROSECOND = timedelta(microseconds=1)


class RateLimiter(Protocol):
    """The pace of all calls under one key."""

    async def acquire(self) -> None:
        """Wait until a call may go, in the order of asking, and count it."""
        ...

    async def delay_until(self, *, until: datetime) -> None:
        """Let nothing go before then, or for an hour if that is sooner; never makes it sooner."""
        ...

    async def get_next_allowed_at(self) -> datetime:
        """Return when the next call could go, as far as is known now; uses nothing up."""
        ...


class LocalRateLimiter:
    """A `RateLimiter` for a key that no other process uses, in memory.

    `ticks` are nanoseconds on a clock that only goes forward, the same time as `clock.elapsed()`
    but cheaper to read.
    """

    def __init__(self, rate: Rate, *, clock: Clock, ticks: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._ticks = ticks or (lambda: clock.elapsed() // _MICROSECOND * 1000)
        # Whole numbers, because this is asked before every call. The rule is
        # `rate_limit.check_rate`.
        self._interval = rate.interval // _MICROSECOND * 1000
        self._slack = rate.slack // _MICROSECOND * 1000
        self._next_at = self._ticks()
        self._waiting = 0
        self._order_lock = asyncio.Lock()  # lets people through in the order of asking

    async def acquire(self) -> None:
        if not self._waiting:
            now = self._ticks()
            due = self._next_at
            if due < now:
                due = now
            if due - self._slack <= now:
                self._next_at = due + self._interval
                return
        await self._acquire_in_order()

    async def delay_until(self, *, until: datetime) -> None:
        wait = min(until - self._clock.now(), MAX_DELAY)
        opens_at = self._ticks() + wait // _MICROSECOND * 1000
        self._next_at = max(self._next_at, opens_at + self._slack)

    async def get_next_allowed_at(self) -> datetime:
        wait = max(self._next_at - self._slack - self._ticks(), 0)
        return self._clock.now() + timedelta(microseconds=-(-wait // 1000))

    async def _acquire_in_order(self) -> None:
        self._waiting += 1
        try:
            async with self._order_lock:
                # Asked again after each wait: the vendor may have asked for a delay meanwhile.
                while (wait := self._next_at - self._slack - self._ticks()) > 0:
                    await self._clock.sleep(timedelta(microseconds=wait // 1000 + 1))
                self._next_at = max(self._next_at, self._ticks()) + self._interval
        finally:
            self._waiting -= 1


class SharedRateLimiter:
    """A `RateLimiter` for a key that many processes use; the shared store decides.

    Raises the store's errors: without its answer, no call goes.
    """

    def __init__(self, key: str, rate: Rate, *, shared: RateStore, clock: Clock) -> None:
        self._key = key
        self._rate = rate
        self._shared = shared
        self._clock = clock
        self._order_lock = asyncio.Lock()

    async def acquire(self) -> None:
        # One of us asks at a time: more would only be turned away together.
        async with self._order_lock:
            while True:
                now = self._clock.now()
                decision = await self._shared.acquire_call(self._key, self._rate, now=now)
                if decision.allowed:
                    return
                await self._clock.sleep(max(decision.at - self._clock.now(), _MICROSECOND))

    async def delay_until(self, *, until: datetime) -> None:
        soonest = min(until, self._clock.now() + MAX_DELAY)
        await self._shared.delay_until(
            self._key, until=compute_postponed_until(self._rate, until=soonest)
        )

    async def get_next_allowed_at(self) -> datetime:
        remembered = await self._shared.find_next_at(self._key)
        return check_rate(self._rate, remembered, now=self._clock.now()).at


def compute_quota_delay(
    rate: Rate, *, left: int, resets_at: datetime, now: datetime
) -> datetime | None:
    """Return when the next call may go if a vendor's remaining quota is to last until its reset.

    None when our own pace is slow enough for it already: a vendor's numbers only slow us down.
    """
    pace = (resets_at - now) / (max(int(left * rate.share), 0) + 1)
    return now + pace if pace > rate.interval else None


class ConcurrencyLimiter:
    """Limits concurrent calls across all processes. A dead process's slot is freed when its lease
    ends.

    `owner` must differ from any other process's.
    """

    def __init__(
        self,
        name: str,
        places: int,
        *,
        shared: RateStore,
        owner: str,
        clock: Clock,
        lease: timedelta = timedelta(seconds=60),
    ) -> None:
        if places < 1:
            raise ConfigError(f"{name} needs at least one place, not {places}")
        self._name = name
        self._max_slots = places
        self._shared = shared
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._numbers = count(1)
        self._order_lock = asyncio.Lock()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait for a slot, in the order of asking; inside, heartbeats keep it."""
        holder = f"{self._owner}/{next(self._numbers)}"
        try:
            async with self._order_lock:
                while not await self._acquire_slot(holder):
                    await self._clock.sleep(POLL_INTERVAL)
            async with send_heartbeats(
                partial(self._acquire_slot, holder), every=self._lease / HEARTBEATS_PER_LEASE
            ):
                yield
        finally:
            # Also after a cancelled acquire: the store may have granted it. If it cannot be
            # released, the lease ends.
            await asyncio.shield(self._release_slot(holder))

    async def _release_slot(self, holder: str) -> None:
        with suppress(StokerError):
            await self._shared.release_slot(self._name, owner=holder)

    async def _acquire_slot(self, holder: str) -> bool:
        now = self._clock.now()
        return await self._shared.acquire_slot(
            self._name, places=self._max_slots, owner=holder, until=now + self._lease, now=now
        )


@dataclass
class _TenantQueue(Generic[ItemT]):
    waiting: deque[tuple[int, ItemT]] = field(default_factory=deque)
    deficit: int = 0


class DeficitRoundRobin(Generic[TenantT, ItemT]):
    """A queue per tenant, served in rounds: which tenant's call goes next to a busy connector.

    Deficit round robin in cost units: each round every waiting tenant may spend its weight times a
    quantum, and keeps what it could not use while it waits. No waiting tenant is passed over for
    more than a round, and no share is saved up while idle. Work that costs more than a tenant's
    round waits for as many rounds as it costs. While any work waits, some goes.
    """

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
