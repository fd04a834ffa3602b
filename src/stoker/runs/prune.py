"""Delete old runs with their plans."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.base.events import RunsPruned
from stoker.context import TenantStores
from stoker.runs import retention
from stoker.runs.model import StorageSize
from stoker.runs.retention import RetentionDecision
from stoker.runs.service import RunHandle
from stoker.runs.settings import RetentionRule

ALL_PLANS = 1_000_000  # more than any retention keeps


async def delete_old_runs(store: TenantStores, ats: Sequence[datetime]) -> StorageSize:
    """Delete these runs, and the plans and work items of runs that no longer exist.

    Returns the size of the runs. What an interruption leaves is deleted by the next call.
    """
    # Read before the runs are: a run is there before its plan and items, so none is a new run's.
    planned = [plan.run for plan in await store.attention.list_plans(limit=ALL_PLANS)]
    worked = await store.nights.list_item_runs()
    size = await store.runs.delete_runs(ats)
    there = {run.name for run in await store.runs.list_runs()} if planned or worked else set()
    await store.attention.delete_plans([run for run in planned if run not in there])
    for run in worked:
        while run not in there and await store.nights.delete_items(run):
            pass
    return size


async def prune_runs(
    store: TenantStores, *, rule: RetentionRule, zone: str, now: datetime, dry_run: bool
) -> tuple[list[RetentionDecision], StorageSize]:
    """Delete the runs that a rule releases, or only measure them; return each run's decision."""
    decisions = retention.decide_retention(
        await store.runs.list_runs(),
        rule=rule,
        now=now,
        current=None,
        window_since=retention.compute_longest_window_start(now, zone),
    )
    going = [each.run.at for each in decisions if each.is_deleted]
    if dry_run:
        return decisions, await store.runs.measure_runs(going)
    return decisions, await delete_old_runs(store, going)


async def apply_retention(
    run: RunHandle, *, rule: RetentionRule, zone: str, now: datetime
) -> StorageSize:
    """Delete the runs that a rule releases, never the current one; return their size."""
    going = retention.list_deletable_runs(
        await run.store.runs.list_runs(),
        rule=rule,
        now=now,
        current=run.key.at,
        window_since=retention.compute_longest_window_start(now, zone),
    )
    size = await delete_old_runs(run.store, [old.at for old in going])
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
