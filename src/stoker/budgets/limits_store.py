"""What stands for a tenant, in SQL: its caps as people changed them, its stops, its totals.

Everything here is either read by a reservation or said by a person, with its ledger entry in the
same transaction. Promises themselves are in `sql_money.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from stoker.base.types import TenantId, in_utc
from stoker.budgets.caps import Cap, CapChange, added_caps
from stoker.budgets.charges import Charge, Request, Used, counts_for
from stoker.budgets.gate import Standing, kept_change, kept_stop
from stoker.budgets.ledger_entries import cap_note, resume_note, stop_note
from stoker.budgets.model import Stop, Usage
from stoker.budgets.rows import change_of, change_values, stops_of, usage_of
from stoker.budgets.shared_store import SHARED_STOPS
from stoker.budgets.windows import WindowKind, names_about, window_named
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    moment,
    moment_text,
    refusing_garbage,
)
from stoker.ledger.store import added_as_they_are

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

# Windows of one cap near a moment, as further lines of the same question.
WINDOWS = """
UNION ALL
SELECT 'window', cap, settled, reserved, NULL, window_name FROM budgets
WHERE tenant_id = :tenant AND cap = :cap_{n}
    AND window_name >= :since_{n} AND window_name < :until_{n}
"""

# The row without a window is nobody's budget: holding it still is having the cap to oneself.
DOOR = """
INSERT INTO budgets (tenant_id, cap, window_name, settled, reserved)
VALUES (:tenant, :cap, '', 0, 0)
ON CONFLICT (tenant_id, cap, window_name) DO UPDATE SET settled = budgets.settled
"""

USED = """
SELECT settled, reserved FROM budgets
WHERE tenant_id = :tenant AND cap = :cap AND window_name = :window
"""

SHARED_USED = """
SELECT settled, reserved FROM shared_budgets WHERE cap = :cap AND window_name = :window
"""

USAGE = """
SELECT cap, window_name, settled, reserved FROM budgets
WHERE tenant_id = :tenant AND window_name <> ''
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

LAST_MOMENT = "the moment of the last ledger entry"


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
    """Return what stands for a tenant at this moment, apart from its windows."""
    return _stands(tx.rows(STANDING, tenant=tenant, key=""))[0]


def asked(
    tx: Transaction, tenant: TenantId, request: Request, caps: Sequence[Cap], *, now: datetime
) -> tuple[Standing, bool]:
    """Return what stands for a request, and whether something was promised under its key before."""
    query, values = _question(request, caps, now=now)
    found, known = _stands(tx.rows(query, tenant=tenant, key=request.key, **values))
    added = added_caps(caps, found.changes)
    if not known and added:
        query, values = _question(request, added, now=now)
        also, _ = _stands(tx.rows(query, tenant=tenant, key="", **values))
        found = replace(found, opened={**found.opened, **also.opened})
    return found, known


def hold_doors(
    tx: Transaction, tenant: TenantId, charges: Iterable[Charge], stands: Standing
) -> bool:
    """Keep others from opening windows of caps that are to have a new one; say if there are any.

    Two who reset by different rules would otherwise open two windows that overlap, each without
    having seen the other's. What was read before may be old by the time the doors are held.
    """
    opening = [
        charge.cap
        for charge in charges
        if not charge.shared and (charge.cap, charge.window) not in stands.opened
    ]
    timed = sorted({cap for cap in opening if not cap.endswith(f"/{WindowKind.RUN}")})
    for cap in timed:
        tx.change(DOOR, tenant=tenant, cap=cap)
    return bool(timed)


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


def _question(
    request: Request, caps: Iterable[Cap], *, now: datetime
) -> tuple[str, dict[str, Value]]:
    timed = [
        cap
        for cap in caps
        if counts_for(cap, request) and not cap.shared and cap.window is not WindowKind.RUN
    ]
    values: dict[str, Value] = {}
    for n, cap in enumerate(timed):
        since, until = names_about(cap.window, now)
        values |= {f"cap_{n}": cap.id, f"since_{n}": since, f"until_{n}": until}
    return _question_about(len(timed)), values


@lru_cache(maxsize=64)
def _question_about(caps: int) -> str:
    return STANDING + "".join(WINDOWS.format(n=n) for n in range(caps))


def _stands(rows: Iterable[tuple[Any, ...]]) -> tuple[Standing, bool]:
    latest, changes, stops, opened, known = None, {}, {}, {}, False
    for what, name, first, second, at, text in rows:
        match what:
            case "change":
                changes[name] = change_of((name, first, second, at))
            case "stop":
                stops[name] = text
            case "hold":
                known = True
            case "window":
                with refusing_garbage(f"a window of {name}"):
                    window_named(text)
                opened[name, text] = Used(settled=first, reserved=second)
            case _:
                with refusing_garbage(LAST_MOMENT):
                    latest = moment(at)
    return Standing(latest=latest, changes=changes, stops=stops, opened=opened), known
