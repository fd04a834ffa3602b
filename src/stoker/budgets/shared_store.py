"""Store what operators set for all tenants in SQL: stops and shared caps, with their ledger."""

from __future__ import annotations

from datetime import datetime

from stoker.base.types import OPERATORS, to_utc
from stoker.budgets.caps import CapChange
from stoker.budgets.charges import BudgetState
from stoker.budgets.ledger_entries import build_cap_entry, build_resume_entry, build_stop_entry
from stoker.budgets.limits_store import delete_old_totals
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.schema import (
    SHARED_CAP_CHANGES,
    SHARED_STOPS,
    SHARED_USAGE,
    validate_change,
    validate_stop,
)
from stoker.budgets.windows import find_window_start
from stoker.db.database import Database, Transaction, from_db_time, to_db_time
from stoker.ledger.store import LedgerStore, append_checked

# Updating this row makes operators wait for each other; no slot has this name.
LOCK_OPERATORS = """
INSERT INTO places (name, owner, until_at) VALUES (:name, '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""

DELETE_SHARED_STOP = "DELETE FROM shared_stops WHERE connector = :connector"

SELECT_LATEST_ENTRY_TIME = (
    "SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"
)


class OperatorStore:
    """The operators' part of a `SharedStore`, in the tables `shared_*`.

    `operators` is the database session with the operators' ledger; shared tables can be reached
    through it as well.
    """

    def __init__(self, database: Database, *, operators: Database) -> None:
        self._database = database
        self._operators = operators
        self.ledger = LedgerStore(operators)

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Refuse all tenants' requests, on a connector or (empty) on any. Safe to repeat."""
        connector, now = validate_stop(connector, reason=reason), to_utc(now)

        def stop(tx: Transaction) -> None:
            since = _lock_and_get_time(tx, now)
            wanted = Stop(connector=connector, since=since, reason=reason)
            if SHARED_STOPS.insert_new(tx, [wanted]):
                note = build_stop_entry(connector, reason=reason, now=since)
                append_checked(tx, [note])

        await self._operators.write(stop)

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Remove a stop for all tenants; return whether there was one."""
        connector, now = validate_stop(connector), to_utc(now)

        def resume(tx: Transaction) -> bool:
            at = _lock_and_get_time(tx, now)
            if not tx.execute(DELETE_SHARED_STOP, connector=connector):
                return False
            append_checked(tx, [build_resume_entry(connector, now=at)])
            return True

        return await self._operators.write(resume)

    async def list_stops(self) -> list[Stop]:
        """Return the stops in force for all tenants."""
        return await self._database.read(
            lambda tx: SHARED_STOPS.find(tx, "TRUE ORDER BY connector")
        )

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Write a change to a shared cap, with a ledger entry."""
        change, now = validate_change(change, shared=True), to_utc(now)

        def say(tx: Transaction) -> None:
            at = _lock_and_get_time(tx, now)
            SHARED_CAP_CHANGES.save(tx, [change])
            append_checked(tx, [build_cap_entry(change, now=at)])

        await self._operators.write(say)

    async def list_cap_changes(self) -> dict[str, CapChange]:
        """Return the changes to shared caps, by cap."""
        changes = await self._database.read(lambda tx: SHARED_CAP_CHANGES.find(tx, "TRUE"))
        return {change.cap: change for change in changes}

    async def delete_old_usage(self, *, now: datetime, limit: int = 10_000) -> int:
        """Delete at most `limit` old totals of shared caps; as `LimitStore.delete_old_usage`."""
        now = to_utc(now)

        def delete(tx: Transaction) -> int:
            # The newest window stands for the last entry: a clock that runs ahead deletes nothing.
            starts = [find_window_start(usage.window) for usage in SHARED_USAGE.find(tx, "TRUE")]
            newest = max((start for start in starts if start is not None), default=now)
            return delete_old_totals(tx, SHARED_USAGE, now=min(now, newest), limit=limit)

        return await self._database.write(delete)

    async def list_usage(self) -> list[CapUsage]:
        """Return what every shared cap has used, for operators only."""
        return await self._database.read(
            lambda tx: SHARED_USAGE.find(tx, "TRUE ORDER BY cap, window_name")
        )


def _lock_and_get_time(tx: Transaction, now: datetime) -> datetime:
    # Orders wait for each other here, or one could be dated earlier than the entry before it.
    tx.execute(LOCK_OPERATORS, name=OPERATORS, now=to_db_time(now))
    latest = [from_db_time(at) for (at,) in tx.query(SELECT_LATEST_ENTRY_TIME)]
    return BudgetState(latest=latest[0] if latest else None).to_ledger_time(now)
