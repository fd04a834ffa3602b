"""Store cap changes, stops and totals in SQL, a tenant's own and those that tenants share.

A reservation reads all of them in one query, together with how many stops and cap changes there
are: if it sees fewer, it grants nothing. Reservations are in `store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from stoker.base.errors import TransientError
from stoker.base.types import OPERATORS, to_utc
from stoker.budgets.caps import Cap, CapChange, list_added_caps
from stoker.budgets.charges import BudgetState, Charge, SpendRequest, Totals, cap_applies
from stoker.budgets.ledger_entries import build_cap_entry, build_resume_entry, build_stop_entry
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.schema import (
    CAP_CHANGES,
    SHARED_CAP_CHANGES,
    SHARED_STOPS,
    SHARED_USAGE,
    STOPS,
    USAGE,
    validate_change,
    validate_stop,
)
from stoker.budgets.windows import (
    WindowKind,
    compute_name_range,
    find_window_start,
    is_old_window,
    parse_window,
)
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_time,
    to_db_time,
    wrap_row_errors,
)
from stoker.db.table import Table
from stoker.ledger.store import LAST_ENTRY_TIME, LedgerStore, append_checked, find_last_time

# Everything a reservation rests on, in one question: on a server each one is a round trip.
SELECT_BUDGET_STATE = """
SELECT 'cap_changes' AS what, cap, new_limit, raised_to, raised_until, '' AS reason
FROM cap_changes WHERE tenant_id = :tenant
UNION ALL
SELECT 'shared_cap_changes', cap, new_limit, raised_to, raised_until, '' FROM shared_cap_changes
UNION ALL
SELECT 'stops', connector, NULL, NULL, since_at, reason FROM stops WHERE tenant_id = :tenant
UNION ALL
SELECT 'shared_stops', connector, NULL, NULL, since_at, reason FROM shared_stops
UNION ALL
SELECT 'count', '', cap_changes, stops, NULL, '' FROM limit_counts WHERE tenant_id = :tenant
UNION ALL
SELECT 'shared count', '', cap_changes, stops, NULL, '' FROM shared_limit_counts
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

# A tenant's own, with its first reservation. Where rows are hidden, or where a tenant with totals
# lost its count, this is refused or does nothing, so that the count is missing still.
INSERT_COUNT = """
INSERT INTO limit_counts (tenant_id, cap_changes, stops) SELECT :tenant, 0, 0
WHERE NOT EXISTS (SELECT 1 FROM budgets WHERE tenant_id = :tenant)
ON CONFLICT DO NOTHING
"""

SELECT_COUNTS = "SELECT cap_changes, stops FROM limit_counts WHERE tenant_id = :tenant"

SELECT_ANY_TOTAL = "SELECT 1 FROM budgets WHERE tenant_id = :tenant LIMIT 1"

SELECT_SHARED_COUNTS = "SELECT cap_changes, stops FROM shared_limit_counts"

# Updating the row without a window locks the cap.
LOCK_CAP = """
INSERT INTO budgets (tenant_id, cap, window_name, settled, reserved)
VALUES (:tenant, :cap, '', 0, 0)
ON CONFLICT (tenant_id, cap, window_name) DO UPDATE SET settled = budgets.settled
"""

IS_PLACE = "cap = :cap AND window_name = :window"

# Updating this row makes operators wait for each other; no slot has this name.
LOCK_OPERATORS = """
INSERT INTO places (name, owner, until_at) VALUES (:name, '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""


class LimitStore:
    """Limits, stops and totals: one tenant's own, or with `shared` those of all tenants.

    Every change writes its ledger entry in the same transaction, never dated earlier than the entry
    before it.
    """

    def __init__(self, database: Database, *, shared: bool = False) -> None:
        self._database = database
        self._shared = shared
        self._usage = get_usage_table(shared=shared)
        self._changes = SHARED_CAP_CHANGES if shared else CAP_CHANGES
        self._stops = SHARED_STOPS if shared else STOPS

    async def list_usage(self) -> list[CapUsage]:
        """Return what every cap has used, window by window, sorted.

        A tenant's own caps, or for operators the shared ones.
        """
        return await self._database.read(
            lambda tx: self._usage.find(tx, "window_name <> '' ORDER BY cap, window_name")
        )

    async def delete_old_usage(self, *, now: datetime, limit: int = 1000) -> int:
        """Delete at most `limit` totals of windows that nothing can be charged to any more.

        As `windows.is_old_window`; those with something reserved stay. Returns how many.
        """
        now = to_utc(now)

        def delete(tx: Transaction) -> int:
            used = self._usage.find(tx, "window_name <> '' ORDER BY cap, window_name")
            starts = [find_window_start(usage.window) for usage in used]
            # No later than the newest window: a clock that runs ahead deletes nothing.
            end = min(now, max(filter(None, starts), default=now))
            old = [
                usage
                for usage in used
                if not usage.used.reserved and is_old_window(usage.window, now=end)
            ]
            return sum(
                self._usage.delete(
                    tx, f"{IS_PLACE} AND reserved = 0", cap=usage.cap, window=usage.window
                )
                for usage in old[:limit]
            )

        return await self._database.write(delete)

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Write a change to a cap, with a ledger entry. Fields that are None keep their value."""
        change, now = validate_change(change, shared=self._shared), to_utc(now)

        def write(tx: Transaction) -> None:
            moment = self._lock_and_get_time(tx, now)
            self._changes.save(tx, [change])
            append_checked(tx, [build_cap_entry(change, now=moment)])

        await self._database.write(write)

    async def list_cap_changes(self, *, guarded: bool = True) -> dict[str, CapChange]:
        """Return the changes to caps, by cap.

        Raises TransientError when not all can be seen, unless `guarded` is false: for a check that
        compares them with the ledger.
        """

        def read(tx: Transaction) -> list[CapChange]:
            changes = self._changes.find(tx, "TRUE")
            if guarded:
                there, _ = _read_counts(tx, shared=self._shared)
                _require_seen(there, len(changes), self._changes)
            return changes

        return {change.cap: change for change in await self._database.read(read)}

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Grant nothing more, on a connector or (empty) on any. Safe to repeat."""
        connector, now = validate_stop(connector, reason=reason), to_utc(now)

        def stop(tx: Transaction) -> None:
            since = self._lock_and_get_time(tx, now)
            if self._stops.insert_new(tx, [Stop(connector=connector, since=since, reason=reason)]):
                append_checked(tx, [build_stop_entry(connector, reason=reason, now=since)])

        await self._database.write(stop)

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Remove a stop; return whether there was one."""
        connector, now = validate_stop(connector), to_utc(now)

        def resume(tx: Transaction) -> bool:
            moment = self._lock_and_get_time(tx, now)
            if not self._stops.delete(tx, "connector = :connector", connector=connector):
                return False
            append_checked(tx, [build_resume_entry(connector, now=moment)])
            return True

        return await self._database.write(resume)

    async def list_stops(self, *, guarded: bool = True) -> list[Stop]:
        """Return the stops in force: those for all tenants, then this tenant's own.

        Raises TransientError when not all can be seen, unless `guarded` is false.
        """

        def find(tx: Transaction, table: Table[Stop], *, shared: bool) -> list[Stop]:
            stops = table.find(tx, "TRUE ORDER BY connector")
            if guarded:
                _require_seen(_read_counts(tx, shared=shared)[1], len(stops), table)
            return stops

        def read(tx: Transaction) -> list[Stop]:
            stops = find(tx, SHARED_STOPS, shared=True)
            if not self._shared:
                own = find(tx, STOPS, shared=False)
                stops += [replace(stop, tenant=tx.tenant) for stop in own]
            return stops

        return await self._database.read(read)

    def _lock_and_get_time(self, tx: Transaction, now: datetime) -> datetime:
        if self._shared:
            # Or one order could be dated earlier than the entry before it.
            tx.execute(LOCK_OPERATORS, name=OPERATORS, now=to_db_time(now))
        return BudgetState(latest=find_last_time(tx)).to_ledger_time(now)


