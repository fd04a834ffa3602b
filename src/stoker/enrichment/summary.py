"""Summarize a run: end states, cost, savings, reasons, CRM rows, and how late it ended.

Reads work items, ledger entries and CRM rows page by page, while the run goes on and afterwards.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoker.base.clock import CLOCK_TOLERANCE
from stoker.base.formats import format_count, format_duration
from stoker.base.types import Step
from stoker.budgets.operator import format_cap, format_cap_amount
from stoker.budgets.statements import RunCost, RunCostCounter
from stoker.context import TenantStores
from stoker.crm.upsert import was_undone
from stoker.enrichment.model import WorkItem, WorkState
from stoker.ledger.read import find_seq_before, read_pages
from stoker.runs.model import Run, RunState, StepTiming, parse_run_name
from stoker.runs.service import RunResult

_URL_PATTERN = re.compile(r"https?://\S{1,500}")

_CAP_SHORTAGE = re.compile(
    r"(\w+/[\w*]+/[\w:]+/\w+) has (?:[0-9]+ of ([0-9]+)|not enough) left, [0-9]+ needed"
)

_STEP_PREFIX = re.compile(rf"\A({'|'.join(Step)}): ")

_VISIT_OUTCOME = re.compile(r"\A[a-z]+, ")

MAX_REASONS = 20  # shown of one run; the most frequent ones

_MAX_COUNTED_REASONS = 500  # reasons counted apart; the rest is counted together

UNFINISHED_STATES = (WorkState.WAITING, WorkState.CLAIMED, WorkState.DROPPED)

_INCOMPLETE_STATES = (WorkState.DEGRADED, WorkState.FAILED, WorkState.UNKNOWN)

_PARTIAL_STATES = (*UNFINISHED_STATES, *_INCOMPLETE_STATES)

_STATE_TEXTS: Mapping[WorkState, str] = {
    WorkState.DEGRADED: "incomplete",
    WorkState.FAILED: "failed",
    WorkState.UNKNOWN: "with a paid call of unknown outcome, retried another day; "
    "see: stoker holds",
    WorkState.DROPPED: "dropped to meet the deadline",
    WorkState.WAITING: "not started",
    WorkState.CLAIMED: "not finished",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in numbers and sentences."""

    states: Mapping[WorkState, int]
    cost: Mapping[str, int]
    saved: Mapping[str, int]
    timings: tuple[StepTiming, ...]
    reasons: tuple[str, ...]
    selected: tuple[str, ...]
    remaining: tuple[str, ...]  # not processed
    lacking: tuple[str, ...] = ()  # processed, but incomplete
    unknown: Mapping[str, int] = field(default_factory=dict)  # it is unknown whether it was spent

    @property
    def counts(self) -> dict[str, int]:
        """The numbers as a manifest has them."""
        found = {f"units_{state}": number for state, number in self.states.items()}
        found |= {f"saved {name}": amount for name, amount in self.saved.items()}
        return found | {f"unknown {name}": amount for name, amount in self.unknown.items()}

    def compute_outcome(self) -> tuple[RunState, str]:
        """Return the run's end state, and a sentence that says why."""
        total = sum(self.states.values())
        parts = [
            f"{self.states[state]:,} of {format_count(total, 'company')} {words}"
            for state, words in _STATE_TEXTS.items()
            if self.states.get(state)
        ]
        partial = any(self.states.get(state) for state in _PARTIAL_STATES)
        return (RunState.PARTIAL if partial else RunState.DONE), "; ".join(parts)


class SummaryBuilder:
    """Adds items up. Memory is that of their ids and of a bounded number of reasons."""

    def __init__(self) -> None:
        self._states: Counter[WorkState] = Counter()
        self._cost: Counter[str] = Counter()
        self._saved: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._items: Counter[str] = Counter()
        self._selected: list[str] = []
        self._remaining: list[str] = []
        self._lacking: list[str] = []

    def add(self, units: Iterable[WorkItem]) -> None:
        """Count these items too."""
        for item in units:
            self._states[item.state] += 1
            self._cost.update(item.cost)
            self._saved.update(item.saved)
            for step, seconds in item.seconds.items():
                self._seconds[step] = self._seconds.get(step, 0.0) + seconds
                self._items[step] += 1
            for sentence in item.reasons:
                reason = _generalize_reason(sentence)
                known = reason in self._reasons or len(self._reasons) < _MAX_COUNTED_REASONS
                self._reasons[reason if known else "other reasons"] += 1
            self._selected.append(item.company)
            if item.state in UNFINISHED_STATES:
                self._remaining.append(item.company)
            if item.state in _INCOMPLETE_STATES:
                self._lacking.append(item.company)

    def build(self) -> RunSummary:
        """Return what it adds up to so far."""
        return RunSummary(
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
                f"{format_count(number, 'company')}: {reason}"
                for reason, number in self._reasons.most_common(MAX_REASONS)
            ),
            selected=tuple(self._selected),
            remaining=tuple(self._remaining),
            lacking=tuple(self._lacking),
        )


