"""How lookups and runs end: the log of one lookup, and the summary of a run.

A cap, a stop or a failing vendor makes a lookup skip a step, with a reason; the other steps
continue. Every step that asks a vendor records the outcome in its log. A summary reads work items,
ledger entries and CRM rows page by page, while the run goes on and afterwards.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from stoker.base.clock import CLOCK_TOLERANCE, Clock
from stoker.base.formats import format_count, format_duration
from stoker.base.types import Step, clean_text
from stoker.budgets.charges import Refusal
from stoker.budgets.statements import RunCost, RunCostCounter
from stoker.context import TenantStores
from stoker.crm.upsert import was_undone
from stoker.enrichment.model import (
    MAX_REASON_LENGTH,
    SkippedStep,
    SkipReason,
    WorkItem,
    WorkState,
    format_shortage,
    to_cause,
)
from stoker.ledger.read import find_seq_before, read_pages
from stoker.runs.model import Run, RunState, StepTiming, parse_run_name
from stoker.runs.service import RunResult
from stoker.vendors.model import CacheableAnswer, VendorAnswer, VendorFailure
from stoker.vendors.table import VENDORS

AnswerT = TypeVar("AnswerT", bound=CacheableAnswer)

RETRY_NOTE = "owed"  # the note that lists steps for a later run to retry

_LEADING_URL = re.compile(r"\Ahttps?://\S{1,2000}(?=\s)")

MAX_REASONS = 12  # of one company

_DEPENDENT_STEPS = {  # what a step finds is taken further by these, however late it is found
    Step.EXTRACT: (Step.CONTACTS, Step.VERIFY),
    Step.CONTACTS: (Step.VERIFY,),
}


def replace_url_with_vendor(because: str, *, vendor: str) -> str:
    """Return why a vendor gave no answer, the vendor named instead of where it was asked."""
    return _LEADING_URL.sub(vendor, because)


def choose_end_state(skipped: Iterable[SkippedStep]) -> WorkState:
    """Return how an item ended that did without these."""
    lacks = {each.cause for each in skipped}
    if SkipReason.UNKNOWN in lacks:
        return WorkState.UNKNOWN
    return WorkState.DEGRADED if lacks - {SkipReason.NEVER} else WorkState.DONE


def is_cut_short(skipped: Iterable[SkippedStep]) -> bool:
    """Return whether a cap or stop refused something that shows what a company is like.

    A vendor that failed was asked. A verdict on an address says nothing new of the company.
    """
    return any(
        each.cause is SkipReason.REFUSED and each.step in (Step.EXTRACT, Step.CONTACTS)
        for each in skipped
    )


def format_steps_to_retry(
    skipped: Iterable[SkippedStep], *, before: Collection[Step], steps: Collection[Step]
) -> str:
    """Return which steps a later run should retry, as a note stores them.

    `before` is what was owed already; of that, what tonight's `steps` do not include still is.
    """
    owed = {each.step for each in skipped if each.cause is not SkipReason.NEVER}
    owed |= {step for step in before if step not in steps}
    return ",".join(step for step in Step if step in owed)


def parse_steps_to_retry(notes: Mapping[str, str]) -> frozenset[Step]:
    """Return which steps an earlier run left to retry, with all that depend on them."""
    known = {step.value for step in Step}
    noted = {Step(name) for name in notes.get(RETRY_NOTE, "").split(",") if name in known}
    return frozenset(noted.union(*(_DEPENDENT_STEPS.get(step, ()) for step in noted)))


class LookupLog:
    """What is written down about one unit while it is worked on."""

    def __init__(self, unit: WorkItem, *, clock: Clock) -> None:
        self.item = unit
        self._clock = clock
        self._cost: Counter[str] = Counter()
        self._saved: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self.skipped: list[SkippedStep] = []
        self.cap_resets_at: datetime | None = None  # when the first full cap has room again
        self._reasons: dict[str, str] = {}  # of the skipped steps: sentence to cause
        self._notes: dict[str, str] = {}

    @property
    def now(self) -> datetime:
        """The current time."""
        return self._clock.now()

    @contextmanager
    def time_step(self, step: str) -> Iterator[None]:
        """Time a part of the work, a step or a vendor's answers; parts of one add up."""
        began = self._clock.elapsed()
        try:
            yield
        finally:
            took = (self._clock.elapsed() - began).total_seconds()
            self._seconds[str(step)] = self._seconds.get(str(step), 0.0) + took

    def record_answer(
        self, step: Step, connector: str, outcome: VendorAnswer[AnswerT] | Refusal | VendorFailure
    ) -> AnswerT | None:
        """Write down how asking a vendor went; return its answer, if there is one."""
        if isinstance(outcome, VendorAnswer):
            self.record_cost(connector, outcome.cost)
            if outcome.note:
                self.add_note(f"{connector} was {outcome.note}", step=step)
            for item, amount in outcome.saved.items():
                self._saved[f"{connector}/{item}"] += amount
            return outcome.answer
        self.record_failure(step, connector, outcome)
        return None

    def record_cost(self, connector: str, cost: Mapping[str, int]) -> None:
        """Write down what something cost."""
        for item, amount in cost.items():
            self._cost[f"{connector}/{item}"] += amount

    def record_failure(self, step: Step, connector: str, outcome: Refusal | VendorFailure) -> None:
        """Record that a step continues without a vendor's answer."""
        reason = format_missing_answer(connector, outcome)
        if isinstance(outcome, Refusal):
            shortage = format_missing_answer(connector, outcome, in_general=True)
            self.record_skip(step, SkipReason.REFUSED, connector, reason, cause=shortage)
            resets = [at for at in (self.cap_resets_at, outcome.resets_at) if at is not None]
            self.cap_resets_at = min(resets, default=None)
        else:
            self.record_skip(step, SkipReason(outcome.kind.value), connector, reason)

    def record_skip(
        self, step: Step, why: SkipReason, connector: str, reason: str, *, cause: str = ""
    ) -> None:
        """Record that a step, or a part of it, was skipped; `cause` as in `add_note`."""
        self.skipped.append(SkippedStep(step=step, cause=why, connector=connector))
        sentence = clean_text(f"{step}: {reason}")[:MAX_REASON_LENGTH]
        self._reasons.setdefault(sentence, to_cause(cause or reason, step))

    def add_note(self, text: str, *, step: Step | None = None, cause: str = "") -> None:
        """Add a note that does not change how the item ends.

        `cause` is the same without what is this company's own, where that differs.
        """
        sentence = f"{step}: {text}" if step else text
        self._notes.setdefault(sentence, to_cause(cause or text, step))

    def build_result(self) -> WorkItem:
        """Return the item as it ended, by what is written here."""
        reasons = {**dict(list(self._reasons.items())[:MAX_REASONS]), **self._notes}
        return replace(
            self.item,
            state=choose_end_state(self.skipped),
            reasons=tuple(reasons),
            causes=tuple(reasons.values()),
            skipped=tuple(dict.fromkeys(self.skipped)),
            cost=dict(self._cost),
            saved=dict(self._saved),
            seconds={name: round(took, 4) for name, took in self._seconds.items()},
            ended_at=self._clock.now(),
        )


