"""Store a tenant's cap changes, stops and totals in SQL.

A reservation reads all of them in one query; every change writes its ledger entry in the same
transaction. Reservations are in `store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from stoker.base.types import TenantId, to_utc
from stoker.budgets.caps import Cap, CapChange, list_added_caps
from stoker.budgets.charges import Charge, SpendRequest, Totals, cap_applies
from stoker.budgets.gate import BudgetState, validate_change, validate_stop
from stoker.budgets.ledger_entries import build_cap_entry, build_resume_entry, build_stop_entry
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.rows import parse_cap_change, parse_stops, parse_usage, to_cap_change_values
from stoker.budgets.shared_store import SELECT_SHARED_STOPS
from stoker.budgets.windows import WindowKind, compute_name_range, parse_window
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_time,
    to_db_time,
    wrap_row_errors,
)
from stoker.ledger.store import append_checked

# Everything a reservation rests on, in one question: on a server each one is a round trip.
SELECT_BUDGET_STATE = """
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

# Windows of one cap near a time, as further lines of the same question.
SELECT_WINDOWS = """
UNION ALL
SELECT 'window', cap, settled, reserved, NULL, window_name FROM budgets
WHERE tenant_id = :tenant AND cap = :cap_{n}
    AND window_name >= :since_{n} AND window_name < :until_{n}
"""

# Updating the row without a window locks the cap.
LOCK_CAP = """
INSERT INTO budgets (tenant_id, cap, window_name, settled, reserved)
VALUES (:tenant, :cap, '', 0, 0)
ON CONFLICT (tenant_id, cap, window_name) DO UPDATE SET settled = budgets.settled
"""

SELECT_TOTALS = """
SELECT settled, reserved FROM budgets
WHERE tenant_id = :tenant AND cap = :cap AND window_name = :window
"""

SELECT_SHARED_TOTALS = """
SELECT settled, reserved FROM shared_budgets WHERE cap = :cap AND window_name = :window
"""

SELECT_USAGE = """
SELECT cap, window_name, settled, reserved FROM budgets
WHERE tenant_id = :tenant AND window_name <> ''
ORDER BY cap, window_name
"""

SELECT_CAP_CHANGES = """
SELECT cap, new_limit, raised_to, raised_until FROM cap_changes WHERE tenant_id = :tenant
"""

UPSERT_CAP_CHANGE = """
INSERT INTO cap_changes (tenant_id, cap, new_limit, raised_to, raised_until)
VALUES (:tenant, :cap, :new_limit, :raised_to, :raised_until)
ON CONFLICT (tenant_id, cap) DO UPDATE SET
    new_limit = COALESCE(excluded.new_limit, cap_changes.new_limit),
    raised_to = COALESCE(excluded.raised_to, cap_changes.raised_to),
    raised_until = COALESCE(excluded.raised_until, cap_changes.raised_until)
"""

SELECT_STOPS = """
SELECT connector, since_at, reason FROM stops WHERE tenant_id = :tenant ORDER BY connector
"""

INSERT_STOP = """
INSERT INTO stops (tenant_id, connector, since_at, reason)
VALUES (:tenant, :connector, :since_at, :reason) ON CONFLICT DO NOTHING
"""

DELETE_STOP = "DELETE FROM stops WHERE tenant_id = :tenant AND connector = :connector"

LAST_ENTRY_TIME = "the moment of the last ledger entry"


class SqlLimitStore:
    """The part of a `MoneyStore` that is about limits, stops and totals."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def list_usage(self) -> list[CapUsage]:
        rows = await self._database.read(lambda tx: tx.query(SELECT_USAGE, tenant=self._tenant))
        return parse_usage(rows)

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change, now = validate_change(change, shared=False), to_utc(now)

        def say(tx: Transaction) -> None:
            tx.execute(UPSERT_CAP_CHANGE, tenant=self._tenant, **to_cap_change_values(change))
            moment = read_budget_state(tx, self._tenant).to_ledger_time(now)
            append_checked(tx, self._tenant, [build_cap_entry(change, now=moment)])

        await self._database.write(say)

    async def list_cap_changes(self) -> dict[str, CapChange]:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_CAP_CHANGES, tenant=self._tenant)
        )
        return {row[0]: parse_cap_change(row) for row in rows}

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, now = validate_stop(connector, reason=reason), to_utc(now)

        def stop(tx: Transaction) -> None:
            since = read_budget_state(tx, self._tenant).to_ledger_time(now)
            values = {"connector": connector, "since_at": to_db_time(since), "reason": reason}
            if tx.execute(INSERT_STOP, tenant=self._tenant, **values):
                append_checked(
                    tx, self._tenant, [build_stop_entry(connector, reason=reason, now=since)]
                )

        await self._database.write(stop)

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, now = validate_stop(connector), to_utc(now)

        def resume(tx: Transaction) -> bool:
            if not tx.execute(DELETE_STOP, tenant=self._tenant, connector=connector):
                return False
            moment = read_budget_state(tx, self._tenant).to_ledger_time(now)
            append_checked(tx, self._tenant, [build_resume_entry(connector, now=moment)])
            return True

        return await self._database.write(resume)

    async def list_stops(self) -> list[Stop]:
        def look(tx: Transaction) -> list[Stop]:
            shared = parse_stops(tx.query(SELECT_SHARED_STOPS), tenant=None)
            return shared + parse_stops(
                tx.query(SELECT_STOPS, tenant=self._tenant), tenant=self._tenant
            )

        return await self._database.read(look)


def read_budget_state(tx: Transaction, tenant: TenantId) -> BudgetState:
    """Return a tenant's budget state, without its windows."""
    return _to_budget_state(tx.query(SELECT_BUDGET_STATE, tenant=tenant, key=""))[0]


