"""How fast calls go: wait for a turn under a rate, for a place among a few, and heed the vendor.

Whether a call may go is decided in `core.limits`; here is the waiting, in the order of asking. A
turn once given is used up, also by a call that fails. Turns are given by the clock at that moment;
what a call loses on its way to the vendor is what a rate's `share` leaves room for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol

from stoker.core import limits
from stoker.core.limits import LONGEST_PUSH_BACK, Rate, rest
from stoker.errors import ConfigError, StokerError
from stoker.ports import Clock, SharedStore

LOOK_AGAIN = timedelta(milliseconds=25)  # nobody tells us when a place becomes free
BEATS_PER_LEASE = 3
_MICROSECOND = timedelta(microseconds=1)


class Pace(Protocol):
    """The pace of all calls under one key."""

    async def turn(self) -> None:
        """Wait until a call may go, in the order of asking, and use the turn up."""
        ...

    async def push_back(self, *, until: datetime) -> None:
        """Let nothing go before then, or for an hour if that is sooner; never makes it sooner."""
        ...

    async def opens_at(self) -> datetime:
        """Return when the next call could go, as far as is known now; uses nothing up."""
        ...


class OwnPace:
    """A `Pace` for a key that no other process uses; it asks nobody.

    `ticks` are nanoseconds on a clock that only goes forward, the same time as `clock.elapsed()`
    but cheaper to read.
    """

    def __init__(self, rate: Rate, *, clock: Clock, ticks: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._ticks = ticks or (lambda: clock.elapsed() // _MICROSECOND * 1000)
        # Whole numbers, because this is asked before every call. The rule is `core.limits.turn`.
        self._interval = rate.interval // _MICROSECOND * 1000
        self._slack = rate.slack // _MICROSECOND * 1000
        self._next_at = self._ticks()
        self._waiting = 0
        self._line = asyncio.Lock()  # lets people through in the order of asking

    async def turn(self) -> None:
        if not self._waiting:
            now = self._ticks()
            due = self._next_at
            if due < now:
                due = now
            if due - self._slack <= now:
                self._next_at = due + self._interval
                return
        await self._turn_in_line()

    async def push_back(self, *, until: datetime) -> None:
        wait = min(until - self._clock.now(), LONGEST_PUSH_BACK)
        opens_at = self._ticks() + wait // _MICROSECOND * 1000
        self._next_at = max(self._next_at, opens_at + self._slack)

    async def opens_at(self) -> datetime:
        wait = max(self._next_at - self._slack - self._ticks(), 0)
        return self._clock.now() + timedelta(microseconds=-(-wait // 1000))

    async def _turn_in_line(self) -> None:
        self._waiting += 1
        try:
            async with self._line:
                # Asked again after each wait: somebody may have been pushed back meanwhile.
                while (wait := self._next_at - self._slack - self._ticks()) > 0:
                    await self._clock.sleep(timedelta(microseconds=wait // 1000 + 1))
                self._next_at = max(self._next_at, self._ticks()) + self._interval
        finally:
            self._waiting -= 1


class SharedPace:
    """A `Pace` for a key that many processes use; the store they share gives the turns.

    Raises what the store raises: without a turn, nothing goes.
    """

    def __init__(self, key: str, rate: Rate, *, shared: SharedStore, clock: Clock) -> None:
        self._key = key
        self._rate = rate
        self._shared = shared
        self._clock = clock
        self._line = asyncio.Lock()

    async def turn(self) -> None:
        # One of us asks at a time: more would only be turned away together.
        async with self._line:
            while True:
                now = self._clock.now()
                turn = await self._shared.turn(self._key, self._rate, now=now)
                if turn.allowed:
                    return
                await self._clock.sleep(max(turn.at - self._clock.now(), _MICROSECOND))

    async def push_back(self, *, until: datetime) -> None:
        soonest = min(until, self._clock.now() + LONGEST_PUSH_BACK)
        await self._shared.push_back(self._key, until=rest(self._rate, until=soonest))

    async def opens_at(self) -> datetime:
        remembered = await self._shared.next_at(self._key)
        return limits.turn(self._rate, remembered, now=self._clock.now()).at


def spread_until(rate: Rate, *, left: int, resets_at: datetime, now: datetime) -> datetime | None:
    """Return when the next call may go if a vendor's remaining quota is to last until its reset.

    None when our own pace is slow enough for it already: a vendor's numbers only slow us down.
    """
    pace = (resets_at - now) / (max(int(left * rate.share), 0) + 1)
    return now + pace if pace > rate.interval else None


class Places:
    """So many calls at once, across all processes. A place of a process that died comes free.

    `owner` must be unlike any other process's.
    """

    def __init__(
        self,
        name: str,
        places: int,
        *,
        shared: SharedStore,
        owner: str,
        clock: Clock,
        lease: timedelta = timedelta(seconds=60),
    ) -> None:
        if places < 1:
            raise ConfigError(f"{name} needs at least one place, not {places}")
        self._name = name
        self._places = places
        self._shared = shared
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._numbers = count(1)
        self._line = asyncio.Lock()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, in the order of asking, and keep it while inside."""
        holder = f"{self._owner}/{next(self._numbers)}"
        try:
            async with self._line:
                while not await self._taken(holder):
                    await self._clock.sleep(LOOK_AGAIN)
            keeping = asyncio.create_task(self._keep(holder))
            try:
                yield
            finally:
                keeping.cancel()
        finally:
            # Also when we gave up while asking: the store may have said yes. If it cannot be
            # told that we left, the lease ends by itself.
            with suppress(StokerError):
                await asyncio.shield(self._shared.leave_place(self._name, owner=holder))

    async def _taken(self, holder: str) -> bool:
        now = self._clock.now()
        return await self._shared.take_place(
            self._name, places=self._places, owner=holder, until=now + self._lease, now=now
        )

    async def _keep(self, holder: str) -> None:
        while True:
            # Real seconds, not the injected clock's: a sign of life is for other processes.
            await asyncio.sleep(self._lease.total_seconds() / BEATS_PER_LEASE)
            with suppress(StokerError):  # the next beat tries again
                await self._taken(holder)


@asynccontextmanager
async def paced(
    *paces: Pace, within: AbstractAsyncContextManager[object] | None = None
) -> AsyncIterator[None]:
    """Wait for all that a call has to wait for; inside, it may go.

    `within` comes first, being what may take longest: a tenant's turn, a place. It is kept.
    """
    async with within or nullcontext():
        for pace in paces:
            await pace.turn()
        yield
