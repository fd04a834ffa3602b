"""Start what is due, once, and write down why anything was not started.

For each task it asks `core.cadence` what is due, takes the lease of that work, and lets the
`Runner` carry it out. Any number of schedulers may share a store: the lease keeps them apart,
and the record of an instant, written once, decides when the lease could not. What a process that
died left running is closed at the next look, due or not, and gone on with if the task wants that.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from stoker.base.cancellation import seen_through
from stoker.base.clock import CLOCK_TOLERANCE, Clock, went_back
from stoker.base.errors import ConflictError, StokerError, UncertainError
from stoker.base.events import ClockWentBack, DuplicateWindow, Observer, SlotPassed, TenantFailed
from stoker.base.types import TenantId
from stoker.budgets.windows import ResetRule, WindowKind, window_at
from stoker.calendar import recurrence as cadence
from stoker.calendar.recurrence import CatchUp, Due, Schedule
from stoker.context import Backend, Store
from stoker.runs.leases import Lease, Leaseholder, is_over, lapses_at
from stoker.runs.model import Manifest, Run, RunState
from stoker.runs.service import Ending, Runner, Work, run_lease
from stoker.scheduling.model import MOST_DEATHS, Slot, SlotState, to_go_on_with

RECORDED_AT_ONCE = 500

LEFT = "what a process that died had left"  # what a lease is held for when nothing is due

LONGEST_NAP = timedelta(seconds=30)  # so that a changed clock is noticed before long


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Work to be done for one tenant whenever its schedule says so."""

    tenant: TenantId
    work: Work
    schedule: Schedule
    manifest: Manifest
    catch_up: CatchUp = CatchUp.LATEST
    at_most: int = 1
    begins_after: timedelta = timedelta(0)  # it is due: so that not everybody begins at once
    goes_on_within: ResetRule | None = None  # its day, if a run whose process died is gone on with

    @property
    def name(self) -> str:
        """What its slots are recorded under: the kind of work."""
        return self.work.kind


