"""Take a lease, show signs of life while the work goes on, give it back.

What a lease means is decided in `core.leases`; here is only the doing. Losing one stops the
work at once; whatever slips through is refused by the store, because the epoch has moved on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from stoker.core import leases
from stoker.core.events import LeaseLost
from stoker.core.leases import Lease
from stoker.core.model import TenantId
from stoker.engine.seeing_through import cut_off
from stoker.errors import ConflictError, StokerError, UncertainError
from stoker.ports import Clock, Observer, Store

BEATS_PER_LENGTH = 3  # two may go astray before anybody takes us for dead

Result = TypeVar("Result")


class Leaseholder:
    """One process's dealings with leases. `owner` must be unlike any other process's."""

    def __init__(self, *, owner: str, clock: Clock, observer: Observer, length: timedelta) -> None:
        self.owner = owner
        self._clock = clock
        self._observer = observer
        self._length = length
        self._watched: dict[tuple[TenantId, str], tuple[Lease, timedelta]] = {}

    async def take(self, store: Store, name: str, *, task: str) -> Lease | None:
        """Return the lease, now ours, or None while somebody else holds it."""
        now = self._clock.now()
        seen = await store.schedule.lease(name)
        watched_for = self._watching(store.tenant, name, seen)
        if not leases.is_free(seen, now=now, unchanged_for=watched_for, length=self._length):
            return None
        wanted = leases.taken(name, seen, owner=self.owner, task=task, now=now, length=self._length)
        try:
            won = await store.schedule.swap_lease(seen, wanted)
        except UncertainError:
            won = await store.schedule.lease(name) == wanted
        return wanted if won else None

    async def give_back(self, store: Store, held: Lease) -> None:
        """Make the lease free at once, if it is still ours and the store can be reached."""
        now = self._clock.now()
        with suppress(StokerError):  # it lapses by itself; what was done under it must be told
            current = await store.schedule.lease(held.name)
            if current is not None and _same_holder(current, held):
                await store.schedule.swap_lease(current, leases.released(current, now=now))

    async def while_held(
        self, store: Store, held: Lease, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Do the work, renewing the lease; raise ConflictError, work stopped, once it is lost.

        Whoever cancels this cancels the work, which keeps its lease until it is over.
        """
        doing = asyncio.ensure_future(work)
        told_to_stop: asyncio.CancelledError | None = None
        try:
            while not doing.done():
                try:
                    ours = await self._finished(doing) or await self._renewed(store, held)
                except asyncio.CancelledError as told:
                    told_to_stop = told
                    doing.cancel()
                    continue
                if not ours:
                    self._observer(
                        LeaseLost(at=self._clock.now(), tenant=store.tenant, lease=held.name)
                    )
                    raise ConflictError(f"the lease {held.name} was lost to another process")
        finally:
            if not doing.done():
                await cut_off(doing, at_once=True)
        if told_to_stop is not None:
            if not doing.cancelled():
                doing.exception()  # looked at, so that nobody complains that it never was
            raise told_to_stop
        return doing.result()

    async def _finished(self, doing: asyncio.Future[Result]) -> bool:
        # Real seconds, not the injected clock's: a sign of life is for other processes.
        pause = self._length.total_seconds() / BEATS_PER_LENGTH
        done, _ = await asyncio.wait({doing}, timeout=pause)
        return bool(done)

    async def _renewed(self, store: Store, held: Lease) -> bool:
        now = self._clock.now()
        try:
            current = await store.schedule.lease(held.name)
            if current is None or not _same_holder(current, held):
                return False
            fresh = leases.renewed(current, now=now, length=self._length)
            return await store.schedule.swap_lease(current, fresh)
        except ConflictError:
            return False
        except StokerError:
            # Not knowing is not losing. If we really are gone, the store refuses what we write.
            return True

    def _watching(self, tenant: TenantId, name: str, seen: Lease | None) -> timedelta:
        if seen is None:
            return timedelta(0)
        now = self._clock.elapsed()
        before, since = self._watched.get((tenant, name), (None, now))
        if before is None or (before.epoch, before.beat) != (seen.epoch, seen.beat):
            since = now
        self._watched[tenant, name] = (seen, since)
        return now - since


def _same_holder(current: Lease, held: Lease) -> bool:
    return (current.owner, current.epoch) == (held.owner, held.epoch)
