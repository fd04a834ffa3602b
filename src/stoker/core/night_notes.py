"""What a night adds up to: how its units ended, what they cost and saved, and why not more.

Sums over units as they are written down, page by page. What is told to whom is not known here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stoker.core.nights import Step, Unit, UnitState
from stoker.core.runs import RunState, StepTiming

_ADDRESS = re.compile(r"https?://\S{1,500}")
_ROOM = re.compile(r"has (?:[0-9]+ of ([0-9]+)|not enough) left, [0-9]+ needed")
_ELSEWHERE = frozenset(Step) - {Step.CRAWL}
MOST_REASONS = 20  # told of one night; the most frequent ones
_MOST_KEPT = 500  # reasons counted apart; the rest is counted together
_LEFT = (UnitState.WAITING, UnitState.TAKEN, UnitState.SHED)
_LACKING = (UnitState.DEGRADED, UnitState.POISONED, UnitState.UNKNOWN)
_NOT_WHOLE = (*_LEFT, *_LACKING)
_WORDS: Mapping[UnitState, str] = {
    UnitState.DEGRADED: "did without something",
    UnitState.POISONED: "could not be worked on",
    UnitState.UNKNOWN: "may have paid for an answer that was lost and is asked for another day; "
    "see: stoker holds",
    UnitState.SHED: "were left out so that the rest was done in time",
    UnitState.WAITING: "were not begun",
    UnitState.TAKEN: "were not finished",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A night in numbers and sentences."""

    states: Mapping[UnitState, int]
    cost: Mapping[str, int]
    saved: Mapping[str, int]
    timings: tuple[StepTiming, ...]
    reasons: tuple[str, ...]
    selected: tuple[str, ...]
    remaining: tuple[str, ...]  # not worked on
    lacking: tuple[str, ...] = ()  # worked on, but not wholly
    unknown: Mapping[str, int] = field(default_factory=dict)  # nobody knows whether it was spent

    @property
    def counts(self) -> dict[str, int]:
        """The numbers as a manifest has them."""
        found = {f"units_{state}": number for state, number in self.states.items()}
        found |= {f"saved {name}": amount for name, amount in self.saved.items()}
        return found | {f"unknown {name}": amount for name, amount in self.unknown.items()}

    def ending(self) -> tuple[RunState, str]:
        """Return how a night ended that adds up to this, and a sentence saying why."""
        total = sum(self.states.values())
        parts = [
            f"{self.states[state]} of {total} {words}"
            for state, words in _WORDS.items()
            if self.states.get(state)
        ]
        partial = any(self.states.get(state) for state in _NOT_WHOLE)
        return (RunState.PARTIAL if partial else RunState.DONE), "; ".join(parts)


class Tally:
    """Adds units up. Memory is that of their ids and of a bounded number of reasons."""

    def __init__(self) -> None:
        self._states: Counter[UnitState] = Counter()
        self._cost: Counter[str] = Counter()
        self._saved: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._items: Counter[str] = Counter()
        self._selected: list[str] = []
        self._remaining: list[str] = []
        self._lacking: list[str] = []

    def add(self, units: Iterable[Unit]) -> None:
        """Count these units too."""
        for unit in units:
            self._states[unit.state] += 1
            self._cost.update(unit.cost)
            self._saved.update(unit.saved)
            for step, seconds in unit.seconds.items():
                self._seconds[step] = self._seconds.get(step, 0.0) + seconds
                self._items[step] += 1
            for sentence in unit.reasons:
                reason = _kind_of(sentence)
                known = reason in self._reasons or len(self._reasons) < _MOST_KEPT
                self._reasons[reason if known else "other reasons"] += 1
            self._selected.append(unit.company)
            if unit.state in _LEFT:
                self._remaining.append(unit.company)
            if unit.state in _LACKING:
                self._lacking.append(unit.company)

    def summary(self) -> Summary:
        """Return what it adds up to so far."""
        return Summary(
            states=dict(self._states),
            cost=dict(sorted(self._cost.items())),
            saved=dict(sorted(self._saved.items())),
            timings=tuple(
                StepTiming(
                    step=step, seconds=round(self._seconds[step], 3), items=self._items[step]
                )
                for step in Step
                if step in self._seconds
            ),
            reasons=tuple(
                f"{number} × {reason}" for reason, number in self._reasons.most_common(MOST_REASONS)
            ),
            selected=tuple(self._selected),
            remaining=tuple(self._remaining),
            lacking=tuple(self._lacking),
        )


def _kind_of(sentence: str) -> str:
    """Return a reason without what only its company is told: which address, how much was left."""
    step = sentence.partition(":")[0]
    # Only a visit is to the company's own site; other steps speak of pages anywhere.
    named = "an address" if step in _ELSEWHERE else "its site"
    return _ROOM.sub(_too_little, _ADDRESS.sub(named, sentence))


def _too_little(found: re.Match[str]) -> str:
    return f"had too little of its {found[1]} left" if found[1] else "had not enough left"
