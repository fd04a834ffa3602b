"""The notebook of one company's night: what each step took, cost, saved and had to do without.

Whatever asks a vendor writes its outcome here, so that nothing is left out of the account.
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
from stoker.budgets.charges import Refused
from stoker.enrichment.model import Unit
from stoker.enrichment.shortfalls import Lack, Shortfall, ended_as, reasons_of, told_by_name
from stoker.vendors.answers import KeepableAnswer
from stoker.vendors.attempts import Failed
from stoker.vendors.client import Answered

AnAnswer = TypeVar("AnAnswer", bound=KeepableAnswer)


class Notebook:
    """What is written down about one unit while it is worked on."""

    def __init__(self, unit: Unit, *, clock: Clock) -> None:
        self.unit = unit
        self._clock = clock
        self._cost: Counter[str] = Counter()
        self._saved: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self.shortfalls: list[Shortfall] = []
        self._remarks: list[str] = []

    @property
    def now(self) -> datetime:
        """What the clock says."""
        return self._clock.now()

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """Time a part of the work; parts of one step add up."""
        began = self._clock.elapsed()
        try:
            yield
        finally:
            took = (self._clock.elapsed() - began).total_seconds()
            self._seconds[step.value] = self._seconds.get(step.value, 0.0) + took

    def took(
        self, step: Step, connector: str, outcome: Answered[AnAnswer] | Refused | Failed
    ) -> AnAnswer | None:
        """Write down how asking a vendor went; return its answer, if there is one."""
        if isinstance(outcome, Answered):
            self.spent(connector, outcome.cost)
            if outcome.note:
                self.remark(f"{step}: {connector} was {outcome.note}")
            for unit, amount in outcome.saved.items():
                self._saved[f"{connector}/{unit}"] += amount
            return outcome.answer
        self.lacks(step, connector, outcome)
        return None

    def spent(self, connector: str, cost: Mapping[str, int]) -> None:
        """Write down what something cost."""
        for unit, amount in cost.items():
            self._cost[f"{connector}/{unit}"] += amount

    def lacks(self, step: Step, connector: str, outcome: Refused | Failed) -> None:
        """Write down that a step goes on without a vendor's answer."""
        if isinstance(outcome, Refused):
            lack, resets_at = Lack.REFUSED, outcome.resets_at
        else:
            lack, resets_at = Lack(outcome.ending.value), None
        because = why_no_answer(connector, outcome)
        self.shortfalls.append(
            Shortfall(step=step, lack=lack, because=because, resets_at=resets_at)
        )

    def remark(self, sentence: str) -> None:
        """Write down something worth knowing that makes the night no worse."""
        self._remarks.append(sentence)

    def ended(self) -> Unit:
        """Return the unit as it ended, by what is written here."""
        remarks = tuple(dict.fromkeys(self._remarks))
        return replace(
            self.unit,
            state=ended_as(self.shortfalls),
            reasons=(*reasons_of(self.shortfalls), *remarks),
            cost=dict(self._cost),
            saved=dict(self._saved),
            seconds={name: round(took, 4) for name, took in self._seconds.items()},
            ended_at=self._clock.now(),
        )


def why_no_answer(connector: str, outcome: Refused | Failed) -> str:
    """Say why a vendor gave no answer."""
    if isinstance(outcome, Refused):
        return f"{connector} was not asked: {outcome.sentence}"
    return told_by_name(outcome.because, vendor=connector)
