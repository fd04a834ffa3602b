"""What every store can keep, letter for letter; the rest is refused before anything is written.

Each function returns a value as a store gives it back: moments in UTC, JSON as JSON has it.
PermanentError says that a text or a JSON value cannot be kept, ConfigError that a moment has no
time zone. All stores ask here, so they refuse the same things.

Who may act alone, and how everyone else can tell that they are gone.

A lease is taken over by comparing and swapping, so it has one holder whatever the clocks say.
`until` ends the waiting of those who only look once; watching the beat ends it sooner, and also
when clocks do not agree.
Being wrong about a holder's death is safe: the epoch rises, and the old holder's writes are
refused. Nothing here reads a clock or a store.

Take a lease, show signs of life while the work goes on, give it back.

What a lease means is decided in `core.leases`; here is only the doing. Losing one stops the
work at once; whatever slips through is refused by the store, because the epoch has moved on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from stoker.base.cancellation import cancel_and_wait
from stoker.base.clock import Clock
from stoker.base.errors import ConflictError, StokerError, UncertainError
from stoker.base.events import LeaseLost, Observer
from stoker.base.types import TenantId, to_utc
from stoker.context import TenantStores
from stoker.db.codec import validate_text

MAX_CLOCK_SKEW = timedelta(
    minutes=1
)  # a holder's clock may be this far behind before it is taken for dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to do one thing alone. It is never deleted, so its epoch never goes back."""

    name: str
    owner: str  # empty: nobody holds it
    fencing_token: int  # rises with every change of holder
    heartbeat: int  # rises with every change at all
    until: datetime
    task: str = ""  # what it is held for, so that others can tell overlap from a double start


def acquire_lease(
    name: str, seen: Lease | None, *, owner: str, task: str, now: datetime, length: timedelta
) -> Lease:
    """Return the lease as it will be once this owner has it."""
    return Lease(
        name=name,
        owner=owner,
        fencing_token=(seen.fencing_token if seen else 0) + 1,
        heartbeat=(seen.heartbeat if seen else 0) + 1,
        until=now + length,
        task=task,
    )


def renew_lease(held: Lease, *, now: datetime, length: timedelta) -> Lease:
    """Return the lease after one more sign of life."""
    return replace(held, heartbeat=held.heartbeat + 1, until=now + length)


def release_lease(held: Lease, *, now: datetime) -> Lease:
    """Return the lease given back: free at once, its epoch kept."""
    return replace(held, owner="", heartbeat=held.heartbeat + 1, until=now, task="")


def is_free(
    seen: Lease | None, *, now: datetime, unchanged_for: timedelta, length: timedelta
) -> bool:
    """Say whether a lease may be taken.

    `unchanged_for` is how long the asker has watched this very beat on a clock that only goes
    forward; a holder that misses a whole length is gone, whatever the wall clock claims.
    """
    if seen is None or not seen.owner:
        return True
    return is_expired(seen, now=now) or unchanged_for >= length


def is_expired(seen: Lease, *, now: datetime) -> bool:
    """Say whether a lease has ended by the wall clock, be it another machine's."""
    return now >= compute_expiry(seen)


def compute_expiry(seen: Lease) -> datetime:
    """Return when a lease is over by any clock, unless its holder shows another sign of life."""
    return seen.until + MAX_CLOCK_SKEW


HEARTBEATS_PER_LEASE = 3  # two may go astray before anybody takes us for dead

Result = TypeVar("Result")


class LeaseHolder:
    """One process's dealings with leases. `owner` must be unlike any other process's."""

    def __init__(self, *, owner: str, clock: Clock, observer: Observer, length: timedelta) -> None:
        self.owner = owner
        self._clock = clock
        self._observer = observer
        self._length = length
        self._watched: dict[tuple[TenantId, str], tuple[Lease, timedelta]] = {}

    async def acquire(self, store: TenantStores, name: str, *, task: str) -> Lease | None:
        """Return the lease, now ours, or None while somebody else holds it."""
        now = self._clock.now()
        seen = await store.schedule.find_lease(name)
        watched_for = self._measure_unchanged(store.tenant, name, seen)
        if not is_free(seen, now=now, unchanged_for=watched_for, length=self._length):
            return None
        wanted = acquire_lease(
            name, seen, owner=self.owner, task=task, now=now, length=self._length
        )
        try:
            won = await store.schedule.swap_lease(seen, wanted)
        except UncertainError:
            won = await store.schedule.find_lease(name) == wanted
        return wanted if won else None

    async def release(self, store: TenantStores, held: Lease) -> None:
        """Make the lease free at once, if it is still ours and the store can be reached."""
        now = self._clock.now()
        with suppress(StokerError):  # it lapses by itself; what was done under it must be told
            current = await store.schedule.find_lease(held.name)
            if current is not None and _is_same_holder(current, held):
                await store.schedule.swap_lease(current, release_lease(current, now=now))

    async def run_while_held(
        self, store: TenantStores, held: Lease, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Do the work, renewing the lease; raise ConflictError, work stopped, once it is lost.

        Whoever cancels this cancels the work, which keeps its lease until it is over.
        """
        doing = asyncio.ensure_future(work)
        told_to_stop: asyncio.CancelledError | None = None
        try:
            while not doing.done():
                try:
                    ours = await self._wait_until_done(doing) or await self._renew(store, held)
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
                await cancel_and_wait(doing, at_once=True)
        if told_to_stop is not None:
            if not doing.cancelled():
                doing.exception()  # looked at, so that nobody complains that it never was
            raise told_to_stop
        return doing.result()

    async def _wait_until_done(self, doing: asyncio.Future[Result]) -> bool:
        # Real seconds, not the injected clock's: a sign of life is for other processes.
        pause = self._length.total_seconds() / HEARTBEATS_PER_LEASE
        done, _ = await asyncio.wait({doing}, timeout=pause)
        return bool(done)

    async def _renew(self, store: TenantStores, held: Lease) -> bool:
        now = self._clock.now()
        try:
            current = await store.schedule.find_lease(held.name)
            if current is None or not _is_same_holder(current, held):
                return False
            fresh = renew_lease(current, now=now, length=self._length)
            return await store.schedule.swap_lease(current, fresh)
        except ConflictError:
            return False
        except StokerError:
            # Not knowing is not losing. If we really are gone, the store refuses what we write.
            return True

    def _measure_unchanged(self, tenant: TenantId, name: str, seen: Lease | None) -> timedelta:
        if seen is None:
            return timedelta(0)
        now = self._clock.elapsed()
        before, since = self._watched.get((tenant, name), (None, now))
        if before is None or (before.fencing_token, before.heartbeat) != (
            seen.fencing_token,
            seen.heartbeat,
        ):
            since = now
        self._watched[tenant, name] = (seen, since)
        return now - since


def _is_same_holder(current: Lease, held: Lease) -> bool:
    return (current.owner, current.fencing_token) == (held.owner, held.fencing_token)


def validate_lease(lease: Lease) -> Lease:
    """Return the lease as a store gives it back."""
    for text in (lease.name, lease.owner, lease.task):
        validate_text(text, what="a lease")
    return replace(lease, until=to_utc(lease.until, what="a lease's end"))
