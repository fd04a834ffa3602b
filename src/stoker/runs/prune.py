"""Delete old runs with their plans and work items."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from stoker.base.events import RunsPruned
from stoker.context import TenantStores
from stoker.db.database import delete_in_batches
from stoker.runs.model import StorageSize
from stoker.runs.retention import (
    RetentionDecision,
    compute_longest_window_start,
    decide_retention,
)
from stoker.runs.service import RunHandle
from stoker.runs.settings import RetentionRule

ALL_PLANS = 1_000_000  # more than any retention keeps


async def prune_runs(
    store: TenantStores,
    *,
    rule: RetentionRule,
    zone: str,
    now: datetime,
    current: datetime | None = None,
    dry_run: bool = False,
) -> tuple[list[RetentionDecision], StorageSize]:
    """Delete the runs that a rule releases, or only measure them; return each run's decision.

    The `current` run, which asks for this, stays.
    """
    decisions = decide_retention(
        await store.runs.list_runs(),
        rule=rule,
        now=now,
        current=current,
        window_since=compute_longest_window_start(now, zone),
    )
    going = [each.run.at for each in decisions if each.is_deleted]
    if dry_run:
        return decisions, await store.runs.measure_runs(going)
    return decisions, await delete_old_runs(store, going)


async def apply_retention(
    run: RunHandle, *, rule: RetentionRule, zone: str, now: datetime
) -> StorageSize:
    """Delete the runs that a rule releases, never the current one; return and report their size."""
    _, size = await prune_runs(run.store, rule=rule, zone=zone, now=now, current=run.key.at)
    if size.runs:
        run.observer(
            RunsPruned(
                at=now,
                tenant=run.store.tenant,
                runs=size.runs,
                rows=size.rows,
                bytes=size.bytes,
            )
        )
    return size


async def delete_old_runs(store: TenantStores, ats: Sequence[datetime]) -> StorageSize:
    """Delete these runs, and the plans and work items of runs that no longer exist.

    Returns the size of the runs. What an interruption leaves is deleted by the next call.
    """
    # Read before the runs are: a run is there before its plan and items, so none is a new run's.
    planned = [plan.run for plan in await store.plans.list_plans(limit=ALL_PLANS)]
    worked = await store.work_items.list_item_runs()
    size = await store.runs.delete_runs(ats)
    there = {run.name for run in await store.runs.list_runs()} if planned or worked else set()
    await store.plans.delete_plans([run for run in planned if run not in there])
    for run in worked:
        if run not in there:
            await delete_in_batches(partial(store.work_items.delete_items, run))
    return size
