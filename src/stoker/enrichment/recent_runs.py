"""Read a tenant's earlier lookups, to measure usage and to know what was asked before.

Reads a few of the latest runs and a few items of each, and the last item of each company.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from stoker.context import TenantStores
from stoker.enrichment.forecast import VendorCapacity
from stoker.enrichment.history import compute_first_lookup_shares, list_vendors_to_ask
from stoker.enrichment.model import KIND, WorkItem, WorkState, is_lookup
from stoker.runs.model import RunState

MAX_NIGHTS, MAX_LOOKUPS = 5, 400

MAX_RUNS_READ = 20  # among them may be runs that had nothing to do, or broke off

_FINISHED_RUN_STATES = (RunState.DONE, RunState.PARTIAL)

_ENDED_STATES = (WorkState.DONE, WorkState.DEGRADED)


async def list_recent_lookups(
    store: TenantStores, *, looks: int = MAX_LOOKUPS
) -> list[Sequence[WorkItem]]:
    """Return items that were carried out in the latest nights that came to their end, newest first.

    Of each night at most so many `looks`, those that came first in its order; a night without any
    is left out. Several of one date count as one of the few: one that goes on with another teaches
    little, and must not crowd out those that chose.
    """
    found: list[Sequence[WorkItem]] = []
    dates: set[date] = set()
    for run in await store.runs.list_runs(kind=KIND, limit=MAX_RUNS_READ):
        if len(dates) == MAX_NIGHTS and run.at.date() not in dates:
            break
        if run.state in _FINISHED_RUN_STATES and run.manifest.counts.get("selected"):
            ended = await store.nights.list_items(run.name, states=_ENDED_STATES, limit=looks)
            items = [item for item in ended if is_lookup(item)]
            if items:
                found.append(items)
                dates.add(run.at.date())
    return found


async def add_first_lookup_shares(
    store: TenantStores,
    units: Sequence[WorkItem],
    rooms: Mapping[str, VendorCapacity],
    *,
    now: datetime,
) -> dict[str, VendorCapacity]:
    """Return the capacities with the share of these lookups that asks each vendor first.

    Decided by the last item of each company, in whichever run.
    """
    last_items = await store.nights.find_last_items([item.company for item in units])
    lookups = []
    for item in units:
        _, last = last_items.get(item.company, ("", None))
        lookups.append((item.depth, list_vendors_to_ask(last, depth=item.depth, now=now)))
    shares = compute_first_lookup_shares(lookups)
    return {
        name: replace(room, first_lookup_shares=shares.get(name, {}))
        for name, room in rooms.items()
    }
