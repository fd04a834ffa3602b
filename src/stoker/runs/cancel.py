"""Ask runs to stop, and close runs whose process died.

The request is stored first, so a process that was only suspended finds it and stops too.
`cancel_watcher` makes the work stop.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from stoker.base.errors import ConflictError
from stoker.budgets.service import expire_reservations
from stoker.context import TenantStores
from stoker.runs import leases
from stoker.runs.model import CancelRequest, Run, RunState
from stoker.runs.service import Runner, get_lease_name


async def is_dead(store: TenantStores, run: Run, *, now: datetime) -> bool:
    """Return whether no process executes a run: its lease is free, expired or another run's."""
    lease = await store.schedule.find_lease(get_lease_name(run.kind))
    if lease is None or not lease.owner or leases.is_expired(lease, now=now):
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
        raise ConflictError(f"run {run.name} changed while it was looked at; try again")
    return there
