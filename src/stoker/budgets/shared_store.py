"""What all tenants and workers share, in SQL: rates, places, stops, shared caps.

A row that a decision rests on is written only if it still is as it was seen, or held still by
being updated to itself; so workers take turns without waiting for each other's whole work.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from stoker.base.types import OPERATORS, in_utc
from stoker.budgets.caps import CapChange
from stoker.budgets.gate import Standing, kept_change, kept_name, kept_owner, kept_stop
from stoker.budgets.ledger_entries import cap_note, resume_note, stop_note
from stoker.budgets.model import Stop, Usage
from stoker.budgets.rows import change_of, change_values, stops_of, usage_of
from stoker.db.database import SqlDatabase, Transaction, moment, moment_text, refusing_garbage
from stoker.ledger.store import SqlLedger, added_as_they_are
from stoker.rate_limits import rate_limit as limits

if TYPE_CHECKING:
    from stoker.rate_limits.rate_limit import Rate, Turn

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

LATEST = "SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"

USAGE = """
SELECT cap, window_name, settled, reserved FROM shared_budgets ORDER BY cap, window_name
"""


class SqlShared:
    """A `SharedStore` in the tables `rates`, `places` and `shared_*`.

    `operators` is the door behind which the ledger of what is done for everybody stands; what
    tenants share can be reached through it as well.
    """

    def __init__(self, database: SqlDatabase, *, operators: SqlDatabase) -> None:
        self._database = database
        self._operators = operators
        self.ledger = SqlLedger(operators, OPERATORS)

    async def turn(self, key: str, rate: Rate, *, now: datetime) -> Turn:
        key, now = kept_name(key, what="a rate's key"), in_utc(now)

        def take(tx: Transaction) -> Turn:
            while True:
                seen = _seen(tx, key)
                turn = limits.turn(rate, seen, now=now)
                if turn.next_at == seen:
                    return turn
                values = {"key": key, "next_at": moment_text(turn.next_at)}
                if seen is None:
                    taken = tx.change(FIRST_TURN, **values)
                else:
                    taken = tx.change(TURN, seen=moment_text(seen), **values)
                if taken:
                    return turn

        return await self._database.write(take)

    async def push_back(self, key: str, *, until: datetime) -> None:
        key, next_at = kept_name(key, what="a rate's key"), moment_text(until)
        await self._database.write(lambda tx: tx.change(PUSH_BACK, key=key, next_at=next_at))

    async def next_at(self, key: str) -> datetime | None:
        key = kept_name(key, what="a rate's key")
        return await self._database.read(lambda tx: _seen(tx, key))

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
        connector, now = kept_stop(connector, reason=reason), in_utc(now)

        def stop(tx: Transaction) -> None:
            since = _moment(tx, now)
            values = {"connector": connector, "since_at": moment_text(since), "reason": reason}
            if tx.change(STOP, **values):
                note = stop_note(connector, reason=reason, now=since)
                added_as_they_are(tx, OPERATORS, [note])

        await self._operators.write(stop)

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, now = kept_stop(connector), in_utc(now)

        def resume(tx: Transaction) -> bool:
            at = _moment(tx, now)
            if not tx.change(RESUME, connector=connector):
                return False
            added_as_they_are(tx, OPERATORS, [resume_note(connector, now=at)])
            return True

        return await self._operators.write(resume)

    async def stops(self) -> list[Stop]:
        rows = await self._database.read(lambda tx: tx.rows(SHARED_STOPS))
        return stops_of(rows, tenant=None)

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change, now = kept_change(change, shared=True), in_utc(now)

        def say(tx: Transaction) -> None:
            at = _moment(tx, now)
            tx.change(SAY, **change_values(change))
            added_as_they_are(tx, OPERATORS, [cap_note(change, now=at)])

        await self._operators.write(say)

    async def cap_changes(self) -> dict[str, CapChange]:
        rows = await self._database.read(lambda tx: tx.rows(CHANGES))
        return {row[0]: change_of(row) for row in rows}

    async def usage(self) -> list[Usage]:
        return usage_of(await self._database.read(lambda tx: tx.rows(USAGE)))


def _seen(tx: Transaction, key: str) -> datetime | None:
    rows = tx.rows(NEXT_AT, key=key)
    with refusing_garbage(f"when {key} was last called"):
        return moment(rows[0][0]) if rows else None


def _moment(tx: Transaction, now: datetime) -> datetime:
    # Orders wait for each other here, or one could be dated earlier than the entry before it.
    tx.change(DOOR, name=OPERATORS, now=moment_text(now))
    latest = [moment(at) for (at,) in tx.rows(LATEST, tenant=OPERATORS)]
    return Standing(latest=latest[0] if latest else None).moment(now)
