"""What stands for a tenant, in SQL: its caps as people changed them, its stops, its totals.

Everything here is either read by a reservation or said by a person, with its ledger entry in the
same transaction. Promises themselves are in `sql_money.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.core.budget import Charge, Used
from stoker.core.caps import CapChange
from stoker.core.gate import Standing, kept_change, kept_stop
from stoker.core.model import TenantId, in_utc
from stoker.core.money_notes import cap_note, resume_note, stop_note
from stoker.ports import Stop, Usage
from stoker.stores.money_rows import change_of, change_values, stops_of, usage_of
from stoker.stores.sql import SqlDatabase, Transaction, moment, moment_text
from stoker.stores.sql_ledger import added_as_they_are
from stoker.stores.sql_shared import SHARED_STOPS

# Everything a reservation rests on, in one question: on a server each one is a round trip.
STANDING = """
SELECT 'change' AS what, cap, new_limit, raised_to, raised_until, '' AS reason
FROM cap_changes WHERE tenant_id = :tenant
UNION ALL
SELECT 'change', cap, new_limit, raised_to, raised_until, '' FROM shared_cap_changes
UNION ALL
SELECT 'stop', connector, NULL, NULL, since_at, reason FROM stops WHERE tenant_id = :tenant
UNION ALL
SELECT 'stop', connector, NULL, NULL, since_at, reason FROM shared_stops
UNION ALL
SELECT 'hold', key, NULL, NULL, until_at, '' FROM holds WHERE tenant_id = :tenant AND key = :key
UNION ALL
SELECT 'latest', '', NULL, NULL, at, ''
FROM (SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1) AS last
"""

USED = """
SELECT settled, reserved FROM budgets
WHERE tenant_id = :tenant AND cap = :cap AND window_name = :window
"""
SHARED_USED = """
SELECT settled, reserved FROM shared_budgets WHERE cap = :cap AND window_name = :window
"""
USAGE = """
SELECT cap, window_name, settled, reserved FROM budgets WHERE tenant_id = :tenant
ORDER BY cap, window_name
"""
CHANGES = """
SELECT cap, new_limit, raised_to, raised_until FROM cap_changes WHERE tenant_id = :tenant
"""
SAY = """
INSERT INTO cap_changes (tenant_id, cap, new_limit, raised_to, raised_until)
VALUES (:tenant, :cap, :new_limit, :raised_to, :raised_until)
ON CONFLICT (tenant_id, cap) DO UPDATE SET
    new_limit = COALESCE(excluded.new_limit, cap_changes.new_limit),
    raised_to = COALESCE(excluded.raised_to, cap_changes.raised_to),
    raised_until = COALESCE(excluded.raised_until, cap_changes.raised_until)
"""
STOPS = """
SELECT connector, since_at, reason FROM stops WHERE tenant_id = :tenant ORDER BY connector
"""
STOP = """
INSERT INTO stops (tenant_id, connector, since_at, reason)
VALUES (:tenant, :connector, :since_at, :reason) ON CONFLICT DO NOTHING
"""
RESUME = "DELETE FROM stops WHERE tenant_id = :tenant AND connector = :connector"


class SqlStanding:
    """The part of a `MoneyStore` that is about limits, stops and totals."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def usage(self) -> list[Usage]:
        rows = await self._database.read(lambda tx: tx.rows(USAGE, tenant=self._tenant))
        return usage_of(rows)

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change, now = kept_change(change, shared=False), in_utc(now)

        def say(tx: Transaction) -> None:
            tx.change(SAY, tenant=self._tenant, **change_values(change))
            moment = standing(tx, self._tenant).moment(now)
            added_as_they_are(tx, self._tenant, [cap_note(change, now=moment)])

        await self._database.write(say)

    async def cap_changes(self) -> dict[str, CapChange]:
        rows = await self._database.read(lambda tx: tx.rows(CHANGES, tenant=self._tenant))
        return {row[0]: change_of(row) for row in rows}

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, now = kept_stop(connector, reason=reason), in_utc(now)

        def stop(tx: Transaction) -> None:
            since = standing(tx, self._tenant).moment(now)
            values = {"connector": connector, "since_at": moment_text(since), "reason": reason}
            if tx.change(STOP, tenant=self._tenant, **values):
                added_as_they_are(
                    tx, self._tenant, [stop_note(connector, reason=reason, now=since)]
                )

        await self._database.write(stop)

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, now = kept_stop(connector), in_utc(now)

        def resume(tx: Transaction) -> bool:
            if not tx.change(RESUME, tenant=self._tenant, connector=connector):
                return False
            moment = standing(tx, self._tenant).moment(now)
            added_as_they_are(tx, self._tenant, [resume_note(connector, now=moment)])
            return True

        return await self._database.write(resume)

    async def stops(self) -> list[Stop]:
        def look(tx: Transaction) -> list[Stop]:
            everybody = stops_of(tx.rows(SHARED_STOPS), tenant=None)
            return everybody + stops_of(tx.rows(STOPS, tenant=self._tenant), tenant=self._tenant)

        return await self._database.read(look)


def standing(tx: Transaction, tenant: TenantId) -> Standing:
    """Return what stands for a tenant at this moment."""
    return asked(tx, tenant, key="")[0]


def asked(tx: Transaction, tenant: TenantId, *, key: str) -> tuple[Standing, bool]:
    """Return what stands, and whether something was promised under this key before."""
    latest, changes, stops, known = None, {}, {}, False
    for what, name, new_limit, raised_to, at, reason in tx.rows(STANDING, tenant=tenant, key=key):
        match what:
            case "change":
                changes[name] = change_of((name, new_limit, raised_to, at))
            case "stop":
                stops[name] = reason
            case "hold":
                known = True
            case _:
                latest = moment(at)
    return Standing(latest=latest, changes=changes, stops=stops), known


def used(
    tx: Transaction, tenant: TenantId, charges: Sequence[Charge]
) -> dict[tuple[str, str], Used]:
    """Return what these caps have given away already."""
    found = {}
    for charge in charges:
        place = {"cap": charge.cap, "window": charge.window}
        rows = (
            tx.rows(SHARED_USED, **place)
            if charge.shared
            else tx.rows(USED, tenant=tenant, **place)
        )
        for settled, reserved in rows:
            found[charge.cap, charge.window] = Used(settled=settled, reserved=reserved)
    return found
