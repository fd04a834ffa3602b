"""Ask runs to stop, make their work stop, and close runs whose process died.

A request is stored first, so a process that was only suspended finds it and stops too. The process
that executes a run polls for it every few seconds; Ctrl-C counts as one. Paid calls get time to be
answered. `service` decides how the run ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stoker.base.cancellation import cancel_and_wait, is_immediate
from stoker.base.errors import ConflictError, StokerError
from stoker.budgets.service import expire_reservations
from stoker.context import TenantStores
from stoker.runs.leases import get_lease_name, is_expired
from stoker.runs.model import CancelRequest, Run, RunState

if TYPE_CHECKING:
    from stoker.runs.service import Runner

POLL_INTERVAL = timedelta(seconds=5)

GRACE_PERIOD = timedelta(minutes=3)  # longer than any vendor is waited for

CANCELLED_BY_SIGNAL = "Ctrl-C or a signal"

SIGNAL_GRACE_PERIOD = timedelta(seconds=30)  # a person or a shutdown waits


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWatcher:
    """How often to poll for a cancel request, and how long the work may take to end after one.

    After Ctrl-C or a signal it has `signal_grace_period`.
    """

    poll_interval: timedelta = POLL_INTERVAL
    grace_period: timedelta = GRACE_PERIOD
    signal_grace_period: timedelta = SIGNAL_GRACE_PERIOD

    async def run_until_cancelled(
        self,
        work: asyncio.Future[Any],
        *,
        find_request: Callable[[], Awaitable[CancelRequest | None]],
        stop_accepting_work: Callable[[str], bool],
    ) -> CancelRequest | None:
        """Wait until the work is over; return the cancel request that ended it, if any.

        `stop_accepting_work` passes on who asked, and returns whether the work ends by itself;
        otherwise, or after the grace period, the work is cancelled. Cancelling this counts as a
        request; cancelling again, or at once, cancels the work. CancelledError is raised once the
        work is over.
        """
        request = None
        try:
            request = await self._poll_request(work, find_request)
            if request is not None and stop_accepting_work(request.by):
                await asyncio.wait({work}, timeout=self.grace_period.total_seconds())
        except asyncio.CancelledError as cancelled:
            impatient = request is not None or is_immediate(cancelled)
            if not (impatient or work.done()) and stop_accepting_work(CANCELLED_BY_SIGNAL):
                await asyncio.wait({work}, timeout=self.signal_grace_period.total_seconds())
            raise
        finally:
            await cancel_and_wait(work)
        return request

    async def _poll_request(
        self, work: asyncio.Future[Any], find_request: Callable[[], Awaitable[CancelRequest | None]]
    ) -> CancelRequest | None:
        # Real seconds, not the injected clock's: the request comes from another process.
        pause = self.poll_interval.total_seconds()
        while not (await asyncio.wait({work}, timeout=pause))[0]:
            with suppress(StokerError):  # a store that is away is asked again
                if (request := await find_request()) is not None:
                    return request
        return None


async def is_dead(store: TenantStores, run: Run, *, now: datetime) -> bool:
    """Return whether no process executes a run: its lease is free, expired or another run's."""
    lease = await store.schedule.find_lease(get_lease_name(run.kind))
    if lease is None or not lease.owner or is_expired(lease, now=now):
        return True
    return lease.fencing_token > run.key.fencing_token


async def list_dead_runs(store: TenantStores, runs: list[Run], *, now: datetime) -> list[Run]:
    """Return those of these runs that are RUNNING and whose process died."""
    return [
        run for run in runs if run.state is RunState.RUNNING and await is_dead(store, run, now=now)
    ]


async def close_dead_runs(store: TenantStores, *, by: Run, runner: Runner) -> list[Run]:
    """Close every run of a tenant whose process died; return them as they ended.

    Skips the run `by` that does this and all others of its process: after a machine has slept,
    leases seem to have expired. No lease is needed: a process that was only suspended finds its run
    ended, and the store refuses what it writes.
    """
    ours = await store.schedule.find_lease(get_lease_name(by.kind))
    closed = []
    running = await store.runs.list_runs(state=RunState.RUNNING)
    for run in await list_dead_runs(store, running, now=runner.clock.now()):
        its = await store.schedule.find_lease(get_lease_name(run.kind))
        if run.at == by.at or (ours and its and ours.owner == its.owner != ""):
            continue
        with suppress(ConflictError):  # it came to its end this very time
            closed.append(await runner.close_dead_run(store, run))
    return closed


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelResult:
    """The run as it is after the request, and the request in force.

    RUNNING: it will notice. Ended and `process_died`: it was closed now. Ended otherwise: it had
    ended before, and nothing was changed.
    """

    run: Run
    request: CancelRequest | None = None
    process_died: bool = False


async def request_cancel(store: TenantStores, run: Run, *, by: str, runner: Runner) -> CancelResult:
    """Ask a run to stop. Safe to repeat: the first request stays in force."""
    now = runner.clock.now()
    request = await store.runs.request_cancel(run.at, CancelRequest(by=by, at=now))
    if request is None:
        return CancelResult(run=await _get_ended_run(store, run))
    if not await is_dead(store, run, now=now):
        return CancelResult(run=run, request=request)
    try:
        ended = await runner.close_cancelled(store, run, request)
    except ConflictError:  # it came to its end this very time
        return CancelResult(run=await _get_ended_run(store, run), request=request)
    await expire_reservations(store, now=now, observer=runner.observer)
    return CancelResult(run=ended, request=request, process_died=True)


async def _get_ended_run(store: TenantStores, run: Run) -> Run:
    there = await store.runs.find_run(run.at)
    if there is None or there.state is RunState.RUNNING:
        raise ConflictError(f"run {run.name} changed meanwhile; try again")
    return there
