"""Start what is due, once, and record why anything was not started.

Any number of schedulers may share a store: the lease of each kind of work keeps them apart, and the
record of an occurrence, written once, decides when the lease could not. What a dead process left
running is closed at the next check, due or not, and resumed if the task wants that.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from stoker.base.cancellation import finish_despite_cancel
from stoker.base.clock import CLOCK_TOLERANCE, clock_went_backwards
from stoker.base.errors import ConflictError, StokerError, UncertainError
from stoker.base.events import ClockWentBack, DuplicateWindow, SlotPassed, TenantFailed
from stoker.base.types import TenantId
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.calendar.recurrence import (
    CatchUp,
    DueOccurrences,
    Interval,
    Schedule,
    compute_due,
    list_upcoming,
)
from stoker.context import Backend, TenantContext, TenantStores
from stoker.runs.cancel import list_dead_runs
from stoker.runs.leases import Lease, get_lease_name, is_expired
from stoker.runs.model import Manifest, Run, RunState
from stoker.runs.service import RunJob, Runner, RunResult, build_manifest
from stoker.scheduling.audit import AuditLine, audit_occurrences, list_expected
from stoker.scheduling.model import (
    MAX_DEATHS,
    OccurrenceResult,
    OccurrenceState,
    build_clock_accepted_entry,
    find_run_to_resume,
)

BATCH_SIZE = 500

CLEANUP = "what a process that died had left"  # what a lease is held for when nothing is due

MAX_SLEEP = timedelta(seconds=30)  # so that a changed clock is noticed before long


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Work to do for one tenant when its schedule is due."""

    tenant: TenantId
    job: RunJob
    schedule: Schedule
    manifest: Manifest
    catch_up: CatchUp = CatchUp.LATEST
    at_most: int = 1
    start_delay: timedelta = timedelta(0)  # after it is due, to spread the load
    resume_window: ResetRule | None = None  # its day, if a run whose process died is resumed

    @property
    def name(self) -> str:
        """What its slots are recorded under: the kind of work."""
        return self.job.kind


def build_task(
    tenant: TenantContext,
    job: RunJob,
    *,
    every: timedelta | None = None,
    resume_window: ResetRule | None = None,
    start_delay: timedelta = timedelta(0),
) -> Task:
    """Return a tenant's job as a task: due when its schedule says so, or `every` so often."""
    own = tenant.settings
    return Task(
        tenant=tenant.id,
        job=job,
        schedule=Interval(every=every) if every else own.scheduling.build_schedule(),
        manifest=build_manifest(own),
        catch_up=CatchUp.LATEST if every else own.scheduling.catch_up,
        at_most=own.scheduling.catch_up_max,
        start_delay=start_delay,
        resume_window=resume_window,
    )


