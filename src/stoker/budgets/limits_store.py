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

from stoker.base.types import to_utc
from stoker.budgets.caps import Cap, CapChange, list_added_caps
from stoker.budgets.charges import BudgetState, Charge, SpendRequest, Totals, cap_applies
from stoker.budgets.ledger_entries import build_cap_entry, build_resume_entry, build_stop_entry
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.schema import (
    CAP_CHANGES,
    SHARED_STOPS,
    STOPS,
    USAGE,
    validate_change,
    validate_stop,
)
from stoker.budgets.windows import (
    WindowKind,
    compute_name_range,
    is_old_window,
    parse_window,
)
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_time,
    wrap_row_errors,
)
from stoker.db.table import Table
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

DELETE_STOP = "DELETE FROM stops WHERE tenant_id = :tenant AND connector = :connector"

LAST_ENTRY_TIME = "the moment of the last ledger entry"


class LimitStore:
    """The part of a `BudgetStore` that is about limits, stops and totals."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_usage(self) -> list[CapUsage]:
        """Return what every cap of this tenant has used, window by window, sorted.

        Shared caps are not among them.
        """
        return await self._database.read(
            lambda tx: USAGE.find(tx, "window_name <> '' ORDER BY cap, window_name")
        )

    async def delete_old_usage(self, *, now: datetime, limit: int = 10_000) -> int:
        """Delete at most `limit` totals of windows that nothing can be charged to any more.

        As `windows.is_old_window`; those with something reserved stay. Returns how many.
        """
        now = to_utc(now)

        def delete(tx: Transaction) -> int:
            return delete_old_totals(tx, USAGE, now=find_prune_time(tx, now), limit=limit)

        return await self._database.write(delete)

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Write a change to a cap, with a ledger entry. Fields that are None keep their value."""
        change, now = validate_change(change, shared=False), to_utc(now)

        def say(tx: Transaction) -> None:
            CAP_CHANGES.save(tx, [change])
            moment = read_budget_state(tx).to_ledger_time(now)
            append_checked(tx, [build_cap_entry(change, now=moment)])

        await self._database.write(say)

    async def list_cap_changes(self) -> dict[str, CapChange]:
        """Return the changes to caps, by cap."""
        changes = await self._database.read(lambda tx: CAP_CHANGES.find(tx, "TRUE"))
        return {change.cap: change for change in changes}

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Grant this tenant nothing more, on a connector or (empty) on any. safe to repeat."""
        connector, now = validate_stop(connector, reason=reason), to_utc(now)

        def stop(tx: Transaction) -> None:
            since = read_budget_state(tx).to_ledger_time(now)
            if STOPS.insert_new(tx, [Stop(connector=connector, since=since, reason=reason)]):
                append_checked(tx, [build_stop_entry(connector, reason=reason, now=since)])

        await self._database.write(stop)

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Remove a stop; return whether there was one."""
        connector, now = validate_stop(connector), to_utc(now)

        def resume(tx: Transaction) -> bool:
            if not tx.execute(DELETE_STOP, connector=connector):
                return False
            moment = read_budget_state(tx).to_ledger_time(now)
            append_checked(tx, [build_resume_entry(connector, now=moment)])
            return True

        return await self._database.write(resume)

    async def list_stops(self) -> list[Stop]:
        """Return the stops in force for this tenant, those for all tenants included."""

        def look(tx: Transaction) -> list[Stop]:
            own = STOPS.find(tx, "TRUE ORDER BY connector")
            return SHARED_STOPS.find(tx, "TRUE ORDER BY connector") + [
                replace(stop, tenant=tx.tenant) for stop in own
            ]

        return await self._database.read(look)


def find_prune_time(tx: Transaction, now: datetime) -> datetime:
    """Return the earlier of the clock and the last entry: a clock that runs ahead deletes nothing.

    A tenant without entries has nothing to delete.
    """
    latest = read_budget_state(tx).latest
    return now if latest is None else min(now, latest)


def delete_old_totals(tx: Transaction, table: Table[CapUsage], *, now: datetime, limit: int) -> int:
    """Delete totals of old windows in which nothing is reserved; return how many."""
    where = "tenant_id = ? AND " if table.tenant else ""
    query = f"DELETE FROM {table.name} WHERE {where}cap = ? AND window_name = ? AND reserved = 0"
    owner = (tx.tenant,) if table.tenant else ()
    old = [
        (*owner, usage.cap, usage.window)
        for usage in table.find(tx, "reserved = 0 ORDER BY cap, window_name")
        if is_old_window(usage.window, now=now)
    ]
    return tx.execute_many(query, old[:limit]) if old else 0


def read_budget_state(tx: Transaction) -> BudgetState:
    """Return a tenant's budget state, without its windows."""
    return _to_budget_state(tx.query(SELECT_BUDGET_STATE, key=""))[0]


def read_request_state(
    tx: Transaction, request: SpendRequest, caps: Sequence[Cap], *, now: datetime
) -> tuple[BudgetState, bool]:
    """Return the budget state for a request, and whether its key was used before."""
    query, values = _build_query(request, caps, now=now)
    found, known = _to_budget_state(tx.query(query, key=request.key, **values))
    added = list_added_caps(caps, found.changes)
    if not known and added:
        query, values = _build_query(request, added, now=now)
        also, _ = _to_budget_state(tx.query(query, key="", **values))
        found = replace(found, open_windows={**found.open_windows, **also.open_windows})
    return found, known


def lock_window_creation(tx: Transaction, charges: Iterable[Charge], state: BudgetState) -> bool:
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
        tx.execute(LOCK_CAP, cap=cap)
    return bool(timed)


def read_totals(tx: Transaction, charges: Sequence[Charge]) -> dict[tuple[str, str], Totals]:
    """Return what these caps have used already."""
    found = {}
    for charge in charges:
        place = {"cap": charge.cap, "window": charge.window}
        rows = (
            tx.query(SELECT_SHARED_TOTALS, **place)
            if charge.shared
            else tx.query(SELECT_TOTALS, **place)
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
                changes[name] = CAP_CHANGES.read((name, first, second, at))
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