class Scheduler:
    """Attends to tasks, of each kind of work so many at once.

    One tenant's trouble is told and does not reach another's.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        backend: Backend,
        leaseholder: Leaseholder,
        clock: Clock,
        observer: Observer,
        at_once: int = 1,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._leases = leaseholder
        self._clock = clock
        self._observer = observer
        self._runner = Runner(clock=clock, observer=observer)
        # A room for each kind of work: what takes a minute does not wait for long nights to end.
        self._rooms = {task.name: asyncio.Semaphore(at_once) for task in tasks}
        self._nexts: dict[Task, datetime] = {}  # as far as is known; a nap is never long

    @property
    def tasks(self) -> Sequence[Task]:
        """What it attends to."""
        return self._tasks

    async def tick(self) -> list[tuple[TenantId, Run]]:
        """Attend to every task once and to its end; return whose runs were carried out."""
        ended = await asyncio.gather(*(self._in_turn(task) for task in self._tasks))
        whose = zip(self._tasks, ended, strict=True)
        return [(task.tenant, run) for task, runs in whose for run in runs]

    async def keep_going(
        self, stopping: asyncio.Event, *, giving_way: asyncio.Event | None = None
    ) -> None:
        """Attend to tasks as they fall due, until told to stop; then end what is going on.

        Told to give way, it goes on until nothing is under way, and then returns: another
        scheduler, with other tasks, takes over, and no run was ended for it.
        """
        going: dict[Task, asyncio.Task[list[Run]]] = {}
        # Before the first nap, which would otherwise not know what it must end for.
        await asyncio.gather(*(self._look_ahead(task) for task in self._tasks))
        try:
            while not stopping.is_set():
                for task in self._tasks:
                    if task not in going or going[task].done():
                        going[task] = asyncio.create_task(self._in_turn(task))
                    else:
                        await self._notice_overlap(task)
                await self._nap(stopping, giving_way, going.values())
                if giving_way is not None and giving_way.is_set() and not _busy(going.values()):
                    return
        finally:
            for attending in going.values():
                attending.cancel()
            await asyncio.gather(*going.values(), return_exceptions=True)

    async def attend(self, task: Task) -> list[Run]:
        """Start what is due for one task and carry it out; return its runs as they ended.

        Due or not, a run whose process is gone is closed, and gone on with if the task wants it.
        """
        store = self._backend.tenant(task.tenant)
        now = self._clock.now()
        if await self._clock_went_back(store, now):
            return []
        due = await self._due(store, task, now)
        is_due = bool(due.run or due.missed)
        if not is_due and not await self._left_behind(store, task, now):
            return []
        if is_due and task.begins_after:
            await self._clock.sleep(task.begins_after)
        lease = await self._leases.take(store, run_lease(task.name), task=_about(due))
        if lease is None:
            if is_due:
                await self._pass_over(store, task, due)
            return []
        try:
            return await self._leases.while_held(store, lease, self._act(store, task, lease, now))
        except ConflictError as error:
            self._tell_failure(task, error)
            return []
        finally:
            await seen_through(self._leases.give_back(store, lease))

    async def start_now(self, task: Task) -> Run:
        """Carry out a task by hand, due or not. Raises ConflictError while it is running."""
        store = self._backend.tenant(task.tenant)
        lease = await self._leases.take(store, run_lease(task.name), task="by hand")
        if lease is None:
            raise await self._busy(store, task)
        try:
            return await self._leases.while_held(
                store, lease, self._carry_out_by_hand(store, task, lease)
            )
        finally:
            await seen_through(self._leases.give_back(store, lease))

    async def _busy(self, store: Store, task: Task) -> ConflictError:
        seen = await store.schedule.lease(run_lease(task.name))
        gone = ""
        if seen is not None and seen.owner:
            at = f"{lapses_at(seen):%Y-%m-%d %H:%M:%S} UTC"
            gone = f"; if its process is gone, try again after {at}"
        return ConflictError(
            f"{task.name} is running for {task.tenant} already; "
            f"see it with: stoker runs list --tenant {task.tenant}{gone}"
        )

    async def _act(self, store: Store, task: Task, lease: Lease, now: datetime) -> list[Run]:
        await self._runner.close_dead(store, lease, kind=task.name)
        # Asked again under the lease: another scheduler may have been here in between.
        due = await self._due(store, task, now)
        await self._record(store, task, due.missed, SlotState.MISSED, due.reason, fence=lease)
        if not due.run and (dead := await self._to_go_on_with(store, task, now)):
            manifest = replace(task.manifest, goes_on_with=dead.at)
            return [await self._carry_out_without_instant(store, task, lease, manifest)]
        return [await self._carry_out(store, task, lease, instant) for instant in due.run]

    async def _left_behind(self, store: Store, task: Task, now: datetime) -> bool:
        """Say whether a run may have to be closed or gone on with; the lease will tell."""
        newest = await store.runs.runs(kind=task.name, limit=1)
        going = bool(newest) and newest[0].state is RunState.RUNNING
        return going or await self._to_go_on_with(store, task, now) is not None

    async def _to_go_on_with(self, store: Store, task: Task, now: datetime) -> Run | None:
        if task.goes_on_within is None:
            return None
        day = window_at(WindowKind.DAY, now, reset=task.goes_on_within)
        latest = await store.runs.runs(kind=task.name, limit=MOST_DEATHS)
        return to_go_on_with(latest, since=day.start)

    async def _carry_out_by_hand(self, store: Store, task: Task, lease: Lease) -> Run:
        await self._runner.close_dead(store, lease, kind=task.name)
        return await self._carry_out_without_instant(store, task, lease, task.manifest)

    async def _carry_out_without_instant(
        self, store: Store, task: Task, lease: Lease, manifest: Manifest
    ) -> Run:
        run = await self._runner.begin(store, lease, kind=task.name, manifest=manifest)
        return await self._runner.carry_out(store, run, task.work)

    async def _carry_out(self, store: Store, task: Task, lease: Lease, instant: datetime) -> Run:
        # The run is written before its slot. Dying in between leaves a run that the next holder
        # closes and an instant that is still due; the other way round would lose the instant.
        run = await self._runner.begin(
            store, lease, kind=task.name, manifest=task.manifest, instant=instant
        )
        slot = Slot(
            schedule=task.name,
            instant=instant,
            state=SlotState.STARTED,
            decided_at=self._clock.now(),
            reason="due",
            run_at=run.at,
        )
        try:
            ours = await self._decided(store, slot, lease)
        except BaseException:
            # Stopped or fenced off before it was ours to do: no row may stay RUNNING for it.
            await seen_through(self._give_up(store, run, "stopped before its work began"))
            raise
        if ours:
            return await self._runner.carry_out(store, run, task.work)
        self._tell_duplicate(task, instant)
        return await self._cancelled(store, run, "another scheduler had this instant")

    async def _decided(self, store: Store, slot: Slot, lease: Lease) -> bool:
        try:
            return await store.schedule.decide_slot(slot, fence=lease)
        except UncertainError:
            # A record that names our run can only be ours; taking it for lost would lose the run.
            return slot in await store.schedule.slots(slot.schedule, since=slot.instant)

    async def _give_up(self, store: Store, run: Run, reason: str) -> None:
        with suppress(StokerError):  # if it cannot be said now, the next holder closes the run
            await self._cancelled(store, run, reason)

    async def _cancelled(self, store: Store, run: Run, reason: str) -> Run:
        ending = Ending(state=RunState.CANCELLED, reason=reason)
        return await self._runner.close(store, run, ending, timings=[])

    async def _notice_overlap(self, task: Task) -> None:
        try:
            store = self._backend.tenant(task.tenant)
            due = await self._due(store, task, self._clock.now())
            if due.run or due.missed:
                await self._pass_over(store, task, due)
        except StokerError as error:
            self._tell_failure(task, error)

    async def _pass_over(self, store: Store, task: Task, due: Due) -> None:
        held = await store.schedule.lease(run_lease(task.name))
        if held is None or not held.owner:
            return  # given back this moment, or not yet taken; the next look will tell
        if held.task == _about(due):
            if held.owner != self._leases.owner:
                self._tell_duplicate(task, (due.run or due.missed)[-1])
            return
        if held.owner != self._leases.owner and is_over(held, now=self._clock.now()):
            return  # its holder is gone; whoever takes it over decides
        newest = await store.runs.runs(kind=task.name, limit=1)
        if not newest or newest[0].at >= (due.missed or due.run)[0]:
            # They fell due before that run began, so it is no reason to skip them: either its
            # holder is about to decide them, or they run when it is done.
            return
        reason = f"run {newest[0].name} was still going"
        await self._record(store, task, due.missed, SlotState.MISSED, due.reason, fence=None)
        await self._record(store, task, due.run, SlotState.OVERLAP, reason, fence=None)

    async def _record(
        self,
        store: Store,
        task: Task,
        instants: Sequence[datetime],
        state: SlotState,
        reason: str,
        *,
        fence: Lease | None,
    ) -> None:
        now = self._clock.now()
        slots = [
            Slot(schedule=task.name, instant=instant, state=state, decided_at=now, reason=reason)
            for instant in instants
        ]
        # Many at once, because many share one commit; yet not all, because there may be thousands.
        for first in range(0, len(slots), RECORDED_AT_ONCE):
            some = slots[first : first + RECORDED_AT_ONCE]
            ours = await asyncio.gather(
                *(store.schedule.decide_slot(slot, fence=fence) for slot in some)
            )
            for slot in itertools.compress(some, ours):
                self._tell_passed(task, slot)

    async def _due(self, store: Store, task: Task, now: datetime) -> Due:
        # What was decided for far later than now, by a clock that was wrong then, must not stop us.
        last = await store.schedule.last_slot(task.name, until=now + CLOCK_TOLERANCE)
        decided = last.instant if last else None
        [self._nexts[task]] = cadence.upcoming(now, task.schedule, 1, last=decided)
        return cadence.due(
            now,
            decided,
            task.schedule,
            catch_up=task.catch_up,
            at_most=task.at_most,
        )

    async def _look_ahead(self, task: Task) -> None:
        with suppress(StokerError):  # whoever attends to it next says what is wrong
            await self._due(self._backend.tenant(task.tenant), task, self._clock.now())

    async def _clock_went_back(self, store: Store, now: datetime) -> bool:
        seen = await store.schedule.latest_decision_at()
        if seen is None or not went_back(now, latest=seen):
            return False
        self._observer(ClockWentBack(at=now, tenant=store.tenant, seen=seen))
        return True

    async def _in_turn(self, task: Task) -> list[Run]:
        async with self._rooms[task.name]:
            try:
                return await self.attend(task)
            except StokerError as error:
                self._tell_failure(task, error)
                return []

    async def _nap(
        self,
        stopping: asyncio.Event,
        giving_way: asyncio.Event | None,
        going: Iterable[asyncio.Task[list[Run]]],
    ) -> None:
        now = self._clock.now()
        until_next = min((at - now for at in self._nexts.values() if at > now), default=LONGEST_NAP)
        nap = asyncio.ensure_future(self._clock.sleep(min(until_next, LONGEST_NAP)))
        waits: set[asyncio.Future[Any]] = {nap, asyncio.ensure_future(stopping.wait())}
        if giving_way is not None and not giving_way.is_set():
            waits.add(asyncio.ensure_future(giving_way.wait()))
        elif giving_way is not None and (busy := _busy(going)):
            waits.add(asyncio.ensure_future(asyncio.wait(busy)))
        _, unfinished = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for waiting in unfinished:
            waiting.cancel()

    def _tell_duplicate(self, task: Task, instant: datetime) -> None:
        now = self._clock.now()
        self._observer(
            DuplicateWindow(at=now, tenant=task.tenant, schedule=task.name, instant=instant)
        )

    def _tell_passed(self, task: Task, slot: Slot) -> None:
        self._observer(
            SlotPassed(
                at=slot.decided_at,
                tenant=task.tenant,
                schedule=task.name,
                instant=slot.instant,
                state=slot.state.value,
                reason=slot.reason,
            )
        )

    def _tell_failure(self, task: Task, error: StokerError) -> None:
        self._observer(TenantFailed(at=self._clock.now(), tenant=task.tenant, error=str(error)))


def _busy(going: Iterable[asyncio.Task[list[Run]]]) -> set[asyncio.Task[list[Run]]]:
    return {attending for attending in going if not attending.done()}


def _about(due: Due) -> str:
    instants = due.run or due.missed
    return instants[-1].isoformat() if instants else LEFT
