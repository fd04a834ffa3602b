"""Store one tenant's reservations in SQL.

A verb reads the state, decides with `gate` and `reservations`, and writes reservations, totals and
ledger entries in one transaction. If the state changed since it was read, the write conflicts and
the verb starts again. All processes lock rows in one order (reservations by key, totals sorted, the
ledger last), so there are no deadlocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from stoker.base.errors import ConflictError, TransientError
from stoker.base.types import TenantId, to_utc
from stoker.budgets import reservations as phases_of
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Refusal, SpendRequest, find_refusal
from stoker.budgets.gate import (
    BudgetState,
    check_repeat,
    evaluate_request,
    validate_request,
)
from stoker.budgets.ledger_entries import (
    build_refused_entry,
    build_reserved_entry,
    build_status_entry,
)
from stoker.budgets.limits_store import (
    LAST_ENTRY_TIME,
    SqlLimitStore,
    lock_window_creation,
    read_budget_state,
    read_request_state,
    read_totals,
)
from stoker.budgets.reservations import (
    OPEN_STATUSES,
    Reservation,
    ReservationChange,
    ReservationStatus,
    TotalChange,
    list_entries,
    list_total_changes,
)
from stoker.budgets.rows import RESERVATION_COLUMNS, parse_reservation, to_reservation_values
from stoker.budgets.windows import ResetRule
from stoker.db.codec import validate_name, validate_owner, validate_text
from stoker.db.database import (
    Database,
    Result,
    Transaction,
    Value,
    WriteConflict,
    from_optional_db_time,
    to_db_time,
    wrap_row_errors,
)
from stoker.ledger.store import append_checked

INSERT_RESERVATION = f"""
INSERT INTO holds (tenant_id, {RESERVATION_COLUMNS})
VALUES (:tenant, :key, :connector, :fingerprint, :phase, :owner, :until_at, :reserved_at,
        :closed_at, :run, :account, :reason, :amounts, :charges, :actual)