def format_missing_answer(
    connector: str, outcome: Refusal | VendorFailure, *, in_general: bool = False
) -> str:
    """Say why a vendor gave no answer; `in_general`, without the amounts of one request."""
    if isinstance(outcome, VendorFailure):
        return replace_url_with_vendor(outcome.reason, vendor=connector)
    why = outcome.message
    if in_general and outcome.cap:
        why = format_shortage(outcome.cap, outcome.limit)
    return f"{connector} was not called: {why}"


MAX_REASONS_SHOWN = 20  # shown of one run; the most frequent ones

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
    sources: tuple[StepTiming, ...]  # that were asked, in the order of the steps
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


# Where the time of a source is that of a whole step.
_SOURCE_TIMES = {"zerobounce": Step.VERIFY.value}


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
            for reason in item.causes or item.reasons:
                known = reason in self._reasons or len(self._reasons) < _MAX_COUNTED_REASONS
                self._reasons[reason if known else "other reasons"] += 1
            self._selected.append(item.company)
            if item.state in UNFINISHED_STATES:
                self._remaining.append(item.company)
            if item.state in _INCOMPLETE_STATES:
                self._lacking.append(item.company)

    def _list_timings(self, names: Mapping[str, str]) -> tuple[StepTiming, ...]:
        return tuple(
            StepTiming(step=name, seconds=round(self._seconds[key], 3), items=self._items[key])
            for name, key in names.items()
            if key in self._seconds
        )

    def build(self) -> RunSummary:
        """Return what it adds up to so far."""
        return RunSummary(
            states=dict(self._states),
            cost=dict(sorted(self._cost.items())),
            saved=dict(sorted(self._saved.items())),
            timings=self._list_timings({step.value: step.value for step in Step}),
            sources=self._list_timings({name: _SOURCE_TIMES.get(name, name) for name in VENDORS}),
            reasons=tuple(
                f"{format_count(number, 'company')}: {reason}"
                for reason, number in self._reasons.most_common(MAX_REASONS_SHOWN)
            ),
            selected=tuple(self._selected),
            remaining=tuple(self._remaining),
            lacking=tuple(self._lacking),
        )


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


_STEP_NAMES = frozenset(step.value for step in Step)

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
                    if step in _STEP_NAMES:
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