def read_request_state(
    tx: Transaction, tenant: TenantId, request: SpendRequest, caps: Sequence[Cap], *, now: datetime
) -> tuple[BudgetState, bool]:
    """Return the budget state for a request, and whether its key was used before."""
    query, values = _build_query(request, caps, now=now)
    found, known = _to_budget_state(tx.query(query, tenant=tenant, key=request.key, **values))
    added = list_added_caps(caps, found.changes)
    if not known and added:
        query, values = _build_query(request, added, now=now)
        also, _ = _to_budget_state(tx.query(query, tenant=tenant, key="", **values))
        found = replace(found, open_windows={**found.open_windows, **also.open_windows})
    return found, known


def lock_window_creation(
    tx: Transaction, tenant: TenantId, charges: Iterable[Charge], state: BudgetState
) -> bool:
    """Lock the caps for which a window is to be created; return whether there are any.

    Two processes with different reset rules would otherwise create two windows that overlap without
    seeing each other. What was read before the lock may be outdated.
    """
    opening = [
        charge.cap
        for charge in charges
        if not charge.shared and (charge.cap, charge.window) not in state.open_windows
    ]
    timed = sorted({cap for cap in opening if not cap.endswith(f"/{WindowKind.RUN}")})
    for cap in timed:
        tx.execute(LOCK_CAP, tenant=tenant, cap=cap)
    return bool(timed)


def read_totals(
    tx: Transaction, tenant: TenantId, charges: Sequence[Charge]
) -> dict[tuple[str, str], Totals]:
    """Return what these caps have used already."""
    found = {}
    for charge in charges:
        place = {"cap": charge.cap, "window": charge.window}
        rows = (
            tx.query(SELECT_SHARED_TOTALS, **place)
            if charge.shared
            else tx.query(SELECT_TOTALS, tenant=tenant, **place)
        )
        for settled, reserved in rows:
            found[charge.cap, charge.window] = Totals(settled=settled, reserved=reserved)
    return found


def _build_query(
    request: SpendRequest, caps: Iterable[Cap], *, now: datetime
) -> tuple[str, dict[str, Value]]:
    timed = [
        cap
        for cap in caps
        if cap_applies(cap, request) and not cap.shared and cap.window is not WindowKind.RUN
    ]
    values: dict[str, Value] = {}
    for n, cap in enumerate(timed):
        since, until = compute_name_range(cap.window, now)
        values |= {f"cap_{n}": cap.id, f"since_{n}": since, f"until_{n}": until}
    return _build_query_text(len(timed)), values


@lru_cache(maxsize=64)
def _build_query_text(caps: int) -> str:
    return SELECT_BUDGET_STATE + "".join(SELECT_WINDOWS.format(n=n) for n in range(caps))


def _to_budget_state(rows: Iterable[tuple[Any, ...]]) -> tuple[BudgetState, bool]:
    latest, changes, stops, opened, known = None, {}, {}, {}, False
    for what, name, first, second, at, text in rows:
        match what:
            case "change":
                changes[name] = parse_cap_change((name, first, second, at))
            case "stop":
                stops[name] = text
            case "hold":
                known = True
            case "window":
                with wrap_row_errors(f"a window of {name}"):
                    parse_window(text)
                opened[name, text] = Totals(settled=first, reserved=second)
            case _:
                with wrap_row_errors(LAST_ENTRY_TIME):
                    latest = from_db_time(at)
    return BudgetState(latest=latest, changes=changes, stops=stops, open_windows=opened), known