class Scheduler:
    """Runs tasks, a limited number of each kind at a time.

    One tenant's failure is reported and does not affect others.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        backend: Backend,
        runner: Runner,
        at_once: int = 1,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._runner = runner
        self._leases, self._clock, self._observer = runner.leases, runner.clock, runner.observer
        # A room for each kind of work: what takes a minute does not wait for long nights to end.
        self._semaphores = {task.name: asyncio.Semaphore(at_once) for task in tasks}
        self._next_due: dict[Task, datetime] = {}  # as far as is known; a nap is never long

    @property
    def tasks(self) -> Sequence[Task]:
        """What it attends to."""
        return self._tasks

    async def run_once(self) -> list[tuple[TenantId, Run]]:
        """Attend to every task once and to its end; return whose runs were carried out."""
        ended = await asyncio.gather(*(self._run_in_slot(task) for task in self._tasks))
        whose = zip(self._tasks, ended, strict=True)
        return [(task.tenant, run) for task, runs in whose for run in runs]

    async def run_forever(
        self, stopping: asyncio.Event, *, giving_way: asyncio.Event | None = None
    ) -> None:
        """Run tasks as they fall due until `stopping` is set; then end what is running.

        When `giving_way` is set, it continues until nothing is running and returns: another
        scheduler with other tasks takes over, and no run is ended for it.
        """
        going: dict[Task, asyncio.Task[list[Run]]] = {}
        # Before the first nap, which would otherwise not know what it must end for.
        await asyncio.gather(*(self._read_next(task) for task in self._tasks))
        try:
            while not stopping.is_set():
                for task in self._tasks:
                    if task not in going or going[task].done():
                        going[task] = asyncio.create_task(self._run_in_slot(task))
                    else:
                        await self._check_overlap(task)
                await self._sleep_until_next(stopping, giving_way, going.values())
                if (
                    giving_way is not None
                    and giving_way.is_set()
                    and not _list_busy(going.values())
                ):
                    return
        finally:
            for attending in going.values():
                attending.cancel()
            await asyncio.gather(*going.values(), return_exceptions=True)

    async def run_task(self, task: Task) -> list[Run]:
        """Run what is due for one task; return its runs as they ended.

        Due or not, a run whose process died is closed, and resumed if the task wants it.
        """
        store = self._backend.tenant(task.tenant)
        now = self._clock.now()
        if await self._clock_went_back(store, now):
            return []
        due = await self._read_due(store, task, now)
        is_due = bool(due.run or due.missed)
        if not is_due and not await self._has_dead_run(store, task, now):
            return []
        if is_due and task.start_delay:
            await self._clock.sleep(task.start_delay)
        lease = await self._leases.acquire(
            store, get_lease_name(task.name), task=_describe_due(due)
        )
        if lease is None:
            if is_due:
                await self._record_not_started(store, task, due)
            return []
        try:
            return await self._leases.run_while_held(
                store, lease, self._run_due(store, task, lease, now)
            )
        except ConflictError as error:
            self._report_failure(task, error)
            return []

    async def _run_due(
        self, store: TenantStores, task: Task, lease: Lease, now: datetime
    ) -> list[Run]:
        await self._runner.close_dead_runs(store, lease, kind=task.name)
        # Asked again under the lease: another scheduler may have been here in between.
        due = await self._read_due(store, task, now)
        await self._record_results(
            store, task, due.missed, OccurrenceState.MISSED, due.reason, fence=lease
        )
        if not due.run and (dead := await self._find_run_to_resume(store, task, now)):
            manifest = replace(task.manifest, goes_on_with=dead.at)
            run = await self._runner.start_run(store, lease, kind=task.name, manifest=manifest)
            return [await self._runner.execute(store, run, task.job)]
        return [await self._execute_occurrence(store, task, lease, instant) for instant in due.run]

    async def _has_dead_run(self, store: TenantStores, task: Task, now: datetime) -> bool:
        """Return whether a run may have to be closed or resumed; the lease decides."""
        newest = await store.runs.list_runs(kind=task.name, limit=1)
        going = bool(newest) and newest[0].state is RunState.RUNNING
        return going or await self._find_run_to_resume(store, task, now) is not None

    async def _find_run_to_resume(
        self, store: TenantStores, task: Task, now: datetime
    ) -> Run | None:
        if task.resume_window is None:
            return None
        day = compute_window(WindowKind.DAY, now, reset=task.resume_window)
        latest = await store.runs.list_runs(kind=task.name, limit=MAX_DEATHS)
        return find_run_to_resume(latest, since=day.start)

    async def _execute_occurrence(
        self, store: TenantStores, task: Task, lease: Lease, instant: datetime
    ) -> Run:
        # The run is written before its slot. Dying in between leaves a run that the next holder
        # closes and an occurrence that is still due; the other way round would lose the occurrence.
        run = await self._runner.start_run(
            store, lease, kind=task.name, manifest=task.manifest, instant=instant
        )
        slot = OccurrenceResult(
            schedule=task.name,
            due_at=instant,
            state=OccurrenceState.STARTED,
            decided_at=self._clock.now(),
            reason="due",
            run_at=run.at,
        )
        try:
            ours = await self._record_started(store, slot, lease)
        except BaseException:
            # Stopped or fenced off before it was ours to do: no row may stay RUNNING for it.
            await finish_despite_cancel(
                self._cancel_quietly(store, run, "stopped before its work began")
            )
            raise
        if ours:
            return await self._runner.execute(store, run, task.job)
        self._report_duplicate(task, instant)
        return await self._close_cancelled(store, run, "another scheduler started this one")

    async def _record_started(
        self, store: TenantStores, slot: OccurrenceResult, lease: Lease
    ) -> bool:
        try:
            return await store.schedule.record_result(slot, fence=lease)
        except UncertainError:
            # A record that names our run can only be ours; taking it for lost would lose the run.
            return slot in await store.schedule.list_results(slot.schedule, since=slot.due_at)

    async def _cancel_quietly(self, store: TenantStores, run: Run, reason: str) -> None:
        with suppress(StokerError):  # the next holder of the lease closes the run
            await self._close_cancelled(store, run, reason)

    async def _close_cancelled(self, store: TenantStores, run: Run, reason: str) -> Run:
        ending = RunResult(state=RunState.CANCELLED, reason=reason)
        return await self._runner.close_run(store, run, ending, timings=[])

    async def _check_overlap(self, task: Task) -> None:
        try:
            store = self._backend.tenant(task.tenant)
            due = await self._read_due(store, task, self._clock.now())
            if due.run or due.missed:
                await self._record_not_started(store, task, due)
        except StokerError as error:
            self._report_failure(task, error)

    async def _record_not_started(
        self, store: TenantStores, task: Task, due: DueOccurrences
    ) -> None:
        held = await store.schedule.find_lease(get_lease_name(task.name))
        if held is None or not held.owner:
            return  # just released, or not yet acquired; the next check decides
        if held.task == _describe_due(due):
            if held.owner != self._leases.owner:
                self._report_duplicate(task, (due.run or due.missed)[-1])
            return
        if held.owner != self._leases.owner and is_expired(held, now=self._clock.now()):
            return  # its holder died; the next holder decides
        newest = await store.runs.list_runs(kind=task.name, limit=1)
        if not newest or newest[0].at >= (due.missed or due.run)[0]:
            # They fell due before that run began, so it is no reason to skip them: either its
            # holder is about to decide them, or they run when it is done.
            return
        reason = f"run {newest[0].name} was still running"
        await self._record_results(
            store, task, due.missed, OccurrenceState.MISSED, due.reason, fence=None
        )
        await self._record_results(
            store, task, due.run, OccurrenceState.OVERLAP, reason, fence=None
        )

    async def _record_results(
        self,
        store: TenantStores,
        task: Task,
        instants: Sequence[datetime],
        state: OccurrenceState,
        reason: str,
        *,
        fence: Lease | None,
    ) -> None:
        now = self._clock.now()
        slots = [
            OccurrenceResult(
                schedule=task.name, due_at=instant, state=state, decided_at=now, reason=reason
            )
            for instant in instants
        ]
        # Many at once, because many share one commit; yet not all, because there may be thousands.
        for first in range(0, len(slots), BATCH_SIZE):
            some = slots[first : first + BATCH_SIZE]
            ours = await asyncio.gather(
                *(store.schedule.record_result(slot, fence=fence) for slot in some)
            )
            for slot in itertools.compress(some, ours):
                self._report_not_started(task, slot)

    async def _read_due(self, store: TenantStores, task: Task, now: datetime) -> DueOccurrences:
        # What was decided for far later than now, by a clock that was wrong then, must not stop us.
        last = await store.schedule.find_last_result(task.name, until=now + CLOCK_TOLERANCE)
        decided = last.due_at if last else None
        [self._next_due[task]] = list_upcoming(now, task.schedule, 1, last=decided)
        return compute_due(
            now,
            decided,
            task.schedule,
            catch_up=task.catch_up,
            at_most=task.at_most,
        )

    async def _read_next(self, task: Task) -> None:
        with suppress(StokerError):  # the next run of the task reports the error
            await self._read_due(self._backend.tenant(task.tenant), task, self._clock.now())

    async def _clock_went_back(self, store: TenantStores, now: datetime) -> bool:
        seen = await store.schedule.find_latest_entry_at()
        if seen is None or not clock_went_backwards(now, latest=seen):
            return False
        self._observer(ClockWentBack(at=now, tenant=store.tenant, seen=seen))
        return True

    async def _run_in_slot(self, task: Task) -> list[Run]:
        async with self._semaphores[task.name]:
            try:
                return await self.run_task(task)
            except StokerError as error:
                self._report_failure(task, error)
                return []

    async def _sleep_until_next(
        self,
        stopping: asyncio.Event,
        giving_way: asyncio.Event | None,
        going: Iterable[asyncio.Task[list[Run]]],
    ) -> None:
        now = self._clock.now()
        until_next = min(
            (at - now for at in self._next_due.values() if at > now), default=MAX_SLEEP
        )
        nap = asyncio.ensure_future(self._clock.sleep(min(until_next, MAX_SLEEP)))
        waits: set[asyncio.Future[Any]] = {nap, asyncio.ensure_future(stopping.wait())}
        if giving_way is not None and not giving_way.is_set():
            waits.add(asyncio.ensure_future(giving_way.wait()))
        elif giving_way is not None and (busy := _list_busy(going)):
            waits.add(asyncio.ensure_future(asyncio.wait(busy)))
        _, unfinished = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for waiting in unfinished:
            waiting.cancel()

    def _report_duplicate(self, task: Task, instant: datetime) -> None:
        now = self._clock.now()
        self._observer(
            DuplicateWindow(at=now, tenant=task.tenant, schedule=task.name, instant=instant)
        )

    def _report_not_started(self, task: Task, slot: OccurrenceResult) -> None:
        self._observer(
            SlotPassed(
                at=slot.decided_at,
                tenant=task.tenant,
                schedule=task.name,
                instant=slot.due_at,
                state=slot.state.value,
                reason=slot.reason,
            )
        )

    def _report_failure(self, task: Task, error: StokerError) -> None:
        self._observer(TenantFailed(at=self._clock.now(), tenant=task.tenant, error=str(error)))


def _list_busy(going: Iterable[asyncio.Task[list[Run]]]) -> set[asyncio.Task[list[Run]]]:
    return {attending for attending in going if not attending.done()}


def _describe_due(due: DueOccurrences) -> str:
    instants = due.run or due.missed
    return instants[-1].isoformat() if instants else CLEANUP


async def accept_clock(store: TenantStores, *, now: datetime) -> datetime | None:
    """Count time from now on again if the clock went backwards; return what was recorded before."""
    latest = await store.schedule.find_latest_entry_at()
    if latest is None or not clock_went_backwards(now, latest=latest):
        return None
    await store.ledger.append([build_clock_accepted_entry(now, latest=latest)])
    return latest


async def read_audit(
    store: TenantStores,
    name: str,
    schedule: Schedule,
    *,
    since: datetime,
    until: datetime,
    now: datetime,
    kept_for: timedelta,
) -> list[AuditLine]:
    """Return what became of each occurrence with since <= occurrence < until."""
    results = await store.schedule.list_results(name, until=until)
    # A run starts when it is due or later, by clocks that may differ by minutes.
    runs = await store.runs.list_runs(kind=name, since=since - timedelta(days=1))
    return audit_occurrences(
        list_expected(schedule, results, since=since, until=until),
        [result for result in results if result.due_at >= since],
        runs,
        now=now,
        kept_for=kept_for,
        gone={run.at for run in await list_dead_runs(store, runs, now=now)},
    )
