"""Signals that somebody else collected, taken over into a tenant's heat; every bad row is told.

Batch by batch, each as a whole: stopping half-way and reading the same file again leaves each
signal counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol
from zoneinfo import ZoneInfo

from stoker.accounts.model import CompanyId
from stoker.base.clock import Clock
from stoker.base.types import Json
from stoker.context import Store
from stoker.heat.heat import HeatRule, Signal
from stoker.heat.signals import signal_in
from stoker.heat.tiers import TierRule

_BATCH = 1000

MOST_BAD = 1000  # told with their reasons; the others are only counted


class Row(Protocol):
    """One row of somebody's table."""

    @property
    def line(self) -> int:
        """Return where it stands."""
        ...

    @property
    def said(self) -> Mapping[str, Json]:
        """Return what it says, by column."""
        ...

    @property
    def wrong(self) -> str:
        """Return why it cannot be read; empty when it can."""
        ...


@dataclass(slots=True, kw_only=True)
class Imported:
    """What came of a table of signals."""

    new: int = 0
    known: int = 0
    accounts: set[CompanyId] = field(default_factory=set)  # whose heat moved
    bad: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)  # line and reason, the first ones

    def refuse(self, line: int, because: str) -> None:
        """Count a bad row, and keep the reason of the first ones."""
        self.bad += 1
        if len(self.told) < MOST_BAD:
            self.told.append((line, because))


async def import_signals(
    store: Store,
    rows: Iterable[Row],
    *,
    heat: HeatRule,
    tiers: TierRule,
    zone: ZoneInfo,
    clock: Clock,
) -> Imported:
    """Take over every good row; return what came of all of them."""
    done, left = Imported(), iter(rows)
    strangers: dict[CompanyId, bool] = {}
    while batch := list(islice(left, _BATCH)):
        now, signals = clock.now(), list[Signal]()
        for row in batch:
            told = row.wrong or signal_in(row.said, zone=zone, now=now)
            if isinstance(told, str):
                done.refuse(row.line, told)
            elif await _stranger(store, told.account, strangers):
                done.refuse(row.line, f"no company {told.account!r} is known to {store.tenant}")
            else:
                signals.append(told)
        added = await store.attention.add_signals(signals, rule=heat, tiers=tiers, now=now)
        done.new += added.new
        done.known += added.known
        done.accounts.update(each.account for each in added.heats)
    return done


async def _stranger(store: Store, account: CompanyId, seen: dict[CompanyId, bool]) -> bool:
    if account not in seen:
        seen[account] = await store.accounts.dossier(account) is None
    return seen[account]
