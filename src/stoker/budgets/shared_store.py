"""Store what all tenants and workers share in SQL: rates, slots, stops, shared caps.

A row that a decision depends on is written only if it is unchanged since it was read, or locked by
updating it to itself.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from stoker.base.types import OPERATORS, to_utc
from stoker.budgets.caps import CapChange
from stoker.budgets.gate import (
    BudgetState,
    validate_change,
    validate_name,
    validate_owner,
    validate_stop,
)
from stoker.budgets.ledger_entries import build_cap_entry, build_resume_entry, build_stop_entry
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.rows import parse_cap_change, parse_stops, parse_usage, to_cap_change_values
from stoker.db.database import Database, Transaction, from_db_time, to_db_time, wrap_row_errors
from stoker.ledger.store import SqlLedgerStore, append_checked
from stoker.rate_limits import rate_limit as limits

if TYPE_CHECKING:
    from stoker.rate_limits.rate_limit import Rate, RateDecision

SELECT_NEXT_AT = "SELECT next_at FROM rates WHERE key = :key"

INSERT_RATE = "INSERT INTO rates (key, next_at) VALUES (:key, :next_at) ON CONFLICT DO NOTHING"

UPDATE_RATE = "UPDATE rates SET next_at = :next_at WHERE key = :key AND next_at = :seen"

DELAY_RATE = """
INSERT INTO rates (key, next_at) VALUES (:key, :next_at)
ON CONFLICT (key) DO UPDATE SET next_at = excluded.next_at WHERE rates.next_at < excluded.next_at
"""

# Updating the row without an owner locks the name.
LOCK_SLOTS = """
INSERT INTO places (name, owner, until_at) VALUES (:name, '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""

DELETE_EXPIRED_SLOTS = "DELETE FROM places WHERE name = :name AND owner <> '' AND until_at <= :now"

SELECT_SLOT_OWNERS = "SELECT owner FROM places WHERE name = :name AND owner <> ''"

UPSERT_SLOT = """
INSERT INTO places (name, owner, until_at) VALUES (:name, :owner, :until)
ON CONFLICT (name, owner) DO UPDATE SET until_at = excluded.until_at
WHERE places.until_at < excluded.until_at
"""

DELETE_SLOT = "DELETE FROM places WHERE name = :name AND owner = :owner AND owner <> ''"

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


class SqlSharedStore:
    """A `SharedStore` in the tables `rates`, `places` and `shared_*`.

    `operators` is the database session with the operators' ledger; shared tables can be reached
    through it as well.
    """

    def __init__(self, database: Database, *, operators: Database) -> None:
        self._database = database
        self._operators = operators
        self.ledger = SqlLedgerStore(operators, OPERATORS)

    async def acquire_call(self, key: str, rate: Rate, *, now: datetime) -> RateDecision:
        key, now = validate_name(key, what="a rate's key"), to_utc(now)

        def take(tx: Transaction) -> RateDecision:
            while True:
                seen = _find_next_at(tx, key)
                turn = limits.check_rate(rate, seen, now=now)
                if turn.next_at == seen:
                    return turn
                values = {"key": key, "next_at": to_db_time(turn.next_at)}
                if seen is None:
                    taken = tx.execute(INSERT_RATE, **values)
                else:
                    taken = tx.execute(UPDATE_RATE, seen=to_db_time(seen), **values)
                if taken:
                    return turn

        return await self._database.write(take)

    async def delay_until(self, key: str, *, until: datetime) -> None:
        key, next_at = validate_name(key, what="a rate's key"), to_db_time(until)
        await self._database.write(lambda tx: tx.execute(DELAY_RATE, key=key, next_at=next_at))

    async def find_next_at(self, key: str) -> datetime | None:
        key = validate_name(key, what="a rate's key")
        return await self._database.read(lambda tx: _find_next_at(tx, key))

    async def acquire_slot(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        name, owner = validate_name(name, what="a place's name"), validate_owner(owner)
        began, end = to_db_time(now), to_db_time(until)

        def take(tx: Transaction) -> bool:
            tx.execute(LOCK_SLOTS, name=name, now=began)
            tx.execute(DELETE_EXPIRED_SLOTS, name=name, now=began)
            inside = {found for (found,) in tx.query(SELECT_SLOT_OWNERS, name=name)}
            if owner not in inside and len(inside) >= places:
                return False
            tx.execute(UPSERT_SLOT, name=name, owner=owner, until=end)
            return True

        return await self._database.write(take)

    async def release_slot(self, name: str, *, owner: str) -> None:
        name, owner = validate_name(name, what="a place's name"), validate_owner(owner)
        await self._database.write(lambda tx: tx.execute(DELETE_SLOT, name=name, owner=owner))

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


def _find_next_at(tx: Transaction, key: str) -> datetime | None:
    rows = tx.query(SELECT_NEXT_AT, key=key)
    with wrap_row_errors(f"when {key} was last called"):
        return from_db_time(rows[0][0]) if rows else None


def _lock_and_get_time(tx: Transaction, now: datetime) -> datetime:
    # Orders wait for each other here, or one could be dated earlier than the entry before it.
    tx.execute(LOCK_SLOTS, name=OPERATORS, now=to_db_time(now))
    latest = [from_db_time(at) for (at,) in tx.query(SELECT_LATEST_ENTRY_TIME, tenant=OPERATORS)]
    return BudgetState(latest=latest[0] if latest else None).to_ledger_time(now)
