"""The built-in work: the store is sound, the schedule was kept, what is dead or old goes.

It decides nothing: what a finding means is `core.audit`'s business, which runs may go is
`core.retention`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.base.events import RunsPruned
from stoker.context import Store
from stoker.runs import retention
from stoker.runs.model import Weight
from stoker.runs.retention import RetentionRule
from stoker.runs.service import OpenRun

EVERY_PLAN = 1_000_000  # more than any retention keeps


async def pruned(store: Store, ats: Sequence[datetime]) -> Weight:
    """Forget these runs, and the plans of runs that are gone; return what went of the runs.

    Stopping half-way leaves a plan without its run, and the next time it goes.
    """
    # Read before the runs are: a run is there before its plan, so none of these is a new one's.
    planned = [plan.run for plan in await store.attention.plans(limit=EVERY_PLAN)]
    weight = await store.runs.prune(ats)
    if planned:
        there = {run.name for run in await store.runs.runs()}
        await store.attention.drop_plans([run for run in planned if run not in there])
    return weight


async def forgotten(run: OpenRun, *, rule: RetentionRule, zone: str, now: datetime) -> Weight:
    """Forget the runs that a rule lets go, never the one under way; return what went."""
    going = retention.prunable(
        await run.store.runs.runs(),
        rule=rule,
        now=now,
        current=run.key.at,
        window_since=retention.longest_window_start(now, zone),
    )
    weight = await pruned(run.store, [old.at for old in going])
    if weight.runs:
        run.observer(
            RunsPruned(
                at=now,
                tenant=run.store.tenant,
                runs=weight.runs,
                rows=weight.rows,
                bytes=weight.bytes,
            )
        )
    return weight
