"""One tenant's promises, in SQL. What may be spent is the core's to say.

A verb reads what stands, asks the core, and writes the moves that follow (`sql_moves.py`). Where
others may have been faster, the writing notices, everything is undone, and the verb begins anew.

How moves of promises are written: promises, totals and ledger entries, together or not at all.

What a move rests on may have changed since it was read; then nothing stands, and the caller reads
and decides again. Everybody takes their rows in one order, promises by key, totals as the core
sorts them, the ledger last, so that nobody waits for somebody who waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from stoker.base.errors import ConflictError, TransientError
from stoker.base.types import TenantId, in_utc
from stoker.budgets import reservations as phases_of
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Refused, Request, first_refusal
from stoker.budgets.gate import (
    Standing,
    asked_again,
    considered,
    kept_name,
    kept_owner,
    kept_request,
)
from stoker.budgets.ledger_entries import phase_note, refused_note, reserved_note
from stoker.budgets.limits_store import LAST_MOMENT, SqlStanding, asked, hold_doors, standing, used
from stoker.budgets.reservations import OPEN, Hold, Move, Phase, TotalChange, notes, total_changes
from stoker.budgets.rows import HOLD, hold_of, hold_values
from stoker.budgets.windows import ResetRule
from stoker.db.codec import kept_text
from stoker.db.database import (
    Missed,
    Result,
    SqlDatabase,
    Transaction,
    Value,
    moment_text,
    optional_moment,
    refusing_garbage,
)
from stoker.ledger.store import added_as_they_are

PROMISE = f"""
INSERT INTO holds (tenant_id, {HOLD})
VALUES (:tenant, :key, :connector, :fingerprint, :phase, :owner, :until_at, :reserved_at,
        :closed_at, :run, :account, :reason, :amounts, :charges, :actual)
