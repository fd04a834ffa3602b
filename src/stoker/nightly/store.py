"""One tenant's units of work and what it wrote into its CRM, in SQL.

Where many workers have transactions open at once, whoever takes units passes over those that
another is just taking; a file has one writer, and nothing to pass over.

How units of work and what was written into a CRM stand in rows.

Rows that come out are read as either database's driver gives them: moments and JSON as text or
decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from stoker.accounts.company_store import put_dossier
from stoker.accounts.model import CompanyId, Dossier, SentRow
from stoker.accounts.row_checks import kept_dossier, kept_id, kept_owner, kept_run_name
from stoker.base.errors import ConflictError
from stoker.base.jsontools import compact_json
from stoker.base.types import Depth, TenantId
from stoker.db.codec import kept_text
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    asked,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)
from stoker.db.values import kept_name
from stoker.enrichment.model import Unit, UnitState
from stoker.nightly.row_checks import kept_end, kept_sent, kept_unit, latest_sent

UNIT = (
    "company_id, place, depth, state, owner, until_at, because, reasons, cost, saved, seconds, "
    "ended_at"
)

SENT = "run, external_id, model, digest, sent, before, at"


def unit_values(unit: Unit) -> dict[str, Value]:
    """Return a unit as the values of its row, in the order of `UNIT`."""
    return {
        "company_id": unit.company,
        "place": unit.place,
        "depth": unit.depth,
        "state": unit.state,
        "owner": unit.owner,
        "until_at": optional_moment_text(unit.until),
        "because": unit.because,
        "reasons": compact_json(list(unit.reasons)),
        "cost": compact_json(unit.cost),
        "saved": compact_json(unit.saved),
        "seconds": compact_json(unit.seconds),
        "ended_at": optional_moment_text(unit.ended_at),
    }


def unit_of(row: tuple[Any, ...]) -> Unit:
    """Return the unit in a row of `UNIT`."""
    company, place, depth, state, owner, until_at, because, reasons, cost, saved, seconds, end = row
    return Unit(
        company=company,
        place=place,
        depth=Depth(depth),
        state=UnitState(state),
        owner=owner,
        until=optional_moment(until_at),
        because=because,
        reasons=tuple(json_value(reasons)),
        cost=json_value(cost),
        saved=json_value(saved),
        seconds=json_value(seconds),
        ended_at=optional_moment(end),
    )


def sent_row(row: SentRow) -> tuple[Value, ...]:
    """Return what was written into a record as its row, in the order of `SENT`."""
    return (
        row.run,
        row.external_id,
        row.model,
        row.digest,
        compact_json(row.values),
        compact_json(row.before),
        moment_text(row.at),
    )


def sent_of(row: tuple[Any, ...]) -> SentRow:
    """Return what was written, from a row of `SENT`."""
    run, external_id, model, digest, sent, before, at = row
    return SentRow(
        external_id=external_id,
        model=model,
        digest=digest,
        values=json_value(sent),
        before=json_value(before),
        run=run,
        at=moment(at),
    )


PASSING_OVER = "FOR UPDATE SKIP LOCKED"

PLAN = f"""
INSERT INTO company_enrichment_runs (tenant_id, run, {UNIT})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

PLANNED = """
SELECT count(*) FROM asked JOIN company_enrichment_runs u
    ON u.tenant_id = :tenant AND u.run = :run AND u.company_id = asked.id
"""

# The next ones are looked up once and for all, before any is changed.
TAKE = f"""
WITH next_units AS MATERIALIZED (
    SELECT company_id FROM company_enrichment_runs
    WHERE tenant_id = :tenant AND run = :run AND state IN ('waiting', 'taken')
        AND (state = 'waiting' OR until_at IS NULL OR until_at <= :now)
    ORDER BY place LIMIT :limit {{passing_over}}
)
UPDATE company_enrichment_runs SET state = 'taken', owner = :owner, until_at = :until
WHERE tenant_id = :tenant AND run = :run AND company_id IN (SELECT company_id FROM next_units)
RETURNING {UNIT}
"""

TAKEN = "WHERE tenant_id = :tenant AND run = :run AND state = 'taken' AND owner = :owner"

KEEP = f"""
UPDATE company_enrichment_runs SET
    until_at = CASE WHEN until_at > :until THEN until_at ELSE :until END {TAKEN}
"""

GIVE_BACK = f"""
UPDATE company_enrichment_runs SET state = 'waiting', owner = '', until_at = NULL {TAKEN}
"""

FINISH = """
UPDATE company_enrichment_runs SET depth = :depth, state = :state, until_at = :until_at,
    because = :because, reasons = :reasons, cost = :cost, saved = :saved, seconds = :seconds,
    ended_at = :ended_at
WHERE tenant_id = :tenant AND run = :run AND company_id = :company_id AND owner = :owner
    AND state IN ('waiting', 'taken')
"""

UNITS = f"""
SELECT {UNIT} FROM company_enrichment_runs
WHERE tenant_id = :tenant AND run = :run AND place > :after
"""

COUNT = """
SELECT state, count(*) FROM company_enrichment_runs
WHERE tenant_id = :tenant AND run = :run GROUP BY state
"""

LAST_LOOK = f"""
SELECT run, {UNIT} FROM company_enrichment_runs
WHERE tenant_id = :tenant AND company_id = :company ORDER BY run DESC LIMIT 1
"""

