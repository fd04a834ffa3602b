"""Finds runs that say RUNNING though nobody carries them out, and ends them.

Whoever holds a lease ends what earlier holders of it left; here are the runs of every kind, for
whoever only looks. Whether a run is gone on with is `core.going_on`'s business.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from stoker.core import leases
from stoker.core.runs import Run, RunState
from stoker.engine.running import Runner, run_lease
from stoker.errors import ConflictError
from stoker.ports import Store


async def is_gone(store: Store, run: Run, *, now: datetime) -> bool:
    """Say whether nobody carries a run out: its lease is free, lapsed or somebody else's."""
    lease = await store.schedule.lease(run_lease(run.kind))
    if lease is None or not lease.owner or leases.is_over(lease, now=now):
        return True
    return lease.epoch > run.key.epoch


async def gone(store: Store, runs: list[Run], *, now: datetime) -> list[Run]:
    """Return those of these runs that say RUNNING and whose process is gone."""
    return [
        run for run in runs if run.state is RunState.RUNNING and await is_gone(store, run, now=now)
    ]


async def given_up(store: Store, *, by: Run, runner: Runner) -> list[Run]:
    """End every run of a tenant whose process is gone; return them as they ended.

    The run `by` which this is done is left alone, and so is whatever else its own process carries
    out: after a machine has slept, leases seem to have lapsed though everybody is there. Nobody
    else's lease is needed: a process that was only held still finds that its run has ended, and
    whatever it writes into it is refused.
    """
    ours = await store.schedule.lease(run_lease(by.kind))
    closed = []
    for run in await gone(store, await store.runs.runs(), now=runner.clock.now()):
        its = await store.schedule.lease(run_lease(run.kind))
        if run.at == by.at or (ours and its and ours.owner == its.owner != ""):
            continue
        with suppress(ConflictError):  # it came to its end this very moment
            closed.append(await runner.close_gone(store, run))
    return closed
