"""Log of one lookup: time, cost, savings and skipped steps; what follows for its end and later.

A cap, a stop or a failing vendor makes a lookup skip a step, with a reason; the other steps
continue. Every step that asks a vendor records the outcome here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from stoker.base.clock import Clock
from stoker.base.types import Step, clean_text
from stoker.budgets.charges import Refusal
from stoker.enrichment.model import SkippedStep, SkipReason, WorkItem, WorkState
from stoker.vendors.model import CacheableAnswer, VendorAnswer, VendorFailure

AnswerT = TypeVar("AnswerT", bound=CacheableAnswer)

RETRY_NOTE = "owed"  # the note that lists steps for a later run to retry

_LEADING_URL = re.compile(r"\Ahttps?://\S{1,2000}(?=\s)")

MAX_REASON_LENGTH = 300  # characters

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
        self._reasons: list[str] = []  # of the skipped steps
        self._notes: list[str] = []

    @property
    def now(self) -> datetime:
        """The current time."""
        return self._clock.now()

    @contextmanager
    def time_step(self, step: Step) -> Iterator[None]:
        """Time a part of the work; parts of one step add up."""
        began = self._clock.elapsed()
        try:
            yield
        finally:
            took = (self._clock.elapsed() - began).total_seconds()
            self._seconds[step.value] = self._seconds.get(step.value, 0.0) + took

    def record_answer(
        self, step: Step, connector: str, outcome: VendorAnswer[AnswerT] | Refusal | VendorFailure
    ) -> AnswerT | None:
        """Write down how asking a vendor went; return its answer, if there is one."""
        if isinstance(outcome, VendorAnswer):
            self.record_cost(connector, outcome.cost)
            if outcome.note:
                self.add_note(f"{step}: {connector} was {outcome.note}")
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
            self.record_skip(step, SkipReason.REFUSED, connector, reason)
            resets = [at for at in (self.cap_resets_at, outcome.resets_at) if at is not None]
            self.cap_resets_at = min(resets, default=None)
        else:
            self.record_skip(step, SkipReason(outcome.kind.value), connector, reason)

    def record_skip(self, step: Step, cause: SkipReason, connector: str, reason: str) -> None:
        """Record that a step, or a part of it, was skipped."""
        self.skipped.append(SkippedStep(step=step, cause=cause, connector=connector))
        self._reasons.append(clean_text(f"{step}: {reason}")[:MAX_REASON_LENGTH])

    def add_note(self, sentence: str) -> None:
        """Add a note that does not change how the item ends."""
        self._notes.append(sentence)

    def build_result(self) -> WorkItem:
        """Return the item as it ended, by what is written here."""
        reasons = list(dict.fromkeys(self._reasons))[:MAX_REASONS]
        return replace(
            self.item,
            state=choose_end_state(self.skipped),
            reasons=(*reasons, *dict.fromkeys(self._notes)),
            skipped=tuple(dict.fromkeys(self.skipped)),
            cost=dict(self._cost),
            saved=dict(self._saved),
            seconds={name: round(took, 4) for name, took in self._seconds.items()},
            ended_at=self._clock.now(),
        )


def format_missing_answer(connector: str, outcome: Refusal | VendorFailure) -> str:
    """Say why a vendor gave no answer."""
    if isinstance(outcome, Refusal):
        return f"{connector} was not called: {outcome.message}"
    return replace_url_with_vendor(outcome.reason, vendor=connector)
