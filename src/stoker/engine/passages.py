"""What a paid call waits for on its way to a vendor: the tenant's turn, a place, the rate.

In that order, because the first may take longest and the last is used up once given. What a vendor
says about waiting is taken here too, and only ever slows us down. Money is `paying`'s business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import datetime, timedelta

from stoker.core.model import TenantId
from stoker.engine.pacing import Pace, paced, spread_until
from stoker.engine.traffic import Traffic
from stoker.ports import Clock


class Front:
    """A place at the very front: the call may go now, and its turn is not used up yet.

    `ahead` is what is left of the way, once. Whoever goes it lets the next one come to the front;
    whoever leaves without going has used nothing up.
    """

    def __init__(self, pace: Pace, *, place: AsyncExitStack, line: AsyncExitStack) -> None:
        self._pace = pace
        self._place = place
        self._line = line
        self._gone = False

    def ahead(self) -> AbstractAsyncContextManager[None] | None:
        """Return what is left to go through; None once somebody has gone."""
        return None if self._gone else self._go()

    @asynccontextmanager
    async def _go(self) -> AsyncIterator[None]:
        self._gone = True
        async with self._place.pop_all():
            async with self._line.pop_all():
                await self._pace.turn()
            yield


class Passages:
    """One tenant's ways to vendors: `gate.pay_for(request, step, passage=passages.through(…))`."""

    def __init__(self, traffic: Traffic, tenant: TenantId, *, clock: Clock) -> None:
        self._traffic = traffic
        self._tenant = tenant
        self._clock = clock
        self._waiting: Counter[str] = Counter()  # calls that may not go yet, by connector

    @asynccontextmanager
    async def through(self, connector: str, cost: int = 1) -> AsyncIterator[None]:
        """Wait until a call of this cost may go, and keep its place while inside.

        Tenants are let through by turns, in units of cost. A turn under the rate is used up also
        by a call that fails. Raises ConfigError for a connector without settings, and what the
        store raises when processes share the rate: without a turn, nothing goes.
        """
        turnstile = self._traffic.turnstile(connector, tenant=self._tenant)
        places = self._traffic.places(connector, tenant=self._tenant)
        pace = self._traffic.pace(connector, tenant=self._tenant)
        async with AsyncExitStack() as way:
            with self._awaited(connector):
                await way.enter_async_context(turnstile.turn(self._tenant, cost=cost))
                if places is not None:
                    await way.enter_async_context(places.place())
                await way.enter_async_context(paced(pace))
            yield

    @asynccontextmanager
    async def front(self, connector: str) -> AsyncIterator[Front]:
        """Wait until a call of cost 1 may go, for whoever says only then what it is.

        One waiter of this process is at the front at a time, and stays there until it goes or
        leaves. Of several processes, all may be; who is slower goes a turn later. Raises what
        `through` raises.
        """
        pace = self._traffic.pace(connector, tenant=self._tenant)
        places = self._traffic.places(connector, tenant=self._tenant)
        turnstile = self._traffic.turnstile(connector, tenant=self._tenant)
        async with AsyncExitStack() as place, AsyncExitStack() as line:
            with self._awaited(connector):
                await place.enter_async_context(turnstile.turn(self._tenant, cost=1))
                if places is not None:
                    await place.enter_async_context(places.place())
                await line.enter_async_context(self._traffic.line(connector, tenant=self._tenant))
                while (wait := await pace.opens_at() - self._clock.now()) > timedelta(0):
                    await self._clock.sleep(wait)
            yield Front(pace, place=place, line=line)

    async def wait_until(self, connector: str, until: datetime) -> None:
        """Heed a vendor that asked us to wait: nobody with this key calls before then.

        An hour at most, however long it wants us gone; then we ask again. Never sooner than what
        was asked before.
        """
        pace = self._traffic.pace(connector, tenant=self._tenant)
        await pace.push_back(until=until)

    async def rests(self, *, besides: Collection[str] = ()) -> dict[str, datetime]:
        """Return which vendors want to be left alone that calls wait for, and until when.

        And of those `besides`, whom somebody waits for elsewhere. What our own rate makes calls
        wait is no rest. Raises what the store raises when processes share the rate.
        """
        found = {}
        for connector in sorted({*(+self._waiting), *besides}):
            opens_at = await self._traffic.pace(connector, tenant=self._tenant).opens_at()
            if opens_at - self._clock.now() > self._traffic.way(connector).rate.interval:
                found[connector] = opens_at
        return found

    @contextmanager
    def _awaited(self, connector: str) -> Iterator[None]:
        self._waiting[connector] += 1
        try:
            yield
        finally:
            self._waiting[connector] -= 1

    async def heed_quota(self, connector: str, *, left: int, resets_at: datetime) -> None:
        """Heed what a vendor says is left of its quota: what is left has to last until its reset.

        Slows us down when our own pace would use it up sooner; otherwise changes nothing.
        """
        rate = self._traffic.way(connector).rate
        until = spread_until(rate, left=left, resets_at=resets_at, now=self._clock.now())
        if until is not None:
            await self.wait_until(connector, until)
