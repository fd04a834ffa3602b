"""The units of a tenant's latest nights, read back to learn from: few nights, few units of each."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.nights import KIND, Unit, UnitState, was_look
from stoker.core.runs import RunState
from stoker.ports import Store

NIGHTS, LOOKS = 5, 400
RUNS_LOOKED_THROUGH = 20  # among them may be runs that had nothing to do, or broke off
_WHOLE = (RunState.DONE, RunState.PARTIAL)
_LOOKED = (UnitState.DONE, UnitState.DEGRADED)


async def latest_nights(store: Store, *, looks: int = LOOKS) -> list[Sequence[Unit]]:
    """Return units that were carried out in the latest nights that came to their end, newest first.

    Of each night at most so many `looks`, those that came first in its order; a night without any
    is left out.
    """
    found: list[Sequence[Unit]] = []
    for run in await store.runs.runs(kind=KIND, limit=RUNS_LOOKED_THROUGH):
        if len(found) == NIGHTS:
            break
        if run.state in _WHOLE and run.manifest.counts.get("selected"):
            ended = await store.nights.units(run.name, states=_LOOKED, limit=looks)
            units = [unit for unit in ended if was_look(unit)]
            found += [units] if units else []
    return found
