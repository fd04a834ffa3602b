"""Workers of a run: claim items from its queue, and process them in a bounded number of slots.

A worker owns an item until it is finished, released, or the worker's claim expires because it sent
no heartbeat. A slow company holds only its own slot. A company that waits for a batch holds none,
so that batches fill across companies; the number of waiting companies is bounded too, and with it
memory. The deadline monitor reports progress every few seconds, names the vendor the run waits for,
and drops the least valuable items that no worker has started when the deadline is at risk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from stoker.accounts.model import CompanyRecord
from stoker.base.clock import Clock
from stoker.base.errors import StokerError, TransientError, UncertainError
from stoker.base.events import NightProgress, Observer, UnitsShed
from stoker.base.retry import retry
from stoker.budgets.charges import Refusal
from stoker.context import TenantStores
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.outcomes import LateItems
from stoker.enrichment.store import WorkStore

if TYPE_CHECKING:
    from stoker.enrichment.pipeline import CompanyPipeline

LEASE_LENGTH = timedelta(seconds=60)

HEARTBEAT_INTERVAL = timedelta(seconds=15)

LEASE_LOST = "this process was held still for so long that another one may have its work by now"


class WorkQueue:
    """Items of one run, claimed from its tenant's store.

    A worker that sent no heartbeat for longer than its lease owns nothing any more and gets
    nothing: another run may have resumed its work. Create it when the run begins: silence before
    the first item counts too.
    """

    def __init__(
        self,
        nights: WorkStore,
        run: str,
        *,
        owner: str,
        clock: Clock,
        lease: timedelta = LEASE_LENGTH,
    ) -> None:
        self._store = nights
        self._run = run
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._last_heartbeat = self._read_clocks()
        self._lost = False
        self.lost_reason = LEASE_LOST  # once it is not ours any more

    async def claim(self, limit: int) -> list[WorkItem]:
        """Claim the next free items, the most valuable first."""
        if not self.is_owner():
            return []
        now = self._clock.now()
        return await self._store.claim_items(
            self._run, owner=self._owner, until=now + self._lease, now=now, limit=limit
        )

    async def extend_claims(self) -> int:
        """Lengthen the lease of everything taken."""
        if not self.is_owner():
            return 0
        moment, until = self._read_clocks(), self._clock.now() + self._lease
        extended = await self._store.extend_claims(self._run, owner=self._owner, until=until)
        self._last_heartbeat = moment
        return extended

    async def finish(self, unit: WorkItem, dossier: CompanyRecord | None) -> bool:
        """Write down how an item ended and what is known now, together."""
        if not self.is_owner():
            return False
        return await self._store.finish_item(self._run, unit, dossier)

    async def release(self) -> int:
        """Make everything taken and not finished free again."""
        return await self._store.release_items(self._run, owner=self._owner)

    def abandon(self, because: str) -> None:
        """Have nothing more to do with the run's items: none is taken, worked on or finished."""
        if self.is_owner():
            self._lost, self.lost_reason = True, because

    def is_owner(self) -> bool:
        """Return whether our claims can never have expired and were not abandoned."""
        silent_for = (
            now - then for now, then in zip(self._read_clocks(), self._last_heartbeat, strict=True)
        )
        self._lost = self._lost or max(silent_for) > self._lease
        return not self._lost

    def _read_clocks(self) -> tuple[timedelta, timedelta]:
        # By both clocks: one does not count while the machine sleeps, the other can be set back.
        return self._clock.elapsed(), self._clock.now() - datetime.min.replace(tzinfo=UTC)


RETRY_DELAYS = tuple(timedelta(seconds=wait) for wait in (1, 2, 4))  # while the store is away

ResultT = TypeVar("ResultT")