class OperatorStore(LimitStore):
    """What operators set for all tenants, with a ledger of its own.

    `operators` is the database session with that ledger; shared tables are reached through it too.
    """

    def __init__(self, operators: Database) -> None:
        super().__init__(operators, shared=True)
        self.ledger = LedgerStore(operators)


def read_request_state(
    tx: Transaction, request: SpendRequest, caps: Sequence[Cap], *, now: datetime
) -> tuple[BudgetState, bool]:
    """Return the budget state for a request, and whether its key was used before.

    Raises TransientError when there are stops or cap changes that it does not see.
    """
    query, values = _build_query(request, caps, now=now)
    rows = tx.query(query, key=request.key, **values)
    if not any(row[0] == "count" for row in rows):
        tx.execute(INSERT_COUNT)
        rows = tx.query(query, key=request.key, **values)
    found, known = _to_budget_state(rows)
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
    return {
        (charge.cap, charge.window): usage.used
        for charge in charges
        for usage in get_usage_table(shared=charge.shared).find(
            tx, IS_PLACE, cap=charge.cap, window=charge.window
        )
    }


def get_usage_table(*, shared: bool) -> Table[CapUsage]:
    """Return the table of a tenant's own totals, or of those that tenants share."""
    return SHARED_USAGE if shared else USAGE


def _read_counts(tx: Transaction, *, shared: bool) -> tuple[int | None, int | None]:
    """Return how many cap changes and stops there are; None where that cannot be seen."""
    if found := tx.query(SELECT_SHARED_COUNTS if shared else SELECT_COUNTS):
        return found[0][0], found[0][1]
    # Only a tenant that never reserved anything has no count yet.
    return (None, None) if shared or tx.query(SELECT_ANY_TOTAL) else (0, 0)


def _require_seen(there: int | None, seen: int, table: Table[Any]) -> None:
    if seen != there:
        raise TransientError(
            f"{seen} of {'some' if there is None else there} rows of {table.name} can be seen; "
            "nothing was granted, see `stoker db status`, or restore the store from a backup"
        )


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
    there: tuple[int | None, int | None] = (None, None)
    shared, seen = there, dict[str, int]()
    for what, name, first, second, at, text in rows:
        match what:
            case "count":
                there = (first, second)
            case "shared count":
                shared = (first, second)
            case "window":
                with wrap_row_errors(f"a window of {name}"):
                    parse_window(text)
                opened[name, text] = Totals(settled=first, reserved=second)
            case "latest":
                with wrap_row_errors(LAST_ENTRY_TIME):
                    latest = from_db_time(at)
            case "hold":
                known = True
            case "stops" | "shared_stops":
                seen[what] = seen.get(what, 0) + 1
                stops[name] = text
            case _:
                seen[what] = seen.get(what, 0) + 1
                changes[name] = CAP_CHANGES.read((name, first, second, at))
    if seen or there != (0, 0) or shared != (0, 0):
        _require_seen(there[0], seen.get("cap_changes", 0), CAP_CHANGES)
        _require_seen(there[1], seen.get("stops", 0), STOPS)
        _require_seen(shared[0], seen.get("shared_cap_changes", 0), SHARED_CAP_CHANGES)
        _require_seen(shared[1], seen.get("shared_stops", 0), SHARED_STOPS)
    return BudgetState(latest=latest, changes=changes, stops=stops, open_windows=opened), known
