"""Log of one lookup: the time, cost, savings and skipped steps of each step.

Every step that asks a vendor records the outcome here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from stoker.base.clock import Clock
from stoker.base.types import Step
from stoker.budgets.charges import Refusal
from stoker.enrichment.model import WorkItem
from stoker.enrichment.skipped_steps import (
    SkippedStep,
    SkipReason,
    choose_end_state,
    list_reasons,
    replace_url_with_vendor,
)
from stoker.vendors.model import CacheableAnswer, VendorAnswer, VendorFailure

AnswerT = TypeVar("AnswerT", bound=CacheableAnswer)


class LookupLog:
    """What is written down about one unit while it is worked on."""

    def __init__(self, unit: WorkItem, *, clock: Clock) -> None:
        self.item = unit
        self._clock = clock
        self._cost: Counter[str] = Counter()
        self._saved: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self.skipped_steps: list[SkippedStep] = []
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
        """Write down that a step goes on without a vendor's answer."""
        if isinstance(outcome, Refusal):
            lack, resets_at = SkipReason.REFUSED, outcome.resets_at
        else:
            lack, resets_at = SkipReason(outcome.kind.value), None
        because = format_missing_answer(connector, outcome)
        self.skipped_steps.append(
            SkippedStep(step=step, cause=lack, reason=because, resets_at=resets_at)
        )

    def add_note(self, sentence: str) -> None:
        """Write down something worth knowing that makes the night no worse."""
        self._notes.append(sentence)

    def build_result(self) -> WorkItem:
        """Return the item as it ended, by what is written here."""
        remarks = tuple(dict.fromkeys(self._notes))
        return replace(
            self.item,
            state=choose_end_state(self.skipped_steps),
            reasons=(*list_reasons(self.skipped_steps), *remarks),
            cost=dict(self._cost),
            saved=dict(self._saved),
            seconds={name: round(took, 4) for name, took in self._seconds.items()},
            ended_at=self._clock.now(),
        )


def format_missing_answer(connector: str, outcome: Refusal | VendorFailure) -> str:
    """Say why a vendor gave no answer."""
    if isinstance(outcome, Refusal):
        return f"{connector} was not asked: {outcome.message}"
    return replace_url_with_vendor(outcome.reason, vendor=connector)
