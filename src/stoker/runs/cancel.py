"""Finds runs that say RUNNING though nobody carries them out, and ends them.

Whoever holds a lease ends what earlier holders of it left; here are the runs of every kind, for
whoever only looks. Whether a run is gone on with is `core.going_on`'s business.

Asks a run to stop, wherever it is carried out; ends it at once when nobody is there any more.

The request is in the store before anything else happens, so a process that was only held still
finds it and stops too. How work heeds a request is known by `cancel_watcher`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from stoker.base.errors import ConflictError
from stoker.budgets.reserver import expire_reservations
from stoker.context import TenantStores
from stoker.runs import leases
from stoker.runs.model import CancelRequest, Run, RunState
from stoker.runs.service import Runner, get_lease_name


async def is_dead(store: TenantStores, run: Run, *, now: datetime) -> bool:
    """Say whether nobody carries a run out: its lease is free, lapsed or somebody else's."""
    lease = await store.schedule.find_lease(get_lease_name(run.kind))
    if lease is None or not lease.owner or leases.is_expired(lease, now=now):
        return True
    return lease.fencing_token > run.key.fencing_token


async def list_dead_runs(store: TenantStores, runs: list[Run], *, now: datetime) -> list[Run]:
    """Return those of these runs that say RUNNING and whose process is gone."""
    return [
        run for run in runs if run.state is RunState.RUNNING and await is_dead(store, run, now=now)
    ]


async def close_dead_runs(store: TenantStores, *, by: Run, runner: Runner) -> list[Run]:
    """End every run of a tenant whose process is gone; return them as they ended.

    The run `by` which this is done is left alone, and so is whatever else its own process carries
    out: after a machine has slept, leases seem to have lapsed though everybody is there. Nobody
    else's lease is needed: a process that was only held still finds that its run has ended, and
    whatever it writes into it is refused.
    """
    ours = await store.schedule.find_lease(get_lease_name(by.kind))
    closed = []
    for run in await list_dead_runs(store, await store.runs.list_runs(), now=runner.clock.now()):
        its = await store.schedule.find_lease(get_lease_name(run.kind))
        if run.at == by.at or (ours and its and ours.owner == its.owner != ""):
            continue
        with suppress(ConflictError):  # it came to its end this very moment
            closed.append(await runner.close_dead_run(store, run))
    return closed


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelResult:
    """What became of asking: the run as it stands, and whose request it was asked by.

    RUNNING: it will notice. Ended and `list_dead_runs`: its process was, so it was ended now. Ended
    otherwise: it had been before, and nothing was changed.
    """

    run: Run
    request: CancelRequest | None = None
    process_died: bool = False


async def request_cancel(store: TenantStores, run: Run, *, by: str, runner: Runner) -> CancelResult:
    """Ask a run to stop. Twice is once: whoever asked first is the one who asked."""
    now = runner.clock.now()
    request = await store.runs.request_cancel(run.at, CancelRequest(by=by, at=now))
    if request is None:
        return CancelResult(run=await _get_ended_run(store, run))
    if not await is_dead(store, run, now=now):
        return CancelResult(run=run, request=request)
    try:
        ended = await runner.close_cancelled(store, run, request)
    except ConflictError:  # it came to its end this very moment
        return CancelResult(run=await _get_ended_run(store, run), request=request)
    await expire_reservations(store, now=now, observer=runner.observer)
    return CancelResult(run=ended, request=request, process_died=True)


async def _get_ended_run(store: TenantStores, run: Run) -> Run:
    there = await store.runs.find_run(run.at)
    if there is None or there.state is RunState.RUNNING:
        raise ConflictError(f"run {run.name} changed while it was looked at; try again")
    return there
