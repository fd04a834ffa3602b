"""What goes with old runs: everything a run decided and found is forgotten with it.

Which runs may go is `core.retention`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.ports import Store, Weight

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