ON CONFLICT DO NOTHING
"""

# A lease that was lengthened meanwhile is a change too: its owner is alive.
UPDATE_RESERVATION = """
UPDATE holds SET phase = :phase, closed_at = :closed_at, reason = :reason, actual = :actual
WHERE tenant_id = :tenant AND key = :key AND phase = :seen_phase AND until_at = :seen_until_at
"""

INSERT_BUDGET = """
INSERT INTO budgets (tenant_id, cap, window_name, settled, reserved)
VALUES (:tenant, :cap, :window, 0, 0) ON CONFLICT DO NOTHING
"""

INSERT_SHARED_BUDGET = """
INSERT INTO shared_budgets (cap, window_name, settled, reserved)
VALUES (:cap, :window, 0, 0) ON CONFLICT DO NOTHING
"""

_ADD_TOTALS = "SET settled = settled + :settled, reserved = reserved + :reserved"

ADD_TO_BUDGET = f"""
UPDATE budgets {_ADD_TOTALS}
WHERE tenant_id = :tenant AND cap = :cap AND window_name = :window
"""

ADD_TO_SHARED_BUDGET = (
    f"UPDATE shared_budgets {_ADD_TOTALS} WHERE cap = :cap AND window_name = :window"
)

WITHIN_LIMIT = " AND settled + reserved + :reserved <= :limit"

ChangeWriter = Callable[[Transaction, TenantId, Sequence[ReservationChange]], None]


def write_changes(tx: Transaction, tenant: TenantId, moves: Sequence[ReservationChange]) -> None:
    """Write the changes, statement by statement. Raises WriteConflict to undo the transaction."""
    for move in sorted(moves, key=lambda move: move.after.key):
        _write_reservation(tx, tenant, move)
    for change in list_total_changes(moves):
        _add_to_total(tx, tenant, change)
    append_checked(tx, tenant, list_entries(moves))


def _write_reservation(tx: Transaction, tenant: TenantId, move: ReservationChange) -> None:
    values = to_reservation_values(move.after)
    if move.before is None:
        changed = tx.execute(INSERT_RESERVATION, tenant=tenant, **values)
    else:
        changed = tx.execute(
            UPDATE_RESERVATION,
            tenant=tenant,
            seen_phase=move.before.status.value,
            seen_until_at=to_db_time(move.before.until),
            **{name: values[name] for name in ("key", "phase", "closed_at", "reason", "actual")},
        )
    if not changed:
        raise WriteConflict(move.after.key)


def _add_to_total(tx: Transaction, tenant: TenantId, change: TotalChange) -> None:
    place: dict[str, Value] = {"cap": change.cap, "window": change.window}
    query, opening = ADD_TO_SHARED_BUDGET, INSERT_SHARED_BUDGET
    if not change.shared:
        query, opening, place = ADD_TO_BUDGET, INSERT_BUDGET, place | {"tenant": tenant}
    values = place | {"settled": change.settled, "reserved": change.reserved}
    if change.limit is not None:
        query, values = query + WITHIN_LIMIT, values | {"limit": change.limit}
    # Almost always there already, so it is looked for before it is made.
    if tx.execute(query, **values):
        return
    tx.execute(opening, **place)
    if not tx.execute(query, **values):
        raise WriteConflict(change.cap)


MAX_ATTEMPTS = 20  # each miss means that another process got something done

SELECT_RESERVATION = (
    f"SELECT {RESERVATION_COLUMNS} FROM holds WHERE tenant_id = :tenant AND key = :key"
)

SELECT_RESERVATION_AND_TIME = f"""
SELECT (SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1),
{RESERVATION_COLUMNS}
FROM holds WHERE tenant_id = :tenant AND key = :key
"""

SELECT_RESERVATIONS = f"""
SELECT {RESERVATION_COLUMNS} FROM holds WHERE tenant_id = :tenant AND key > :after AND phase IN (%s)
"""

SELECT_EXPIRED = f"""
SELECT {RESERVATION_COLUMNS} FROM holds
WHERE tenant_id = :tenant AND until_at <= :now AND closed_at IS NULL AND phase IN ('HELD', 'SENT')
ORDER BY key
"""

RENEW_LEASES = """
UPDATE holds SET until_at = CASE WHEN until_at < :until THEN :until ELSE until_at END
WHERE tenant_id = :tenant AND owner = :owner AND closed_at IS NULL AND phase IN ('HELD', 'SENT')
"""


class SqlBudgetStore(SqlLimitStore):
    """A `BudgetStore` in the tables `holds`, `budgets`, `cap_changes` and `stops`."""

    def __init__(
        self, database: Database, tenant: TenantId, *, write: ChangeWriter = write_changes
    ) -> None:
        super().__init__(database, tenant)
        self._write = write

    async def reserve(
        self,
        request: SpendRequest,
        *,
        caps: Sequence[Cap],
        reset: ResetRule,
        owner: str,
        until: datetime,
        now: datetime,
    ) -> Reservation | Refusal:
        request, owner = validate_request(request), validate_owner(owner)
        until, now = to_utc(until), to_utc(now)

        def reserve(tx: Transaction, *, looking: bool) -> Reservation | Refusal:
            state, known = read_request_state(tx, self._tenant, request, caps, now=now)
            if known:
                [row] = tx.query(SELECT_RESERVATION, tenant=self._tenant, key=request.key)
                return check_repeat(parse_reservation(row), request)
            moment = state.to_ledger_time(now)
            wanted = evaluate_request(request, caps, state, reset=reset, now=now)
            if not isinstance(wanted, Refusal) and lock_window_creation(
                tx, self._tenant, wanted, state
            ):
                state, _ = read_request_state(tx, self._tenant, request, caps, now=now)
                wanted = evaluate_request(request, caps, state, reset=reset, now=now)
            if looking and not isinstance(wanted, Refusal):
                wanted = find_refusal(wanted, read_totals(tx, self._tenant, wanted)) or wanted
            if isinstance(wanted, Refusal):
                append_checked(tx, self._tenant, [build_refused_entry(request, wanted, now=moment)])
                return wanted
            end = state.compute_lease_end(until, now=now)
            reservation = phases_of.build_reservation(
                request, wanted, owner=owner, until=end, now=moment
            )
            note = build_reserved_entry(reservation, now=moment)
            self._write(
                tx, self._tenant, [ReservationChange(before=None, after=reservation, entry=note)]
            )
            return reservation

        return await self._retry_on_conflict(reserve)

    async def mark_sent(self, key: str, *, now: datetime) -> Reservation:
        return await self._change_status(
            key, now, lambda reservation, _: phases_of.mark_sent(reservation)
        )

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Reservation:
        return await self._change_status(
            key,
            now,
            lambda reservation, moment: phases_of.settle_reservation(
                reservation, actual, now=moment
            ),
        )

    async def release(self, key: str, *, reason: str, now: datetime) -> Reservation:
        validate_text(reason, what="a reason")
        return await self._change_status(
            key,
            now,
            lambda reservation, moment: phases_of.release_reservation(
                reservation, now=moment, reason=reason
            ),
        )

    async def mark_uncertain(self, key: str, *, reason: str, now: datetime) -> Reservation:
        validate_text(reason, what="a reason")
        return await self._change_status(
            key, now, lambda reservation, _: phases_of.mark_uncertain(reservation, reason=reason)
        )

    async def renew_leases(self, owner: str, *, until: datetime, now: datetime) -> int:
        owner, until, now = validate_owner(owner), to_utc(until), to_utc(now)

        def renew(tx: Transaction) -> int:
            end = read_budget_state(tx, self._tenant).compute_lease_end(until, now=now)
            return tx.execute(RENEW_LEASES, tenant=self._tenant, owner=owner, until=to_db_time(end))

        return await self._database.write(renew)

    async def expire_reservations(self, *, now: datetime) -> list[Reservation]:
        now = to_utc(now)

        def expire(tx: Transaction, **_: bool) -> list[Reservation]:
            moment = read_budget_state(tx, self._tenant).to_ledger_time(now)
            moves = []
            for row in tx.query(SELECT_EXPIRED, tenant=self._tenant, now=to_db_time(moment)):
                try:
                    before = parse_reservation(row)
                except TransientError:
                    continue  # it still counts, and must not keep the others from coming back
                after = phases_of.expire_reservation(before, now=moment)
                note = build_status_entry(before, after, now=moment)
                moves.append(ReservationChange(before=before, after=after, entry=note))
            self._write(tx, self._tenant, moves)
            return [move.after for move in moves]

        return await self._retry_on_conflict(expire)

    async def find_reservation(self, key: str) -> Reservation | None:
        key = validate_name(key, what="a key")
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_RESERVATION, tenant=self._tenant, key=key)
        )
        return parse_reservation(rows[0]) if rows else None

    async def list_reservations(
        self, *, phases: Sequence[ReservationStatus], after: str = "", limit: int = 1000
    ) -> list[Reservation]:
        after = validate_name(after, what="a key")
        if not phases:
            return []
        query = SELECT_RESERVATIONS % ", ".join(f"'{phase.value}'" for phase in phases)
        if OPEN_STATUSES.issuperset(phases):
            query += " AND closed_at IS NULL"  # there are few of these, and an index of them
        query += " ORDER BY key LIMIT :limit"
        rows = await self._database.read(
            lambda tx: tx.query(query, tenant=self._tenant, after=after, limit=limit)
        )
        return [parse_reservation(row) for row in rows]

    async def _change_status(
        self, key: str, now: datetime, rule: Callable[[Reservation, datetime], Reservation]
    ) -> Reservation:
        key, now = validate_name(key, what="a key"), to_utc(now)

        def move(tx: Transaction, **_: bool) -> Reservation:
            rows = tx.query(SELECT_RESERVATION_AND_TIME, tenant=self._tenant, key=key)
            if not rows:
                raise ConflictError(f"nothing was reserved under {key}; reserve first")
            with wrap_row_errors(LAST_ENTRY_TIME):
                moment = BudgetState(latest=from_optional_db_time(rows[0][0])).to_ledger_time(now)
            before = parse_reservation(rows[0][1:])
            after = rule(before, moment)
            if after != before:
                note = build_status_entry(before, after, now=moment)
                self._write(
                    tx, self._tenant, [ReservationChange(before=before, after=after, entry=note)]
                )
            return after

        return await self._retry_on_conflict(move)

    async def _retry_on_conflict(self, verb: Callable[..., Result]) -> Result:
        for attempt in range(MAX_ATTEMPTS):
            try:
                return await self._database.write(partial(verb, looking=attempt > 0))
            except WriteConflict:
                continue
        raise TransientError(
            f"others were faster {MAX_ATTEMPTS} times in a row; nothing was done, try again later"
        )