class WorkerPool:
    """Claims items of one run and processes them, some at once, until there are none.

    The caller sends heartbeats for `units` meanwhile. `coming` is entered while an item may still
    add to a batch.
    """

    def __init__(
        self,
        pipeline: CompanyPipeline,
        queue: WorkQueue,
        *,
        slots: int,
        waiting_slots: int,
        clock: Clock,
        on_done: Callable[[WorkItem], None],
        while_producing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._pipeline = pipeline
        self._queue = queue
        self._slots = asyncio.Semaphore(slots)
        self._waiting_slots = asyncio.Semaphore(waiting_slots)
        self._clock = clock
        self._on_done = on_done
        self._while_producing = while_producing
        self.in_progress = 0
        self.ended = 0
        self.released = 0  # begun and not finished
        self.refusal: Refusal | None = None  # why nothing more is begun

    async def run(self) -> None:
        """Carry out everything there is; what was begun and not finished is released."""
        try:
            async with asyncio.TaskGroup() as flow:
                await self._start_all(flow)
        except BaseExceptionGroup as errors:
            raise _find_first_error(errors) from errors
        finally:
            with suppress(StokerError):  # then they come free by themselves
                self.released = await asyncio.shield(self._queue.release())

    async def _start_all(self, flow: asyncio.TaskGroup) -> None:
        while True:
            await self._slots.acquire()
            if self.refusal is not None:
                return
            # One unit per place that is free: what waits in our hands could be done elsewhere.
            items = await self._retry(lambda: self._queue.claim(1))
            if not items:
                self._slots.release()
                return
            self.in_progress += 1
            flow.create_task(self._process_item(items[0]))

    async def _process_item(self, item: WorkItem) -> None:
        place = _WorkerSlot(self._slots, self._waiting_slots)
        try:
            with self._while_producing():
                outcome = await self._process_with_retry(item, place)
        finally:
            place.release()
            self.in_progress -= 1
        if isinstance(outcome, Refusal):
            self.refusal = outcome
        elif outcome is not None:
            self.ended += 1
            self._on_done(outcome)

    async def _process_with_retry(
        self, item: WorkItem, place: _WorkerSlot
    ) -> WorkItem | Refusal | None:
        # From the beginning: paid answers are cached, and finishing an item twice changes nothing.
        return await self._retry(
            lambda: self._pipeline.process(item, park=place.release_while_waiting)
        )

    async def _retry(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run the work, and again when the store fails for a moment."""
        return await retry(work, delays=RETRY_DELAYS, sleep=self._clock.sleep)


class _WorkerSlot:
    """An item's worker slot, and later its waiting slot."""

    def __init__(self, places: asyncio.Semaphore, parked: asyncio.Semaphore) -> None:
        self._slots = places
        self._waiting_slots = parked
        self._is_waiting = False

    async def release_while_waiting(self) -> None:
        """Release the worker slot, once there is room to wait without it."""
        if not self._is_waiting:
            await self._waiting_slots.acquire()
            self._is_waiting = True
            self._slots.release()

    def release(self) -> None:
        """Release the slot that is held."""
        (self._waiting_slots if self._is_waiting else self._slots).release()


def _find_first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


POLL_INTERVAL = timedelta(seconds=5)

GRACE_PERIOD = timedelta(minutes=10)  # after the deadline, for companies that were under way

MIN_ENDED_FOR_PACE = 10  # items that must have ended before their pace is believed

ReadBackoffs = Callable[[], Awaitable[Mapping[str, datetime]]]
"""Says which vendors want to be left alone that work waits for, and until when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """When a run began, when it must end, and how long it was expected to take."""

    began_at: datetime
    deadline: datetime
    expected: timedelta


class DeadlineMonitor:
    """Looks after one run's time."""

    def __init__(
        self,
        store: TenantStores,
        run: str,
        *,
        pool: WorkerPool,
        times: RunTimes,
        clock: Clock,
        observer: Observer,
        read_backoffs: ReadBackoffs,
        interval: timedelta = POLL_INTERVAL,
    ) -> None:
        self._store = store
        self._run = run
        self._pool = pool
        self._times = times
        self._clock = clock
        self._observer = observer
        self._read_backoffs = read_backoffs
        self._interval = interval

    async def run(self) -> None:
        """Look again and again, until what is under way has had all the time there is."""
        while self._clock.now() < self._times.deadline + GRACE_PERIOD:
            await self._clock.sleep(self._interval)
            with suppress(TransientError, UncertainError):  # the work itself notices a lost store
                await self.check()

    async def check(self) -> int:
        """Report progress, and drop what cannot be done in time; return how many items."""
        counts = await self._store.work_items.count_items(self._run)
        rests = await self._read_backoffs()
        waits_for = max(rests, key=lambda name: rests[name], default="")
        waiting, ended = counts.get(WorkState.WAITING, 0), self._pool.ended
        left, now = waiting + self._pool.in_progress, self._clock.now()
        finish = project_finish(
            began_at=self._times.began_at,
            now=now,
            ended=ended,
            left=left,
            expected=self._times.expected,
            waits_until=rests.get(waits_for),
        )
        late = (finish or now) > self._times.deadline
        self._observer(
            NightProgress(
                at=now,
                tenant=self._store.tenant,
                run=self._run,
                ended=ended,
                under_way=self._pool.in_progress,
                left=waiting,
                began_at=self._times.began_at,
                finish=finish,
                late=late,
                waits_for=waits_for,
                waits_until=rests.get(waits_for),
            )
        )
        if not waiting or not late:
            return 0
        if ended < MIN_ENDED_FOR_PACE and now < self._times.deadline:
            return 0
        return await self._drop_items(now, per_unit=(now - self._times.began_at) / max(ended, 1))

    async def _drop_items(self, now: datetime, *, per_unit: timedelta) -> int:
        shed = before = 0
        async for page in self._store.work_items.iter_items(self._run, states=(WorkState.WAITING,)):
            for item in choose_items_to_drop(
                page,
                now=now + per_unit * self._pool.in_progress,
                deadline=self._times.deadline,
                per_unit=per_unit,
                before=before,
            ):
                shed += await self._drop_item(item, now)
            before += len(page)
        if shed:
            self._observer(UnitsShed(at=now, tenant=self._store.tenant, run=self._run, units=shed))
        return shed

    async def _drop_item(self, item: WorkItem, now: datetime) -> bool:
        gone = replace(
            item,
            state=WorkState.DROPPED,
            reasons=("dropped: the run would have ended after its deadline",),
            ended_at=now,
        )
        # False when a worker has started it meanwhile; then it is finished after all.
        return await self._store.work_items.finish_item(self._run, gone, None)


def choose_items_to_drop(
    waiting: Sequence[WorkItem],
    *,
    now: datetime,
    deadline: datetime,
    per_unit: timedelta,
    before: int = 0,
) -> tuple[WorkItem, ...]:
    """Return which waiting items to leave out so that the rest ends in time, least valuable first.

    `per_unit` is how long the night takes for one more unit, others going on beside it; `before` is
    how many more valuable ones are waiting besides these.
    """
    if per_unit <= timedelta(0):
        return ()
    room = max(int((deadline - now) / per_unit) - before, 0)
    by_value = sorted(waiting, key=lambda unit: unit.rank)
    return tuple(reversed(by_value[room:]))


async def find_late_items(
    store: TenantStores, run: str, *, times: RunTimes, now: datetime
) -> LateItems:
    """Return who of a run was still under way at its deadline, if that has passed by now."""
    found = LateItems(times.deadline)
    if now > times.deadline:
        async for page in store.work_items.iter_items(run):
            found.add(page)
    return found


def project_finish(
    *,
    began_at: datetime,
    now: datetime,
    ended: int,
    left: int,
    expected: timedelta,
    waits_until: datetime | None = None,
) -> datetime | None:
    """Return when a run will finish, from its pace so far; None when that cannot be known.

    Before any item has ended, only the quote counts; then its weight fades as evidence grows. Once
    the quoted time is over and still no item has ended, the finish is unknown. Remaining items that
    wait for a vendor until `waits_until` end no sooner.
    """
    if left <= 0:
        return now
    found = [] if waits_until is None or waits_until <= now else [waits_until]
    if ended:
        found.append(now + _estimate_remaining(now - began_at, ended, left, expected))
    elif began_at + expected > now:
        found.append(began_at + expected)
    return max(found, default=None)


def _estimate_remaining(spent: timedelta, ended: int, left: int, expected: timedelta) -> timedelta:
    evidence = ended / (ended + 10)  # ten companies weigh as much as the quote
    seen = spent / ended * left
    quoted = expected * (left / (ended + left))
    return seen * evidence + quoted * (1 - evidence)