ON CONFLICT DO NOTHING
"""

# A lease that was lengthened meanwhile is a change too: its owner is alive.
MOVE = """
UPDATE holds SET phase = :phase, closed_at = :closed_at, reason = :reason, actual = :actual
WHERE tenant_id = :tenant AND key = :key AND phase = :seen_phase AND until_at = :seen_until_at
"""

OPEN_BUDGET = """
INSERT INTO budgets (tenant_id, cap, window_name, settled, reserved)
VALUES (:tenant, :cap, :window, 0, 0) ON CONFLICT DO NOTHING
"""

OPEN_SHARED_BUDGET = """
INSERT INTO shared_budgets (cap, window_name, settled, reserved)
VALUES (:cap, :window, 0, 0) ON CONFLICT DO NOTHING
"""

_ADD = "SET settled = settled + :settled, reserved = reserved + :reserved"

CHARGE = f"""
UPDATE budgets {_ADD}
WHERE tenant_id = :tenant AND cap = :cap AND window_name = :window
"""

CHARGE_SHARED = f"UPDATE shared_budgets {_ADD} WHERE cap = :cap AND window_name = :window"

WITHIN = " AND settled + reserved + :reserved <= :limit"

Writer = Callable[[Transaction, TenantId, Sequence[Move]], None]


def write_moves(tx: Transaction, tenant: TenantId, moves: Sequence[Move]) -> None:
    """Write moves, statement by statement. Raises Missed when the transaction must be undone."""
    for move in sorted(moves, key=lambda move: move.after.key):
        _write_hold(tx, tenant, move)
    for change in total_changes(moves):
        _add_to_total(tx, tenant, change)
    added_as_they_are(tx, tenant, notes(moves))


def _write_hold(tx: Transaction, tenant: TenantId, move: Move) -> None:
    values = hold_values(move.after)
    if move.before is None:
        changed = tx.change(PROMISE, tenant=tenant, **values)
    else:
        changed = tx.change(
            MOVE,
            tenant=tenant,
            seen_phase=move.before.phase.value,
            seen_until_at=moment_text(move.before.until),
            **{name: values[name] for name in ("key", "phase", "closed_at", "reason", "actual")},
        )
    if not changed:
        raise Missed(move.after.key)


def _add_to_total(tx: Transaction, tenant: TenantId, change: TotalChange) -> None:
    place: dict[str, Value] = {"cap": change.cap, "window": change.window}
    query, opening = CHARGE_SHARED, OPEN_SHARED_BUDGET
    if not change.shared:
        query, opening, place = CHARGE, OPEN_BUDGET, place | {"tenant": tenant}
    values = place | {"settled": change.settled, "reserved": change.reserved}
    if change.limit is not None:
        query, values = query + WITHIN, values | {"limit": change.limit}
    # Almost always there already, so it is looked for before it is made.
    if tx.change(query, **values):
        return
    tx.change(opening, **place)
    if not tx.change(query, **values):
        raise Missed(change.cap)


ATTEMPTS = 20  # each miss means that somebody else got something done

HELD = f"SELECT {HOLD} FROM holds WHERE tenant_id = :tenant AND key = :key"

HELD_AND_LATEST = f"""
SELECT (SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1), {HOLD}
FROM holds WHERE tenant_id = :tenant AND key = :key
"""

PAGE = f"""
SELECT {HOLD} FROM holds WHERE tenant_id = :tenant AND key > :after AND phase IN (%s)
"""

SILENT = f"""
SELECT {HOLD} FROM holds
WHERE tenant_id = :tenant AND until_at <= :now AND closed_at IS NULL AND phase IN ('HELD', 'SENT')
ORDER BY key
"""

RENEW = """
UPDATE holds SET until_at = CASE WHEN until_at < :until THEN :until ELSE until_at END
WHERE tenant_id = :tenant AND owner = :owner AND closed_at IS NULL AND phase IN ('HELD', 'SENT')
"""


class SqlMoney(SqlStanding):
    """A `MoneyStore` in the tables `holds`, `budgets`, `cap_changes` and `stops`."""

    def __init__(
        self, database: SqlDatabase, tenant: TenantId, *, write: Writer = write_moves
    ) -> None:
        super().__init__(database, tenant)
        self._write = write

    async def reserve(
        self,
        request: Request,
        *,
        caps: Sequence[Cap],
        reset: ResetRule,
        owner: str,
        until: datetime,
        now: datetime,
    ) -> Hold | Refused:
        request, owner = kept_request(request), kept_owner(owner)
        until, now = in_utc(until), in_utc(now)

        def reserve(tx: Transaction, *, looking: bool) -> Hold | Refused:
            stands, known = asked(tx, self._tenant, request, caps, now=now)
            if known:
                [row] = tx.rows(HELD, tenant=self._tenant, key=request.key)
                return asked_again(hold_of(row), request)
            moment = stands.moment(now)
            wanted = considered(request, caps, stands, reset=reset, now=now)
            if not isinstance(wanted, Refused) and hold_doors(tx, self._tenant, wanted, stands):
                stands, _ = asked(tx, self._tenant, request, caps, now=now)
                wanted = considered(request, caps, stands, reset=reset, now=now)
            if looking and not isinstance(wanted, Refused):
                wanted = first_refusal(wanted, used(tx, self._tenant, wanted)) or wanted
            if isinstance(wanted, Refused):
                added_as_they_are(tx, self._tenant, [refused_note(request, wanted, now=moment)])
                return wanted
            end = stands.lease_end(until, now=now)
            hold = phases_of.held(request, wanted, owner=owner, until=end, now=moment)
            note = reserved_note(hold, now=moment)
            self._write(tx, self._tenant, [Move(before=None, after=hold, note=note)])
            return hold

        return await self._until_it_stands(reserve)

    async def sent(self, key: str, *, now: datetime) -> Hold:
        return await self._moved(key, now, lambda hold, _: phases_of.sent(hold))

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Hold:
        return await self._moved(
            key, now, lambda hold, moment: phases_of.settled(hold, actual, now=moment)
        )

    async def release(self, key: str, *, reason: str, now: datetime) -> Hold:
        kept_text(reason, what="a reason")
        return await self._moved(
            key, now, lambda hold, moment: phases_of.released(hold, now=moment, reason=reason)
        )

    async def keep_aside(self, key: str, *, reason: str, now: datetime) -> Hold:
        kept_text(reason, what="a reason")
        return await self._moved(key, now, lambda hold, _: phases_of.uncertain(hold, reason=reason))

    async def renew(self, owner: str, *, until: datetime, now: datetime) -> int:
        owner, until, now = kept_owner(owner), in_utc(until), in_utc(now)

        def renew(tx: Transaction) -> int:
            end = standing(tx, self._tenant).lease_end(until, now=now)
            return tx.change(RENEW, tenant=self._tenant, owner=owner, until=moment_text(end))

        return await self._database.write(renew)

    async def expire(self, *, now: datetime) -> list[Hold]:
        now = in_utc(now)

        def expire(tx: Transaction, **_: bool) -> list[Hold]:
            moment = standing(tx, self._tenant).moment(now)
            moves = []
            for row in tx.rows(SILENT, tenant=self._tenant, now=moment_text(moment)):
                try:
                    before = hold_of(row)
                except TransientError:
                    continue  # it still counts, and must not keep the others from coming back
                after = phases_of.lapsed(before, now=moment)
                note = phase_note(before, after, now=moment)
                moves.append(Move(before=before, after=after, note=note))
            self._write(tx, self._tenant, moves)
            return [move.after for move in moves]

        return await self._until_it_stands(expire)

    async def hold(self, key: str) -> Hold | None:
        key = kept_name(key, what="a key")
        rows = await self._database.read(lambda tx: tx.rows(HELD, tenant=self._tenant, key=key))
        return hold_of(rows[0]) if rows else None

    async def holds(
        self, *, phases: Sequence[Phase], after: str = "", limit: int = 1000
    ) -> list[Hold]:
        after = kept_name(after, what="a key")
        if not phases:
            return []
        query = PAGE % ", ".join(f"'{phase.value}'" for phase in phases)
        if OPEN.issuperset(phases):
            query += " AND closed_at IS NULL"  # there are few of these, and an index of them
        query += " ORDER BY key LIMIT :limit"
        rows = await self._database.read(
            lambda tx: tx.rows(query, tenant=self._tenant, after=after, limit=limit)
        )
        return [hold_of(row) for row in rows]

    async def _moved(self, key: str, now: datetime, rule: Callable[[Hold, datetime], Hold]) -> Hold:
        key, now = kept_name(key, what="a key"), in_utc(now)

        def move(tx: Transaction, **_: bool) -> Hold:
            rows = tx.rows(HELD_AND_LATEST, tenant=self._tenant, key=key)
            if not rows:
                raise ConflictError(f"nothing was promised under {key}; reserve first")
            with refusing_garbage(LAST_MOMENT):
                moment = Standing(latest=optional_moment(rows[0][0])).moment(now)
            before = hold_of(rows[0][1:])
            after = rule(before, moment)
            if after != before:
                note = phase_note(before, after, now=moment)
                self._write(tx, self._tenant, [Move(before=before, after=after, note=note)])
            return after

        return await self._until_it_stands(move)

    async def _until_it_stands(self, verb: Callable[..., Result]) -> Result:
        for attempt in range(ATTEMPTS):
            try:
                return await self._database.write(partial(verb, looking=attempt > 0))
            except Missed:
                continue
        raise TransientError(
            f"others were faster {ATTEMPTS} times in a row; nothing was done, try again later"
        )
