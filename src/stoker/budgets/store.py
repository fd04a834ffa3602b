"""Store one tenant's reservations in SQL.

A verb reads the state, decides with `charges` and `reservations`, and writes reservations, totals
and ledger entries in one transaction. If the state changed since it was read, the write conflicts
and the verb starts again. All processes lock rows in one order (reservations by key, totals sorted,
the ledger last), so there are no deadlocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from stoker.base.errors import ConflictError, TransientError
from stoker.base.jsontools import compact_json
from stoker.base.types import Json, to_utc
from stoker.budgets import reservations
from stoker.budgets.caps import Cap
from stoker.budgets.charges import (
    BudgetState,
    Refusal,
    SpendRequest,
    Totals,
    evaluate_request,
    find_refusal,
)
from stoker.budgets.ledger_entries import (
    build_refused_entry,
    build_reserved_entry,
    build_status_entry,
)
from stoker.budgets.limits_store import (
    IS_PLACE,
    LimitStore,
    get_usage_table,
    lock_window_creation,
    read_request_state,
    read_totals,
)
from stoker.budgets.model import CapUsage
from stoker.budgets.reservations import (
    OPEN_STATUSES,
    Reservation,
    ReservationChange,
    ReservationStatus,
    TotalChange,
    check_repeat,
    list_total_changes,
)
from stoker.budgets.schema import CHANGED_COLUMNS, RESERVATIONS, validate_request
from stoker.budgets.windows import RETENTION, ResetRule
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
from stoker.ledger.chain import NewEntry, to_canonical_text
from stoker.ledger.store import LAST_ENTRY_TIME, append_checked, find_last_time

CHANGES = ", ".join(f"{name} = :{name}" for name in CHANGED_COLUMNS)

# A lease that was lengthened meanwhile is a change too: its owner is alive.
IS_UNCHANGED = "key = :key AND phase = :seen_phase AND until_at = :seen_until_at"

ADD_TO_TOTAL = "settled = settled + :settled, reserved = reserved + :reserved"

WITHIN_LIMIT = " AND settled + reserved + :reserved <= :limit"

ChangeWriter = Callable[[Transaction, Sequence[ReservationChange]], None]


def write_changes(tx: Transaction, moves: Sequence[ReservationChange]) -> None:
    """Write the changes, statement by statement. Raises WriteConflict to undo the transaction."""
    for move in sorted(moves, key=lambda move: move.after.key):
        _write_reservation(tx, move)
    for change in list_total_changes(moves):
        _add_to_total(tx, change)
    append_checked(tx, [move.entry for move in moves])


def _write_reservation(tx: Transaction, move: ReservationChange) -> None:
    if move.before is None:
        changed = RESERVATIONS.insert_new(tx, [move.after])
    else:
        values = RESERVATIONS.values(move.after)
        changed = RESERVATIONS.update(
            tx,
            CHANGES,
            IS_UNCHANGED,
            key=move.before.key,
            seen_phase=move.before.status.value,
            seen_until_at=to_db_time(move.before.until),
            **{name: values[name] for name in CHANGED_COLUMNS},
        )
    if not changed:
        raise WriteConflict(move.after.key)


def _add_to_total(tx: Transaction, change: TotalChange) -> None:
    table, where = get_usage_table(shared=change.shared), IS_PLACE
    values: dict[str, Value] = {"cap": change.cap, "window": change.window}
    values |= {"settled": change.settled, "reserved": change.reserved}
    if change.limit is not None:
        where, values = where + WITHIN_LIMIT, values | {"limit": change.limit}
    # Almost always there already, so it is looked for before it is made.
    if table.update(tx, ADD_TO_TOTAL, where, **values):
        return
    table.insert_new(tx, [CapUsage(cap=change.cap, window=change.window, used=Totals())])
    if not table.update(tx, ADD_TO_TOTAL, where, **values):
        raise WriteConflict(change.cap)


def write_changes_on_server(tx: Transaction, moves: Sequence[ReservationChange]) -> None:
    """Write the changes with one call of a function on the Postgres server, as `write_changes`.

    It commits at once, so that shared rows are not locked during round trips.
    """
    if not moves:
        return
    asked: dict[str, Json] = {
        "holds": [
            _to_reservation_json(move) for move in sorted(moves, key=lambda move: move.after.key)
        ],
        "totals": [_to_total_json(change) for change in list_total_changes(moves)],
        "notes": [_to_entry_json(move.entry) for move in moves],
    }
    tx.execute_with_commit("SELECT write_moves(:asked)", asked=compact_json(asked))


def _to_reservation_json(move: ReservationChange) -> Json:
    values = RESERVATIONS.to_json(move.after)
    if move.before is None:
        return values
    return {name: values[name] for name in CHANGED_COLUMNS} | {
        "key": move.before.key,
        "seen_phase": move.before.status.value,
        "seen_until_at": to_db_time(move.before.until),
    }


def _to_total_json(change: TotalChange) -> Json:
    return {
        "shared": change.shared,
        "cap": change.cap,
        "window_name": change.window,
        "settled": change.settled,
        "reserved": change.reserved,
        "within": change.limit,
    }


def _to_entry_json(note: NewEntry) -> Json:
    return {
        "at": to_db_time(note.at),
        "kind": note.kind,
        "subject": note.subject,
        "reason": note.reason,
        "data": note.data,
        "unnumbered": to_canonical_text(note),
    }


MAX_ATTEMPTS = 20  # each miss means that another process got something done

SELECT_RESERVATION_AND_TIME = f"""
SELECT (SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1),
{RESERVATIONS.names}
FROM holds WHERE tenant_id = :tenant AND key = :key
"""

SELECT_EXPIRED = f"""
SELECT {RESERVATIONS.names} FROM holds
WHERE tenant_id = :tenant AND until_at <= :now AND closed_at IS NULL AND phase IN ('HELD', 'SENT')
ORDER BY key
"""

RENEW_LEASE = "until_at = CASE WHEN until_at < :until THEN :until ELSE until_at END"

IS_OWN_LEASE = "owner = :owner AND closed_at IS NULL AND phase IN ('HELD', 'SENT')"

# Numbers have no leading zeros, so the longest key is the latest attempt.
LATEST_ATTEMPT = "key > :start AND key < :end ORDER BY length(key) DESC, key DESC LIMIT 1"

# The outer condition repeats the inner one: a reservation that was settled late meanwhile stays.
DELETE_CLOSED_RESERVATIONS = """
DELETE FROM holds WHERE tenant_id = :tenant AND closed_at < :before AND key IN (
    SELECT key FROM holds WHERE tenant_id = :tenant AND closed_at < :before
    ORDER BY closed_at LIMIT :limit)
