"""Import the accounts of a person's own list, and the posture each has there.

Each batch is atomic, and importing a file again changes nothing. An imported account matches the
tenant's ICP, and a posture that came with it counts in place of the lead score.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from stoker.accounts.account_rows import parse_account_row
from stoker.accounts.model import Company
from stoker.base.clock import Clock
from stoker.context import TenantStores
from stoker.files.tables import TableRow
from stoker.heat.service import BATCH_SIZE, MAX_ERRORS_SHOWN, HeatSweep


@dataclass(slots=True, kw_only=True)
class AccountImport:
    """What came of a table of accounts."""

    new: int = 0
    changed: int = 0
    same: int = 0
    with_posture: int = 0
    with_domain: int = 0
    rejected: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)  # line and reason, the first ones

    def add_error(self, line: int, because: str) -> None:
        """Count a bad row, and keep the reason of the first ones."""
        self.rejected += 1
        if len(self.errors) < MAX_ERRORS_SHOWN:
            self.errors.append((line, because))


async def import_accounts(
    store: TenantStores, rows: Iterable[TableRow], *, sweep: HeatSweep, clock: Clock
) -> AccountImport:
    """Save the account of every good row, with its heat; return what came of all rows."""
    done, left, lines = AccountImport(), iter(rows), dict[str, int]()
    while batch := list(islice(left, BATCH_SIZE)):
        now, accounts = clock.now(), list[Company]()
        for row in batch:
            parsed = row.wrong or parse_account_row(row.cells)
            if isinstance(parsed, str):
                done.add_error(row.line, parsed)
            elif (first := lines.setdefault(parsed.id, row.line)) != row.line:
                done.add_error(row.line, f"account {parsed.id!r} is on line {first} already")
            else:
                accounts.append(parsed)
        counted = await store.accounts.import_accounts(accounts, rule=sweep.icp_rule, now=now)
        done.new += counted.new
        done.changed += counted.changed
        done.same += counted.same
        done.with_posture += sum(each.posture is not None for each in accounts)
        done.with_domain += sum(bool(each.website) for each in accounts)
    # So that heat and plans know them at once, not after the next sweep.
    await sweep.update_accounts(store, clock)
    return done
