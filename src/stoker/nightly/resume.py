"""What earlier runs of the same day left undone, taken over under the new run's name.

A night that was killed or stopped goes on where it was: its units that never ended become the new
run's. Once a run came to its end, what was left out all day is tried again. Answers that were paid
for are kept elsewhere; nothing here knows of money.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.model import AccountStore, CompanyId
from stoker.base.errors import ConfigError
from stoker.budgets.windows import ResetRule, WindowKind, window_at
from stoker.context import Store
from stoker.enrichment.model import Unit, UnitState
from stoker.enrichment.pull_units import CONNECTOR, UNIT
from stoker.nightly.targets import NOT_ENDED, NOT_WHOLE, Leftovers, places, within_places
from stoker.runs.model import Run, RunState, run_at
from stoker.runs.service import OpenRun

PAGE = 1000

_LOOKS_BACK = 20  # runs at first; a day has few

_CAME_TO_ITS_END = (RunState.DONE, RunState.PARTIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Units of earlier runs, as the new one is to do them."""

    run: str  # the latest of those that had them
    units: tuple[Unit, ...]
    paid: frozenset[CompanyId] = frozenset()  # whose look today is paid for already
    in_vain: bool = False  # all of them were tried again today already: others come first


async def left_undone(
    run: OpenRun, *, kind: str, reset: ResetRule, killed_only: bool = False
) -> TakenOver | None:
    """Return what this tenant's runs of the day left undone; None when somebody new may be chosen.

    After a run that did not come to its end, that is what never ended; nothing at all, if that run
    had got through. Otherwise it is whatever another look may make good, whichever run left it.
    With `killed_only`, a run that ended as it should has left nothing: who is next is planned anew.
    """
    day = window_at(WindowKind.DAY, run.clock.now(), reset=reset)
    leftovers, latest, ended_since = Leftovers(paid_as=f"{CONNECTOR}/{UNIT}"), None, False
    for earlier in await _of_the_day(run, kind=kind, began_at=day.start):
        if not await run.store.nights.count_units(earlier.name):
            # It died before it had chosen, had nothing to go on with, or was about something else.
            ended_since = ended_since or (latest is None and earlier.state in _CAME_TO_ITS_END)
            continue
        latest = latest or earlier
        if killed_only and latest.state in _CAME_TO_ITS_END:
            return None
        async for page in _pages(run.store, earlier.name):
            leftovers.add(earlier.name, page)
        if killed_only:
            break
    if latest is None:
        return None
    killed = latest.state not in _CAME_TO_ITS_END
    broken_off = leftovers.left(NOT_ENDED) if killed else ()
    if killed and not broken_off and not ended_since:
        return TakenOver(run=latest.name, units=())  # only its end is missing
    found = broken_off or leftovers.left(NOT_WHOLE)
    if not found:
        return None  # what is lacking, no look makes good; others may have waited
    return TakenOver(
        run=max(each.run for each in found),
        units=_in_order((each.unit, each.run) for each in found),
        paid=frozenset(each.unit.company for each in found if each.paid),
        in_vain=not broken_off and all(each.in_vain for each in found),
    )


async def selection_of(store: Store, name: str, *, again: bool) -> TakenOver:
    """Return exactly the selection of an earlier run, without what is done unless it is wanted.

    Raises ConfigError when there is no such run or it selected nobody.
    """
    if await store.runs.run(run_at(name)) is None:
        raise ConfigError(f"there is no run {name}; see: stoker runs list")
    if not await store.nights.count_units(name):
        raise ConfigError(f"run {name} selected no companies; choose a nightly run that did")
    states = tuple(UnitState) if again else tuple(set(UnitState) - {UnitState.DONE})
    units = [unit async for page in _pages(store, name, states) for unit in page]
    return TakenOver(run=name, units=_in_order((unit, name) for unit in units))


async def fitting_into_the_day(
    accounts: AccountStore,
    units: Sequence[Unit],
    *,
    cap: int,
    limit: int | None,
    began_at: datetime,
    chosen: int = 0,
) -> tuple[Unit, ...]:
    """Return those of these units that the day's cap on companies and the night's limit allow.

    Whoever was looked at since the day began may be looked at again; of the others, only as many
    as there are places left, once so many `chosen` ones have theirs.
    """
    looked_at = await accounts.looked_at_since(began_at) + chosen
    left = None if limit is None else max(limit - chosen, 0)
    known: set[CompanyId] = set()
    if len(units) > places(cap, looked_at_today=looked_at):
        for unit in units:
            dossier = await accounts.dossier(unit.company)
            if dossier and dossier.looked_at and dossier.looked_at >= began_at:
                known.add(unit.company)
    return within_places(units, cap=cap, limit=left, looked_at_today=looked_at, again=known)


async def _of_the_day(run: OpenRun, *, kind: str, began_at: datetime) -> list[Run]:
    """Return the runs of this kind that the day has had before this one, newest first."""
    many = _LOOKS_BACK
    found = await run.store.runs.runs(kind=kind, limit=many)
    while len(found) == many and found[-1].at >= began_at:
        many *= 2
        found = await run.store.runs.runs(kind=kind, limit=many)
    return [each for each in found if began_at <= each.at < run.key.at]


async def _pages(
    store: Store, name: str, states: Collection[UnitState] = ()
) -> AsyncIterator[list[Unit]]:
    after = -1
    while page := await store.nights.units(name, states=tuple(states), after=after, limit=PAGE):
        after = page[-1].place
        yield page


def _in_order(found: Iterable[tuple[Unit, str]]) -> tuple[Unit, ...]:
    return tuple(
        Unit(
            company=unit.company,
            place=place,
            depth=unit.depth,
            because=_because(unit, name),
        )
        for place, (unit, name) in enumerate(found)
    )


def _because(unit: Unit, name: str) -> str:
    return unit.because if unit.because.startswith("left by") else f"left by {name}; {unit.because}"