"""


class BudgetStore(LimitStore):
    """One tenant's reservations and what became of them: the gate everything that costs goes
    through.

    After every commit, on every cap, settled + reserved <= limit, except by what a vendor charged
    above its reservation and by a cap that was lowered. Each verb writes its ledger entry in the
    same transaction; refusals are entries too. Times are never taken to be earlier than the
    ledger's.
    """

    def __init__(self, database: Database, *, write: ChangeWriter = write_changes) -> None:
        super().__init__(database)
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
        """Reserve the amounts in all the caps they fall under, or in none.

        Atomic: of two callers racing for the last of a budget, one is refused. The same key again
        returns the reservation as it now is; with another fingerprint, ConflictError. Refused, with
        nothing charged and the key still good, when a cap is full, a stop is in force or the clock
        went back. Windows that overlap the current one, because `reset` was changed, count too.
        Raises ConfigError when a unit has no cap at all.
        """
        request, owner = validate_request(request), validate_owner(owner)
        until, now = to_utc(until), to_utc(now)

        def reserve(tx: Transaction, *, explain_refusal: bool) -> Reservation | Refusal:
            state, known = read_request_state(tx, request, caps, now=now)
            if known:
                [reservation] = RESERVATIONS.find(tx, "key = :key", key=request.key)
                return check_repeat(reservation, request)
            moment = state.to_ledger_time(now)
            wanted = evaluate_request(request, caps, state, reset=reset, now=now)
            if not isinstance(wanted, Refusal) and lock_window_creation(tx, wanted, state):
                state, _ = read_request_state(tx, request, caps, now=now)
                wanted = evaluate_request(request, caps, state, reset=reset, now=now)
            if explain_refusal and not isinstance(wanted, Refusal):
                wanted = find_refusal(wanted, read_totals(tx, wanted)) or wanted
            if isinstance(wanted, Refusal):
                append_checked(tx, [build_refused_entry(request, wanted, now=moment)])
                return wanted
            end = state.compute_lease_end(until, now=now)
            reservation = reservations.build_reservation(
                request, wanted, owner=owner, until=end, now=moment
            )
            note = build_reserved_entry(reservation, now=moment)
            self._write(tx, [ReservationChange(before=None, after=reservation, entry=note)])
            return reservation

        return await self._retry_on_conflict(reserve)

    async def mark_sent(self, key: str, *, now: datetime) -> Reservation:
        """Mark a HELD reservation as sent, as `reservations.mark_sent`."""
        return await self._change_status(
            key, now, lambda reservation, _: reservations.mark_sent(reservation)
        )

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Reservation:
        """Settle a reservation at its real cost, as `reservations.settle_reservation`.

        A reservation that was released meanwhile is settled late. Raises ConflictError when there
        is no such key.
        """
        return await self._change_status(
            key,
            now,
            lambda reservation, moment: reservations.settle_reservation(
                reservation, actual, now=moment
            ),
        )

    async def release(self, key: str, *, reason: str, now: datetime) -> Reservation:
        """Release a reservation in full, as `reservations.release_reservation`."""
        validate_text(reason, what="a reason")
        return await self._change_status(
            key,
            now,
            lambda reservation, moment: reservations.release_reservation(
                reservation, now=moment, reason=reason
            ),
        )

    async def mark_uncertain(self, key: str, *, reason: str, now: datetime) -> Reservation:
        """Mark a reservation's outcome as unknown, as `reservations.mark_uncertain`."""
        validate_text(reason, what="a reason")
        return await self._change_status(
            key, now, lambda reservation, _: reservations.mark_uncertain(reservation, reason=reason)
        )

    async def renew_leases(self, owner: str, *, until: datetime, now: datetime) -> int:
        """Lengthen the lease of everything this owner has HELD or SENT; return how many.

        By as much as lies between `now` and `until`, also for an owner whose clock is behind.
        """
        owner, until, now = validate_owner(owner), to_utc(until), to_utc(now)

        def renew(tx: Transaction) -> int:
            end = BudgetState(latest=find_last_time(tx)).compute_lease_end(until, now=now)
            return RESERVATIONS.update(
                tx, RENEW_LEASE, IS_OWN_LEASE, owner=owner, until=to_db_time(end)
            )

        return await self._database.write(renew)

    async def expire_reservations(self, *, now: datetime) -> list[Reservation]:
        """Expire every reservation whose lease ended; return them as they now are.

        As `reservations.expire_reservation`: never sent is released, maybe sent is marked
        uncertain.
        """
        now = to_utc(now)

        def expire(tx: Transaction, **_: bool) -> list[Reservation]:
            moment = BudgetState(latest=find_last_time(tx)).to_ledger_time(now)
            moves = []
            for row in tx.query(SELECT_EXPIRED, now=to_db_time(moment)):
                try:
                    before = RESERVATIONS.read(row)
                except TransientError:
                    continue  # it still counts, and must not keep the others from coming back
                after = reservations.expire_reservation(before, now=moment)
                note = build_status_entry(before, after, now=moment)
                moves.append(ReservationChange(before=before, after=after, entry=note))
            self._write(tx, moves)
            return [move.after for move in moves]

        return await self._retry_on_conflict(expire)

    async def find_reservation(self, key: str) -> Reservation | None:
        """Return a reservation by its key."""
        key = validate_name(key, what="a key")
        found = await self._database.read(lambda tx: RESERVATIONS.find(tx, "key = :key", key=key))
        return found[0] if found else None

    async def find_reservations(self, keys: Sequence[str]) -> dict[str, Reservation]:
        """Return the reservations there are of these keys, by key."""
        wanted = [validate_name(key, what="a key") for key in keys]
        found = await self._database.read(lambda tx: RESERVATIONS.find_in(tx, "key", wanted))
        return {reservation.key: reservation for reservation in found}

    async def list_reservations(
        self, *, phases: Sequence[ReservationStatus], after: str = "", limit: int = 1000
    ) -> list[Reservation]:
        """Return one page of the reservations in these phases, in key order."""
        after = validate_name(after, what="a key")
        if not phases:
            return []
        names = ", ".join(f"'{phase.value}'" for phase in phases)
        where = f"key > :after AND phase IN ({names})"
        if OPEN_STATUSES.issuperset(phases):
            where += " AND closed_at IS NULL"  # there are few of these, and an index of them
        where += " ORDER BY key LIMIT :limit"
        return await self._database.read(
            lambda tx: RESERVATIONS.find(tx, where, after=after, limit=limit)
        )

    async def find_latest_attempt(self, key: str) -> tuple[int, Reservation | None]:
        """Return the number and reservation of the latest attempt under a key, or (0, None).

        As `charges.to_attempt` numbers them. Earlier ones may have been deleted.
        """
        start = validate_name(f"{key}/", what="a key")
        found = await self._database.read(
            lambda tx: RESERVATIONS.find(tx, LATEST_ATTEMPT, start=start, end=f"{start}:")
        )
        return (int(found[0].key.removeprefix(start)), found[0]) if found else (0, None)

    async def delete_closed_reservations(self, *, now: datetime, limit: int = 10_000) -> int:
        """Delete at most `limit` reservations that ended more than `RETENTION` ago.

        Open and uncertain ones stay. Returns how many were deleted.
        """
        now = to_utc(now)

        def delete(tx: Transaction) -> int:
            # No later than the last entry: a clock that runs ahead deletes nothing.
            end = min(now, find_last_time(tx) or now)
            before = to_db_time(end - RETENTION)
            return tx.execute(DELETE_CLOSED_RESERVATIONS, before=before, limit=limit)

        return await self._database.write(delete)

    async def _change_status(
        self, key: str, now: datetime, rule: Callable[[Reservation, datetime], Reservation]
    ) -> Reservation:
        key, now = validate_name(key, what="a key"), to_utc(now)

        def move(tx: Transaction, **_: bool) -> Reservation:
            rows = tx.query(SELECT_RESERVATION_AND_TIME, key=key)
            if not rows:
                raise ConflictError(f"nothing was reserved under {key}; reserve first")
            with wrap_row_errors(LAST_ENTRY_TIME):
                moment = BudgetState(latest=from_optional_db_time(rows[0][0])).to_ledger_time(now)
            before = RESERVATIONS.read(rows[0][1:])
            after = rule(before, moment)
            if after != before:
                note = build_status_entry(before, after, now=moment)
                self._write(tx, [ReservationChange(before=before, after=after, entry=note)])
            return after

        return await self._retry_on_conflict(move)

    async def _retry_on_conflict(self, verb: Callable[..., Result]) -> Result:
        for attempt in range(MAX_ATTEMPTS):
            try:
                return await self._database.write(partial(verb, explain_refusal=attempt > 0))
            except WriteConflict:
                continue
        raise TransientError(
            f"others were faster {MAX_ATTEMPTS} times in a row; nothing was done, try again later"
        )
