"""Watch a run's progress and deadline, and drop items that cannot end in time.

Reports progress every few seconds and names the vendor the run waits for. When the deadline is at
risk it drops the least valuable items that no worker has started. `forecast` projects the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoker.base.clock import Clock
from stoker.base.errors import TransientError, UncertainError
from stoker.base.events import NightProgress, Observer, UnitsShed
from stoker.context import TenantStores
from stoker.enrichment.forecast import project_finish
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.summary import LateItems
from stoker.enrichment.workers import WorkerPool

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
