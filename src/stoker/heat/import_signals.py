"""Import signals from a table into a tenant's heat, and list the rows that were rejected.

Each batch is atomic: an import that stops half-way and is repeated counts each signal once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from stoker.accounts.model import CompanyId
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError
from stoker.context import TenantStores
from stoker.files.tables import JSON_LINES_SUFFIXES, TableRow, read_table
from stoker.heat.model import Signal
from stoker.heat.settings import HeatRule, TierRule
from stoker.heat.signals import REQUIRED_COLUMNS, SIGNAL_COLUMNS, parse_signal

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


def read_signal_rows(path: Path) -> Iterator[TableRow]:
    """Yield every row of a file. Raises ConfigError when it cannot be read at all."""
    json_lines = path.suffix.lower() in JSON_LINES_SUFFIXES
    columns = {name: (name,) for name in SIGNAL_COLUMNS}
    try:
        with path.open("rb") as file:
            yield from read_table(file, columns, required=REQUIRED_COLUMNS, json_lines=json_lines)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


async def import_signals(
    store: TenantStores,
    rows: Iterable[TableRow],
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
