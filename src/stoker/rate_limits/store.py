"""Store the rates and concurrency slots that all processes share in SQL.

A row that a decision depends on is written only if it is unchanged since it was read, or locked by
updating it to itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from stoker.base.types import to_utc
from stoker.db.codec import validate_name, validate_owner
from stoker.db.database import Database, Transaction, from_db_time, to_db_time, wrap_row_errors
from stoker.rate_limits.rate_limit import Rate, RateDecision, check_rate

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

# Calls as if it had never been: `check_rate` treats a time in the past like none.
DELETE_IDLE_RATES = """
DELETE FROM rates WHERE next_at < :before AND key IN (
    SELECT key FROM rates WHERE next_at < :before LIMIT :limit)
"""

DELETE_OLD_SLOTS = "DELETE FROM places WHERE owner <> '' AND until_at < :before"

DELETE_SLOT = "DELETE FROM places WHERE name = :name AND owner = :owner AND owner <> ''"


IDLE_TIME = timedelta(days=1)  # more than any two clocks differ


class RateStore:
    """Rates and slots in the tables `rates` and `places`."""

    def __init__(self, database: Database) -> None:
        self._rates = database

    async def acquire_call(self, key: str, rate: Rate, *, now: datetime) -> RateDecision:
        """Return whether a call may go now, and count it if so. Atomic across workers.

        As `rate_limit.check_rate`: a stored time that no correct clock can have written is ignored.
        """
        key, now = validate_name(key, what="a rate's key"), to_utc(now)

        def take(tx: Transaction) -> RateDecision:
            while True:
                seen = _find_next_at(tx, key)
                decision = check_rate(rate, seen, now=now)
                if decision.next_at == seen:
                    return decision
                values = {"key": key, "next_at": to_db_time(decision.next_at)}
                if seen is None:
                    taken = tx.execute(INSERT_RATE, **values)
                else:
                    taken = tx.execute(UPDATE_RATE, seen=to_db_time(seen), **values)
                if taken:
                    return decision

        return await self._rates.write(take)

    async def delay_until(self, key: str, *, until: datetime) -> None:
        """Allow no call under this key before then; it never allows one sooner.

        For a rate with a burst, `until` is from `compute_postponed_until`: otherwise the burst
        would come early. A time further off than `acquire_call` accepts is ignored.
        """
        key, next_at = validate_name(key, what="a rate's key"), to_db_time(until)
        await self._rates.write(lambda tx: tx.execute(DELAY_RATE, key=key, next_at=next_at))

    async def find_next_at(self, key: str) -> datetime | None:
        """Return what is remembered of a key for `rate_limit.check_rate`, using nothing up.

        None when nothing ever went under it.
        """
        key = validate_name(key, what="a rate's key")
        return await self._rates.read(lambda tx: _find_next_at(tx, key))

    async def acquire_slot(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        """Acquire one of so many slots, if one is free or its owner's lease has ended.

        An owner has at most one slot of a name; acquiring it again lengthens its lease.
        """
        name, owner = validate_name(name, what="a slot's name"), validate_owner(owner)
        began, end = to_db_time(now), to_db_time(until)

        def take(tx: Transaction) -> bool:
            tx.execute(LOCK_SLOTS, name=name, now=began)
            tx.execute(DELETE_EXPIRED_SLOTS, name=name, now=began)
            inside = {found for (found,) in tx.query(SELECT_SLOT_OWNERS, name=name)}
            if owner not in inside and len(inside) >= places:
                return False
            tx.execute(UPSERT_SLOT, name=name, owner=owner, until=end)
            return True

        return await self._rates.write(take)

    async def release_slot(self, name: str, *, owner: str) -> None:
        """Release the owner's slot. Safe to repeat."""
        name, owner = validate_name(name, what="a slot's name"), validate_owner(owner)
        await self._rates.write(lambda tx: tx.execute(DELETE_SLOT, name=name, owner=owner))

    async def delete_idle(self, *, now: datetime, limit: int = 10_000) -> int:
        """Delete rates that held back no call for a day, at most `limit`, and expired slots."""
        before = to_db_time(now - IDLE_TIME)

        def delete(tx: Transaction) -> int:
            slots = tx.execute(DELETE_OLD_SLOTS, before=before)
            return slots + tx.execute(DELETE_IDLE_RATES, before=before, limit=limit)

        return await self._rates.write(delete)


def _find_next_at(tx: Transaction, key: str) -> datetime | None:
    rows = tx.query(SELECT_NEXT_AT, key=key)
    with wrap_row_errors(f"when {key} was last called"):
        return from_db_time(rows[0][0]) if rows else None
