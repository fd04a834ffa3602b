"""Import signals from a table into a tenant's heat, and list the rows that were rejected.

Each batch is atomic: an import that stops half-way and is repeated counts each signal once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from zoneinfo import ZoneInfo

from stoker.accounts.model import CompanyId
from stoker.base.clock import Clock
from stoker.context import TenantStores
from stoker.heat.heat import HeatRule, Signal
from stoker.heat.signal_files import SignalRow
from stoker.heat.signals import parse_signal
from stoker.heat.tiers import TierRule

BATCH_SIZE = 1000

MAX_ERRORS_SHOWN = 1000  # listed with their reasons; the others are only counted


@dataclass(slots=True, kw_only=True)
class ImportResult:
    """What came of a table of signals."""

    new: int = 0
    known: int = 0
    accounts: set[CompanyId] = field(default_factory=set)  # whose heat moved
    rejected: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)  # line and reason, the first ones

    def add_error(self, line: int, because: str) -> None:
        """Count a bad row, and keep the reason of the first ones."""
        self.rejected += 1
        if len(self.errors) < MAX_ERRORS_SHOWN:
            self.errors.append((line, because))


async def import_signals(
    store: TenantStores,
    rows: Iterable[SignalRow],
    *,
    heat: HeatRule,
    tiers: TierRule,
    zone: ZoneInfo,
    clock: Clock,
) -> ImportResult:
    """Take over every good row; return what came of all of them."""
    done, left = ImportResult(), iter(rows)
    checked: dict[CompanyId, bool] = {}
    while batch := list(islice(left, BATCH_SIZE)):
        now, signals = clock.now(), list[Signal]()
        for row in batch:
            parsed = row.wrong or parse_signal(row.cells, zone=zone, now=now)
            if isinstance(parsed, str):
                done.add_error(row.line, parsed)
            elif await _is_unknown_account(store, parsed.account, checked):
                done.add_error(
                    row.line, f"no company {parsed.account!r} is known to {store.tenant}"
                )
            else:
                signals.append(parsed)
        added = await store.attention.add_signals(signals, rule=heat, tiers=tiers, now=now)
        done.new += added.new
        done.known += added.known
        done.accounts.update(each.account for each in added.heats)
    return done


async def _is_unknown_account(
    store: TenantStores, account: CompanyId, seen: dict[CompanyId, bool]
) -> bool:
    if account not in seen:
        seen[account] = await store.accounts.find_company_record(account) is None
    return seen[account]
