"""What an earlier run of the same day left undone, taken over under the new run's name.

A night that was killed or stopped goes on where it was: its units that never ended become the new
run's. Of one that ended PARTIAL, what was left out is tried again. Answers that were paid for are
kept elsewhere; nothing here knows of money.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stoker.core.budget_windows import ResetRule, WindowKind, window_at
from stoker.core.companies import CompanyId
from stoker.core.nights import Unit, UnitState
from stoker.core.runs import Run, RunState, run_at
from stoker.engine.running import OpenRun
from stoker.errors import ConfigError
from stoker.ports import Store

PAGE = 1000
_LOOKS_BACK = 20  # runs; a day has few
_NOT_ENDED = (UnitState.WAITING, UnitState.TAKEN)
_NOT_BEGUN = {UnitState.WAITING, UnitState.SHED}
_LEFT_OUT = (*_NOT_ENDED, UnitState.SHED, UnitState.DEGRADED, UnitState.POISONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Units of an earlier run, as the new one is to do them."""

    run: str
    units: tuple[Unit, ...]
    paid: frozenset[CompanyId] = frozenset()  # whose look today is paid for already


async def left_undone(
    run: OpenRun, *, kind: str, reset: ResetRule, killed_only: bool = False
) -> TakenOver | None:
    """Return what the latest run of this tenant's day left undone; None when there is none such.

    With `killed_only`, one that ended as it should has left nothing: who is next is planned anew.
    """
    day = window_at(WindowKind.DAY, run.clock.now(), reset=reset)
    for earlier in await run.store.runs.runs(kind=kind, limit=_LOOKS_BACK):
        if earlier.at >= run.key.at:
            continue
        if earlier.at < day.start:
            return None
        if not await run.store.nights.count_units(earlier.name):
            continue  # it died before it had chosen, or was about something else
        if earlier.state is RunState.DONE or (killed_only and earlier.state is RunState.PARTIAL):
            return None
        states = _states(earlier)
        units = await _units(run.store, earlier.name, states)
        if not units and earlier.state is RunState.PARTIAL:
            return None  # what it lacks, no look makes good; others may have waited
        begun = await _units(run.store, earlier.name, set(states) - _NOT_BEGUN)
        paid = frozenset(unit.company for unit in begun)
        return TakenOver(run=earlier.name, units=units, paid=paid)
    return None


async def selection_of(store: Store, name: str, *, again: bool) -> TakenOver:
    """Return exactly the selection of an earlier run, without what is done unless it is wanted.

    Raises ConfigError when there is no such run or it selected nobody.
    """
    if await store.runs.run(run_at(name)) is None:
        raise ConfigError(f"there is no run {name}; see: stoker runs list")
    if not await store.nights.count_units(name):
        raise ConfigError(f"run {name} selected no companies; choose a nightly run that did")
    states = tuple(UnitState) if again else tuple(set(UnitState) - {UnitState.DONE})
    return TakenOver(run=name, units=await _units(store, name, states))


def _states(earlier: Run) -> Collection[UnitState]:
    return _LEFT_OUT if earlier.state is RunState.PARTIAL else _NOT_ENDED


async def _units(store: Store, name: str, states: Collection[UnitState]) -> tuple[Unit, ...]:
    units: list[Unit] = []
    after = -1
    while page := await store.nights.units(name, states=tuple(states), after=after, limit=PAGE):
        after = page[-1].place
        units += [
            Unit(
                company=unit.company,
                place=len(units) + nth,
                depth=unit.depth,
                because=_because(unit, name),
            )
            for nth, unit in enumerate(page)
        ]
    return tuple(units)


def _because(unit: Unit, name: str) -> str:
    return unit.because if unit.because.startswith("left by") else f"left by {name}; {unit.because}"
