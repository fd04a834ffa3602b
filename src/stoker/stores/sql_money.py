"""One tenant's promises, in SQL. What may be spent is the core's to say.

A verb reads what stands, asks the core, and writes the moves that follow (`sql_moves.py`). Where
others may have been faster, the writing notices, everything is undone, and the verb begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from stoker.core import holds as phases_of
from stoker.core.budget import Refused, Request, first_refusal
from stoker.core.budget_windows import ResetRule
from stoker.core.caps import Cap
from stoker.core.gate import Standing, asked_again, considered, kept_name, kept_owner, kept_request
from stoker.core.holds import OPEN, Hold, Phase
from stoker.core.keeping import kept_text
from stoker.core.model import TenantId, in_utc
from stoker.core.money_notes import phase_note, refused_note, reserved_note
from stoker.core.movements import Move
from stoker.errors import ConflictError, TransientError
from stoker.stores.money_rows import HOLD, hold_of
from stoker.stores.sql import (
    Result,
    SqlDatabase,
    Transaction,
    moment_text,
    optional_moment,
    refusing_garbage,
)
from stoker.stores.sql_ledger import added_as_they_are
from stoker.stores.sql_moves import Missed, Writer, write_moves
from stoker.stores.sql_standing import (
    LAST_MOMENT,
    SqlStanding,
    asked,
    hold_doors,
    standing,
    used,
)

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
