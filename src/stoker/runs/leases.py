"""Give one process at a time the right to act, with heartbeats and a fencing token.

A lease is taken by compare-and-swap, so it has one holder whatever the clocks show. It ends at
`until`, or sooner for a process that watches its heartbeat stop. Taking a live holder for dead is
safe: the fencing token (column `epoch`) rises, and the stores of runs and scheduling refuse the old
holder's writes. Losing a lease cancels the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from stoker.base.cancellation import cancel_and_wait, finish_despite_cancel
from stoker.base.clock import Clock
from stoker.base.errors import ConflictError, StokerError, UncertainError
from stoker.base.events import LeaseLost, Observer
from stoker.base.types import TenantId
from stoker.context import TenantStores

LEASE_LENGTH = timedelta(seconds=30)

MAX_CLOCK_SKEW = timedelta(
    minutes=1
)  # a holder's clock may be this far behind before it is taken for dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to do one thing alone. It is never deleted, so its token never goes back."""

    name: str
    owner: str  # empty: it is free
    fencing_token: int  # rises with every change of holder
    heartbeat: int  # rises with every change at all
    until: datetime
    task: str = ""  # what it is held for, to distinguish an overlap from a double start


def get_lease_name(kind: str) -> str:
    """Return the name of the lease under which runs of a kind are carried out."""
    return f"run/{kind}"


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
    """Return the lease after one more heartbeat."""
    return replace(held, heartbeat=held.heartbeat + 1, until=now + length)


def release_lease(held: Lease, *, now: datetime) -> Lease:
    """Return the lease released: free at once, with the same fencing token."""
    return replace(held, owner="", heartbeat=held.heartbeat + 1, until=now, task="")


def is_free(
    seen: Lease | None, *, now: datetime, unchanged_for: timedelta, length: timedelta
) -> bool:
    """Return whether a lease may be acquired.

    `unchanged_for` is how long the caller has seen the same heartbeat on a monotonic clock; a
    holder that misses a whole length is dead, whatever the wall clock shows.
    """
    if seen is None or not seen.owner:
        return True
    return is_expired(seen, now=now) or unchanged_for >= length


def is_expired(seen: Lease, *, now: datetime) -> bool:
    """Return whether a lease has ended by the wall clock, be it another machine's."""
    return now >= compute_expiry(seen)


def compute_expiry(seen: Lease) -> datetime:
    """Return when a lease is over by any clock, unless its holder shows another heartbeat."""
    return seen.until + MAX_CLOCK_SKEW


HEARTBEATS_PER_LEASE = 3  # two may fail before the lease ends

Result = TypeVar("Result")


class LeaseHolder:
    """One process's dealings with leases. `owner` must be unlike any other process's."""

    def __init__(self, *, owner: str, clock: Clock, observer: Observer, length: timedelta) -> None:
        self.owner, self.clock, self.observer = owner, clock, observer
        self._length = length
        self._watched: dict[tuple[TenantId, str], tuple[Lease, timedelta]] = {}

    async def acquire(self, store: TenantStores, name: str, *, task: str) -> Lease | None:
        """Return the lease, or None while another process holds it."""
        now = self.clock.now()
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
        """Release the lease, if we still hold it and the store can be reached."""
        now = self.clock.now()
        with suppress(StokerError):  # it expires; the result of the work matters more
            current = await store.schedule.find_lease(held.name)
            if current is not None and _is_same_holder(current, held):
                await store.schedule.swap_lease(current, release_lease(current, now=now))

    async def run_while_held(
        self, store: TenantStores, held: Lease, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Do the work while renewing the lease, then release it.

        Raises ConflictError, work cancelled, once the lease is lost. Cancelling this cancels the
        work, which keeps its lease until it is over.
        """
        doing = asyncio.ensure_future(work)
        cancelled: asyncio.CancelledError | None = None
        try:
            while not doing.done():
                try:
                    ours = await self._wait_until_done(doing) or await self._renew(store, held)
                except asyncio.CancelledError as error:
                    cancelled = error
                    doing.cancel()
                    continue
                if not ours:
                    self.observer(
                        LeaseLost(at=self.clock.now(), tenant=store.tenant, lease=held.name)
                    )
                    raise ConflictError(f"the lease {held.name} was lost to another process")
        finally:
            if not doing.done():
                await cancel_and_wait(doing, at_once=True)
            await finish_despite_cancel(self.release(store, held))
        if cancelled is not None:
            if not doing.cancelled():
                doing.exception()  # retrieved, or asyncio logs a warning
            raise cancelled
        return doing.result()

    async def _wait_until_done(self, doing: asyncio.Future[Result]) -> bool:
        # Real seconds, not the injected clock's: a heartbeat is for other processes.
        pause = self._length.total_seconds() / HEARTBEATS_PER_LEASE
        done, _ = await asyncio.wait({doing}, timeout=pause)
        return bool(done)

    async def _renew(self, store: TenantStores, held: Lease) -> bool:
        now = self.clock.now()
        try:
            current = await store.schedule.find_lease(held.name)
            if current is None or not _is_same_holder(current, held):
                return False
            fresh = renew_lease(current, now=now, length=self._length)
            return await store.schedule.swap_lease(current, fresh)
        except ConflictError:
            return False
        except StokerError:
            # An unknown state is not a lost lease: if it is lost, the store refuses our writes.
            return True

    def _measure_unchanged(self, tenant: TenantId, name: str, seen: Lease | None) -> timedelta:
        if seen is None:
            return timedelta(0)
        now = self.clock.elapsed()
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
