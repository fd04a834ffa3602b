"""What was spent under a run, by the entries of a ledger: what was settled, what nobody knows.

Entries are added up as they are read. Which of them are read, and how a promise that is still open
stands by now, is told by whoever reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.core.holds import Hold, Phase
from stoker.core.ledger import Entry
from stoker.core.money_notes import MoneyKind
from stoker.core.picking import object_in
from stoker.core.selecting import Selection, said

_OPENS = (MoneyKind.RESERVED.value, MoneyKind.UNCERTAIN.value)
_CLOSES = (MoneyKind.SETTLED.value, MoneyKind.RELEASED.value, MoneyKind.EXPIRED.value)
_MAYBE_SPENT = (Phase.SENT, Phase.UNCERTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent, by connector and unit: tavily/calls."""

    settled: Mapping[str, int]
    unknown: Mapping[str, int]  # promised besides, and nobody knows what became of it


class Spending:
    """Adds up what a run spent, for one account or for all. Memory is that of open promises."""

    def __init__(self, run: str, *, account: str | None = None) -> None:
        self._wanted = Selection(run=run, account=account)
        self._settled: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._open: dict[str, None] = {}

    @property
    def open(self) -> tuple[str, ...]:
        """The keys of promises of which the entries so far do not say how they ended."""
        return tuple(self._open)

    def add(self, entries: Iterable[Entry]) -> None:
        """Count these entries too; they come in the ledger's order."""
        for entry in entries:
            if not self._wanted.wants(entry):
                continue
            if entry.kind in _OPENS:
                self._open[entry.subject] = None
            elif entry.kind in _CLOSES:
                self._open.pop(entry.subject, None)
            if entry.kind == MoneyKind.SETTLED:
                actual = object_in(entry.data.get("actual"))
                _count(self._settled, said(entry, "connector"), actual)

    def stands(self, hold: Hold) -> None:
        """Count an open promise as it stands by now: one never sent is not spent."""
        if hold.key not in self._open:
            return
        del self._open[hold.key]
        if hold.phase is Phase.SETTLED:
            _count(self._settled, hold.connector, hold.actual)
        elif hold.phase in _MAYBE_SPENT:
            _count(self._unknown, hold.connector, hold.amounts)

    def spent(self) -> Spent:
        """Return what it comes to so far; what is still open is not in it."""
        return Spent(
            settled=dict(sorted(self._settled.items())), unknown=dict(sorted(self._unknown.items()))
        )


def _count(total: Counter[str], connector: str, amounts: Mapping[str, object]) -> None:
    for unit, amount in amounts.items():
        if isinstance(amount, int):
            total[f"{connector}/{unit}"] += amount
