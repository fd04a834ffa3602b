"""A tenant's earlier looks, read back: to learn from, and to know what need not be asked again.

Of the latest nights a few, and of each a few units; of tonight's companies the last look of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from stoker.context import Store
from stoker.enrichment.forecast import Room
from stoker.enrichment.history import asked_anew, shares_anew
from stoker.enrichment.model import KIND, Unit, UnitState, was_look
from stoker.runs.model import RunState

NIGHTS, LOOKS = 5, 400

RUNS_LOOKED_THROUGH = 20  # among them may be runs that had nothing to do, or broke off

_WHOLE = (RunState.DONE, RunState.PARTIAL)

_LOOKED = (UnitState.DONE, UnitState.DEGRADED)


async def latest_nights(store: Store, *, looks: int = LOOKS) -> list[Sequence[Unit]]:
    """Return units that were carried out in the latest nights that came to their end, newest first.

    Of each night at most so many `looks`, those that came first in its order; a night without any
    is left out. Several of one date count as one of the few: one that goes on with another teaches
    little, and must not crowd out those that chose.
    """
    found: list[Sequence[Unit]] = []
    dates: set[date] = set()
    for run in await store.runs.runs(kind=KIND, limit=RUNS_LOOKED_THROUGH):
        if len(dates) == NIGHTS and run.at.date() not in dates:
            break
        if run.state in _WHOLE and run.manifest.counts.get("selected"):
            ended = await store.nights.units(run.name, states=_LOOKED, limit=looks)
            units = [unit for unit in ended if was_look(unit)]
            if units:
                found.append(units)
                dates.add(run.at.date())
    return found


async def rooms_tonight(
    store: Store, units: Sequence[Unit], rooms: Mapping[str, Room], *, now: datetime
) -> dict[str, Room]:
    """Return the rooms with the share of these looks that asks each connector as a first one does.

    By the last look at each company, whichever run made it.
    """
    looks = []
    for unit in units:
        last = await store.nights.last_look(unit.company)
        looks.append((unit.depth, asked_anew(last[1] if last else None, depth=unit.depth, now=now)))
    shares = shares_anew(looks)
    return {name: replace(room, anew=shares.get(name, {})) for name, room in rooms.items()}