KEEP_SENT = f"""
INSERT INTO crm_sent_rows (tenant_id, {SENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, run, external_id) DO UPDATE SET
    model = excluded.model, digest = excluded.digest, sent = excluded.sent, at = excluded.at
"""

SENT_ROWS = f"""
SELECT s.{SENT.replace(", ", ", s.")}
FROM asked JOIN crm_sent_rows s ON s.tenant_id = :tenant AND s.external_id = asked.id
"""

SENT_BY = f"""
SELECT {SENT} FROM crm_sent_rows WHERE tenant_id = :tenant AND run = :run AND external_id > :after
ORDER BY external_id LIMIT :limit
"""


class SqlNights:
    """A `NightStore` in the tables `company_enrichment_runs` and `crm_sent_rows`."""

    def __init__(self, database: SqlDatabase, tenant: TenantId, *, passing_over: str = "") -> None:
        self._database = database
        self._tenant = tenant
        self._take = TAKE.format(passing_over=passing_over)

    async def plan_units(self, run: str, units: Sequence[Unit]) -> int:
        kept_run_name(run)
        planned: dict[str, Unit] = {}
        for unit in units:
            planned.setdefault(unit.company, kept_unit(unit))
        rows = [
            (self._tenant, run, *unit_values(planned[company]).values())
            for company in sorted(planned)
        ]

        def plan(tx: Transaction) -> int:
            new = tx.change_many(PLAN, rows)
            if new < len(rows) and self._there(tx, run, sorted(planned)) < len(rows):
                raise ConflictError("a place in the order is another unit's; nothing was written")
            return new

        return await self._database.write(plan) if rows else 0

    async def take_units(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[Unit]:
        values = {
            "until": moment_text(until),
            "now": moment_text(now),
            "owner": kept_owner(owner),
            "run": kept_run_name(run),
        }
        rows = await self._database.write(
            lambda tx: tx.rows(self._take, tenant=self._tenant, limit=limit, **values)
        )
        return sorted(map(unit_of, rows), key=lambda unit: unit.place)

    async def keep_units(self, run: str, *, owner: str, until: datetime) -> int:
        return await self._change_taken(KEEP, run, owner, until=moment_text(until))

    async def finish_unit(self, run: str, unit: Unit, dossier: Dossier | None) -> bool:
        values, found = unit_values(kept_end(unit, dossier)), dossier and kept_dossier(dossier)
        values["run"] = kept_run_name(run)
        del values["place"]

        def finish(tx: Transaction) -> bool:
            if not tx.change(FINISH, tenant=self._tenant, **values):
                return False
            if found is not None:
                put_dossier(tx, self._tenant, found)
            return True

        return await self._database.write(finish)

    async def give_back_units(self, run: str, *, owner: str) -> int:
        return await self._change_taken(GIVE_BACK, run, owner)

    async def units(
        self, run: str, *, states: Sequence[UnitState] = (), after: int = -1, limit: int = 1000
    ) -> list[Unit]:
        query = UNITS
        values: dict[str, Value] = {"run": kept_run_name(run), "after": after, "limit": limit}
        if states:
            named: dict[str, Value] = {f"s{n}": state for n, state in enumerate(states)}
            query, values = f"{query} AND state IN (:{', :'.join(named)})", values | named
        query += " ORDER BY place LIMIT :limit"
        rows = await self._database.read(lambda tx: tx.rows(query, tenant=self._tenant, **values))
        return [unit_of(row) for row in rows]

    async def count_units(self, run: str) -> dict[UnitState, int]:
        kept_run_name(run)
        rows = await self._database.read(lambda tx: tx.rows(COUNT, tenant=self._tenant, run=run))
        return {UnitState(state): count for state, count in rows}

    async def last_look(self, company: CompanyId) -> tuple[str, Unit] | None:
        kept_id(company)
        rows = await self._database.read(
            lambda tx: tx.rows(LAST_LOOK, tenant=self._tenant, company=company)
        )
        return (rows[0][0], unit_of(rows[0][1:])) if rows else None

    async def sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        names = sorted({kept_name(name, what="a record's external id") for name in external_ids})

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = []
            for query, some in asked(SENT_ROWS, names):
                found += tx.rows(query, tenant=self._tenant, **some)
            return found

        return latest_sent(map(sent_of, await self._database.read(find) if names else []))

    async def keep_sent(self, rows: Sequence[SentRow]) -> None:
        kept = sorted(kept_sent(rows), key=lambda row: (row.run, row.external_id))
        values = [(self._tenant, *sent_row(row)) for row in kept]
        if values:
            await self._database.write(lambda tx: tx.change_many(KEEP_SENT, values))

    async def sent_by(self, run: str, *, after: str = "", limit: int = 1000) -> list[SentRow]:
        kept_text(after, what="a record's external id")
        values = {"run": kept_run_name(run), "after": after}
        rows = await self._database.read(
            lambda tx: tx.rows(SENT_BY, tenant=self._tenant, limit=limit, **values)
        )
        return [sent_of(row) for row in rows]

    async def _change_taken(self, query: str, run: str, owner: str, **values: Value) -> int:
        values |= {"run": kept_run_name(run), "owner": kept_owner(owner)}
        return await self._database.write(
            lambda tx: tx.change(query, tenant=self._tenant, **values)
        )

    def _there(self, tx: Transaction, run: str, companies: Sequence[str]) -> int:
        counts = [
            tx.rows(query, tenant=self._tenant, run=run, **some)[0][0]
            for query, some in asked(PLANNED, companies)
        ]
        return sum(counts)