def _generalize_reason(sentence: str) -> str:
    """Return a reason without its step, and without the address and amounts of one company."""
    match = _STEP_PREFIX.match(sentence)
    text = sentence[match.end() :] if match else sentence
    if match and match[1] == Step.CRAWL:
        text = _VISIT_OUTCOME.sub("", text)
    # Only a visit is to the company's own site; other steps speak of pages anywhere.
    named = "its site" if match is None or match[1] == Step.CRAWL else "an address"
    return _CAP_SHORTAGE.sub(_format_shortage, _URL_PATTERN.sub(named, text))


def _format_shortage(shortage: re.Match[str]) -> str:
    cap, limit = shortage[1], shortage[2]
    left = (
        f"too little left of {format_cap_amount(cap, int(limit))}" if limit else "too little left"
    )
    return f"{format_cap(cap)} has {left}"


PAGE_SIZE = 500


async def summarize_run(store: TenantStores, run: str) -> RunSummary:
    """Return the totals of a run's items so far, and what it spent by the ledger.

    A kind of run without items has its cost alone. Includes what an item paid for before it was
    released.
    """
    tally = SummaryBuilder()
    async for page in store.work_items.iter_items(run):
        tally.add(page)
    spent = await compute_run_cost(store, run)
    return replace(tally.build(), cost=spent.settled, unknown=spent.unknown)


async def compute_run_cost(
    store: TenantStores, run: str, *, ended: Run | None = None, account: str | None = None
) -> RunCost:
    """Return what a run spent so far, for one account or for all.

    Reads only the entries between the run's start and its end.
    """
    spending = RunCostCounter(run, account=account)
    until = ended.ended_at + CLOCK_TOLERANCE if ended and ended.ended_at else None
    # A run is named by its first free second, which may be later than its first entry.
    start = await find_seq_before(store.ledger, parse_run_name(run) - CLOCK_TOLERANCE)
    async for page in read_pages(store.ledger, after=start):
        spending.add(page)
        if until is not None and page[-1].at > until:
            break
    for key in spending.open_keys:
        if (reservation := await store.budgets.find_reservation(key)) is not None:
            spending.add_open_reservation(reservation)
    return spending.get_cost()


async def summarize_partial_run(store: TenantStores, run: Run) -> RunResult:
    """Return how far an interrupted run got: what it did, spent and wrote, and what remains."""
    summary = await summarize_run(store, run.name)
    written = await count_crm_rows(store, run.name)
    chosen = {"selected": len(summary.selected)} if summary.selected else {}
    return RunResult(
        state=RunState.CANCELLED,
        counts={**chosen, **summary.counts, **written},
        cost=summary.cost,
        selected=summary.selected,
        reasons=summary.reasons,
        remaining=summary.remaining,
        lacking=summary.lacking,
    )


async def count_crm_rows(store: TenantStores, run: str) -> dict[str, int]:
    """Return how many rows a run wrote into the CRM, as manifests count them; empty if none.

    A row that was meant and not read back afterwards may be there or not.
    """
    found: Counter[str] = Counter()
    after = ""
    while page := await store.crm.list_sent_rows(run, after=after, limit=PAGE_SIZE):
        after = page[-1].external_id
        found.update(
            "crm_written" if row.digest else "crm_unknown" for row in page if not was_undone(row)
        )
    return dict(found)


MIN_LATENESS = timedelta(seconds=1)


class LateItems:
    """Counts the companies that were under way at a deadline, and what took their time."""

    def __init__(self, deadline: datetime) -> None:
        self._deadline = deadline
        self._seconds: dict[str, float] = {}
        self.companies = 0

    def add(self, units: Iterable[WorkItem]) -> None:
        """Count these items too, as far as they ended after the deadline."""
        for item in units:
            if item.ended_at is None or item.state is WorkState.DROPPED:
                continue
            if item.ended_at > self._deadline:
                self.companies += 1
                for step, seconds in item.seconds.items():
                    self._seconds[step] = self._seconds.get(step, 0.0) + seconds

    @property
    def slowest_step(self) -> str:
        """The step that took most of their time; empty when that is not known."""
        return max(sorted(self._seconds), key=self._seconds.__getitem__, default="")


def format_lateness(
    *, deadline: datetime, flowed_at: datetime, ended_at: datetime, stragglers: LateItems
) -> str:
    """Return how late a run ended and why; empty when it ended in time.

    `flowed_at` is when its companies were done; after that the CRM was filled.
    """
    if ended_at - deadline < MIN_LATENESS:
        return ""
    late = f"it ended {format_duration(ended_at - deadline)} after its deadline"
    if flowed_at - deadline < MIN_LATENESS:
        return f"{late}, because the CRM was still being filled"
    many = stragglers.companies
    who = f"{format_count(many, 'company')} {'was' if many == 1 else 'were'}"
    most = f", longest in {stragglers.slowest_step}" if stragglers.slowest_step else ""
    return f"{late}, because {who if many else 'companies were'} still in progress{most}"
