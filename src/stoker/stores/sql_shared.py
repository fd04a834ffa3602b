"""What all tenants and workers share, in SQL: rates, places, stops, shared caps.

A row that a decision rests on is written only if it still is as it was seen, or held still by
being updated to itself; so workers take turns without waiting for each other's whole work.
"""

from __future__ import annotations

from datetime import datetime

from stoker.core import limits
from stoker.core.caps import CapChange
from stoker.core.gate import kept_change, kept_name, kept_owner, kept_stop
from stoker.core.limits import Rate, Turn
from stoker.core.model import in_utc
from stoker.ports import Stop, Usage
from stoker.stores.money_rows import change_of, change_values, stops_of, usage_of
from stoker.stores.sql import SqlDatabase, Transaction, moment, moment_text

NEXT_AT = "SELECT next_at FROM rates WHERE key = :key"
FIRST_TURN = "INSERT INTO rates (key, next_at) VALUES (:key, :next_at) ON CONFLICT DO NOTHING"
TURN = "UPDATE rates SET next_at = :next_at WHERE key = :key AND next_at = :seen"
PUSH_BACK = """
INSERT INTO rates (key, next_at) VALUES (:key, :next_at)
ON CONFLICT (key) DO UPDATE SET next_at = excluded.next_at WHERE rates.next_at < excluded.next_at
"""

# The row without an owner is nobody's place: holding it still is having the name to oneself.
DOOR = """
INSERT INTO places (name, owner, until_at) VALUES (:name, '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""
EMPTY = "DELETE FROM places WHERE name = :name AND owner <> '' AND until_at <= :now"
TAKEN = "SELECT owner FROM places WHERE name = :name AND owner <> ''"
TAKE = """
INSERT INTO places (name, owner, until_at) VALUES (:name, :owner, :until)
ON CONFLICT (name, owner) DO UPDATE SET until_at = excluded.until_at
WHERE places.until_at < excluded.until_at
"""
LEAVE = "DELETE FROM places WHERE name = :name AND owner = :owner AND owner <> ''"

SHARED_STOPS = "SELECT connector, since_at, reason FROM shared_stops ORDER BY connector"
STOP = """
INSERT INTO shared_stops (connector, since_at, reason) VALUES (:connector, :since_at, :reason)
ON CONFLICT DO NOTHING
"""
RESUME = "DELETE FROM shared_stops WHERE connector = :connector"
CHANGES = "SELECT cap, new_limit, raised_to, raised_until FROM shared_cap_changes"
SAY = """
INSERT INTO shared_cap_changes (cap, new_limit, raised_to, raised_until)
VALUES (:cap, :new_limit, :raised_to, :raised_until)
ON CONFLICT (cap) DO UPDATE SET
    new_limit = COALESCE(excluded.new_limit, shared_cap_changes.new_limit),
    raised_to = COALESCE(excluded.raised_to, shared_cap_changes.raised_to),
    raised_until = COALESCE(excluded.raised_until, shared_cap_changes.raised_until)
"""
USAGE = """
SELECT cap, window_name, settled, reserved FROM shared_budgets ORDER BY cap, window_name
"""


class SqlShared:
    """A `SharedStore` in the tables `rates`, `places` and `shared_*`."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def turn(self, key: str, rate: Rate, *, now: datetime) -> Turn:
        key, now = kept_name(key, what="a rate's key"), in_utc(now)

        def take(tx: Transaction) -> Turn:
            while True:
                [seen] = [row[0] for row in tx.rows(NEXT_AT, key=key)] or [None]
                turn = limits.turn(rate, seen and moment(seen), now=now)
                if not turn.allowed:
                    return turn
                values = {"key": key, "next_at": moment_text(turn.next_at)}
                if seen is None:
                    taken = tx.change(FIRST_TURN, **values)
                else:
                    taken = tx.change(TURN, seen=moment_text(moment(seen)), **values)
                if taken:
                    return turn

        return await self._database.write(take)

    async def push_back(self, key: str, *, until: datetime) -> None:
        key, next_at = kept_name(key, what="a rate's key"), moment_text(until)
        await self._database.write(lambda tx: tx.change(PUSH_BACK, key=key, next_at=next_at))

    async def take_place(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        name, owner = kept_name(name, what="a place's name"), kept_owner(owner)
        began, end = moment_text(now), moment_text(until)

        def take(tx: Transaction) -> bool:
            tx.change(DOOR, name=name, now=began)
            tx.change(EMPTY, name=name, now=began)
            inside = {found for (found,) in tx.rows(TAKEN, name=name)}
            if owner not in inside and len(inside) >= places:
                return False
            tx.change(TAKE, name=name, owner=owner, until=end)
            return True

        return await self._database.write(take)

    async def leave_place(self, name: str, *, owner: str) -> None:
        name, owner = kept_name(name, what="a place's name"), kept_owner(owner)
        await self._database.write(lambda tx: tx.change(LEAVE, name=name, owner=owner))

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, since_at = kept_stop(connector, reason=reason), moment_text(now)
        values = {"connector": connector, "since_at": since_at, "reason": reason}
        await self._database.write(lambda tx: tx.change(STOP, **values))

    async def resume(self, connector: str) -> bool:
        connector = kept_stop(connector)
        gone = await self._database.write(lambda tx: tx.change(RESUME, connector=connector))
        return gone == 1

    async def stops(self) -> list[Stop]:
        rows = await self._database.read(lambda tx: tx.rows(SHARED_STOPS))
        return stops_of(rows, tenant=None)

    async def change_cap(self, change: CapChange) -> None:
        values = change_values(kept_change(change, shared=True))
        await self._database.write(lambda tx: tx.change(SAY, **values))

    async def cap_changes(self) -> dict[str, CapChange]:
        rows = await self._database.read(lambda tx: tx.rows(CHANGES))
        return {row[0]: change_of(row) for row in rows}

    async def usage(self) -> list[Usage]:
        return usage_of(await self._database.read(lambda tx: tx.rows(USAGE)))
