"""What a night adds up to: how its units ended, what they cost and saved, and why not more.

Sums over units as they are written down, page by page. What is told to whom is not known here.

What a run comes to, read back page by page: while it goes on, and afterwards.

Its units, what the ledger says was spent under it, and what it wrote into the CRM.

How much later than its deadline a night ended, and because of what was under way then.

Goes by units as they are written down, page by page. What to leave out so that a night is through
in time is decided in `forecast`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoker.base.clock import CLOCK_TOLERANCE
from stoker.base.types import Step
from stoker.budgets.statements import Spending, Spent
from stoker.calendar.timezones import duration_text
from stoker.context import Store
from stoker.crm.upsert import was_taken_back
from stoker.enrichment.model import Unit, UnitState
from stoker.ledger.read import pages, seq_before
from stoker.runs.model import Run, RunState, StepTiming, run_at

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


PAGE = 500


async def added_up(store: Store, run: str) -> Summary:
    """Return what a run's units come to so far, and what the ledger says was spent under it.

    A kind of run that has no units comes to its cost alone. What a unit paid for before it was
    given back is in it too.
    """
    tally, after = Tally(), -1
    while page := await store.nights.units(run, after=after, limit=PAGE):
        tally.add(page)
        after = page[-1].place
    spent = await spent_under(store, run)
    return replace(tally.summary(), cost=spent.settled, unknown=spent.unknown)


async def spent_under(
    store: Store, run: str, *, ended: Run | None = None, account: str | None = None
) -> Spent:
    """Return what was spent under a run, for one account or for all, as it is known now.

    Reads only what was entered since the run began, and of one that ended, until then.
    """
    spending = Spending(run, account=account)
    until = ended.ended_at + CLOCK_TOLERANCE if ended and ended.ended_at else None
    # A run is named by its first free second, which may be later than its first entry.
    start = await seq_before(store.ledger, run_at(run) - CLOCK_TOLERANCE)
    async for page in pages(store.ledger, after=start):
        spending.add(page)
        if until is not None and page[-1].at > until:
            break
    for key in spending.open:
        if (hold := await store.money.hold(key)) is not None:
            spending.stands(hold)
    return spending.spent()


async def written_by(store: Store, run: str) -> dict[str, int]:
    """Return how many rows a run wrote into the CRM, as manifests count them; empty if none.

    A row that was meant and not read back afterwards may be there or not.
    """
    found: Counter[str] = Counter()
    after = ""
    while page := await store.nights.sent_by(run, after=after, limit=PAGE):
        after = page[-1].external_id
        found.update(
            "crm_written" if row.digest else "crm_unknown"
            for row in page
            if not was_taken_back(row)
        )
    return dict(found)


WORTH_TELLING = timedelta(seconds=1)


class Stragglers:
    """Counts the companies that were under way at a deadline, and what took their time."""

    def __init__(self, deadline: datetime) -> None:
        self._deadline = deadline
        self._seconds: dict[str, float] = {}
        self.companies = 0

    def add(self, units: Iterable[Unit]) -> None:
        """Count these units too, as far as they ended after the deadline."""
        for unit in units:
            if unit.ended_at is None or unit.state is UnitState.SHED:
                continue
            if unit.ended_at > self._deadline:
                self.companies += 1
                for step, seconds in unit.seconds.items():
                    self._seconds[step] = self._seconds.get(step, 0.0) + seconds

    @property
    def slowest(self) -> str:
        """The step that took most of their time; empty when that is not known."""
        return max(sorted(self._seconds), key=self._seconds.__getitem__, default="")


def told_late(
    *, deadline: datetime, flowed_at: datetime, ended_at: datetime, stragglers: Stragglers
) -> str:
    """Say how late a night ended and because of what; empty when it ended in time.

    `flowed_at` is when its companies were through; after that the CRM was filled.
    """
    if ended_at - deadline < WORTH_TELLING:
        return ""
    late = f"it ended {duration_text(ended_at - deadline)} after its deadline"
    if flowed_at - deadline < WORTH_TELLING:
        return f"{late}, because the CRM was still being filled"
    many = stragglers.companies
    who = {0: "companies were", 1: "1 company was"}.get(many, f"{many} companies were")
    most = f", longest in {stragglers.slowest}" if stragglers.slowest else ""
    return f"{late}, because {who} still under way{most}"
