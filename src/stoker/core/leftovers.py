"""What a day's runs left undone: each company by its latest unit, whoever chose it and when.

A later run of the day that was held to fewer companies takes nothing away from what an earlier one
left. What was tried again in vain is told apart, so that it keeps nobody else waiting. How many of
them fit into the day is `targets`' business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from stoker.core.companies import CompanyId
from stoker.core.nights import Unit, UnitState, was_look

NOT_ENDED = frozenset({UnitState.WAITING, UnitState.TAKEN})
NOT_WHOLE = NOT_ENDED | {UnitState.SHED, UnitState.DEGRADED, UnitState.POISONED}
"""What another look of the same day may make good; an outcome that is not known is no such thing"""

TRIES = 2  # of a day, after which whoever was not tried yet comes first
_IN_VAIN = frozenset({UnitState.DEGRADED, UnitState.POISONED})


@dataclass(slots=True)
class _Company:
    unit: Unit | None = None  # its latest of the day; one that found nobody to ask is none
    run: str = ""
    age: int = 0  # how many runs of the day came after that one
    tries: int = 0  # that did not finish it, since one that did
    paid: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A unit that an earlier run of the day left."""

    unit: Unit
    run: str
    tries: int = 0  # of this day that did not finish it
    paid: bool = False  # whether a look at it today may be paid for already

    @property
    def in_vain(self) -> bool:
        """Whether it was tried often enough for others to come first."""
        return self.tries >= TRIES


class Leftovers:
    """Gathers the units of one day's runs, the newest run first, and says what is left.

    A look that was paid for has a cost of this name.
    """

    def __init__(self, *, paid_as: str = "crawl/pull_units") -> None:
        self._paid_as = paid_as
        self._companies: dict[CompanyId, _Company] = {}
        self._runs: list[str] = []

    def add(self, run: str, units: Iterable[Unit]) -> None:
        """Consider some units of a run; one run after the other, from the newest to the oldest."""
        if run not in self._runs:
            self._runs.append(run)
        age = len(self._runs) - 1
        for unit in units:
            known = self._companies.setdefault(unit.company, _Company())
            # Whoever only scores or verifies, or finds nobody to ask, has not done a look's work.
            idle = unit.state is UnitState.DONE and not was_look(unit)
            # Whoever died over it may have paid; its end, which would say so, is missing.
            known.paid |= unit.state is UnitState.TAKEN or self._paid_as in unit.cost
            if known.finished:
                continue
            known.tries += idle or unit.state in _IN_VAIN
            known.finished = not idle and unit.state not in NOT_WHOLE
            if known.unit is None and not idle:
                known.unit, known.run, known.age = unit, run, age

    def left(self, states: Collection[UnitState] = NOT_WHOLE) -> tuple[Leftover, ...]:
        """Return what is left in these states, in the order it is to be gone on with.

        First what was not tried yet, in the order of the latest run that had it; then what was
        tried, the longest ago first; and at last what was tried in vain, in the same way.
        """
        found = [
            (_turn(known), Leftover(unit=unit, run=known.run, tries=known.tries, paid=known.paid))
            for known in self._companies.values()
            if (unit := known.unit) is not None and unit.state in states
        ]
        return tuple(leftover for _, leftover in sorted(found, key=lambda each: each[0]))


def _turn(known: _Company) -> tuple[int, int, int, str]:
    tries = min(known.tries, TRIES)
    place, company = (known.unit.place, known.unit.company) if known.unit else (0, "")
    return (tries, -known.age if tries else known.age, place, company)
