"""Store what operators set for all tenants in SQL: stops and shared caps, with their ledger."""

from __future__ import annotations

from datetime import datetime

from stoker.base.types import OPERATORS, to_utc
from stoker.budgets.caps import CapChange
from stoker.budgets.gate import (
    BudgetState,
    validate_change,
    validate_stop,
)
from stoker.budgets.ledger_entries import build_cap_entry, build_resume_entry, build_stop_entry
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.rows import parse_cap_change, parse_stops, parse_usage, to_cap_change_values
from stoker.db.database import Database, Transaction, from_db_time, to_db_time
from stoker.ledger.store import SqlLedgerStore, append_checked

# Updating this row makes operators wait for each other; no slot has this name.
LOCK_OPERATORS = """
INSERT INTO places (name, owner, until_at) VALUES (:name, '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""

SELECT_SHARED_STOPS = "SELECT connector, since_at, reason FROM shared_stops ORDER BY connector"

INSERT_SHARED_STOP = """
INSERT INTO shared_stops (connector, since_at, reason) VALUES (:connector, :since_at, :reason)
ON CONFLICT DO NOTHING
"""

DELETE_SHARED_STOP = "DELETE FROM shared_stops WHERE connector = :connector"

SELECT_SHARED_CAP_CHANGES = "SELECT cap, new_limit, raised_to, raised_until FROM shared_cap_changes"

UPSERT_SHARED_CAP_CHANGE = """
INSERT INTO shared_cap_changes (cap, new_limit, raised_to, raised_until)
VALUES (:cap, :new_limit, :raised_to, :raised_until)
ON CONFLICT (cap) DO UPDATE SET
    new_limit = COALESCE(excluded.new_limit, shared_cap_changes.new_limit),
    raised_to = COALESCE(excluded.raised_to, shared_cap_changes.raised_to),
    raised_until = COALESCE(excluded.raised_until, shared_cap_changes.raised_until)
"""

SELECT_LATEST_ENTRY_TIME = (
    "SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"
)

SELECT_SHARED_USAGE = """
SELECT cap, window_name, settled, reserved FROM shared_budgets ORDER BY cap, window_name
"""


class SqlOperatorStore:
    """The operators' part of a `SharedStore`, in the tables `shared_*`.

    `operators` is the database session with the operators' ledger; shared tables can be reached
    through it as well.
    """

    def __init__(self, database: Database, *, operators: Database) -> None:
        self._database = database
        self._operators = operators
        self.ledger = SqlLedgerStore(operators, OPERATORS)

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, now = validate_stop(connector, reason=reason), to_utc(now)

        def stop(tx: Transaction) -> None:
            since = _lock_and_get_time(tx, now)
            values = {"connector": connector, "since_at": to_db_time(since), "reason": reason}
            if tx.execute(INSERT_SHARED_STOP, **values):
                note = build_stop_entry(connector, reason=reason, now=since)
                append_checked(tx, OPERATORS, [note])

        await self._operators.write(stop)

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, now = validate_stop(connector), to_utc(now)

        def resume(tx: Transaction) -> bool:
            at = _lock_and_get_time(tx, now)
            if not tx.execute(DELETE_SHARED_STOP, connector=connector):
                return False
            append_checked(tx, OPERATORS, [build_resume_entry(connector, now=at)])
            return True

        return await self._operators.write(resume)

    async def list_stops(self) -> list[Stop]:
        rows = await self._database.read(lambda tx: tx.query(SELECT_SHARED_STOPS))
        return parse_stops(rows, tenant=None)

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change, now = validate_change(change, shared=True), to_utc(now)

        def say(tx: Transaction) -> None:
            at = _lock_and_get_time(tx, now)
            tx.execute(UPSERT_SHARED_CAP_CHANGE, **to_cap_change_values(change))
            append_checked(tx, OPERATORS, [build_cap_entry(change, now=at)])

        await self._operators.write(say)

    async def list_cap_changes(self) -> dict[str, CapChange]:
        rows = await self._database.read(lambda tx: tx.query(SELECT_SHARED_CAP_CHANGES))
        return {row[0]: parse_cap_change(row) for row in rows}

    async def list_usage(self) -> list[CapUsage]:
        return parse_usage(await self._database.read(lambda tx: tx.query(SELECT_SHARED_USAGE)))


def _lock_and_get_time(tx: Transaction, now: datetime) -> datetime:
    # Orders wait for each other here, or one could be dated earlier than the entry before it.
    tx.execute(LOCK_OPERATORS, name=OPERATORS, now=to_db_time(now))
    latest = [from_db_time(at) for (at,) in tx.query(SELECT_LATEST_ENTRY_TIME, tenant=OPERATORS)]
    return BudgetState(latest=latest[0] if latest else None).to_ledger_time(now)
