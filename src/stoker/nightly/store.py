"""Work items and CRM rows of one tenant, in SQL.

On Postgres, workers that claim items skip rows that another worker is claiming; SQLite has one
writer. Rows are parsed as either driver returns them: times and JSON as text or decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from stoker.accounts.company_store import save_company_record
from stoker.accounts.model import CompanyId, CompanyRecord, SentRow
from stoker.accounts.row_checks import (
    validate_company_id,
    validate_company_record,
    validate_owner,
    validate_run_name,
)
from stoker.base.errors import ConflictError
from stoker.base.jsontools import compact_json
from stoker.base.types import Depth, TenantId
from stoker.db.codec import validate_text
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_json,
    from_db_time,
    from_optional_db_time,
    split_into_batches,
    to_db_time,
    to_optional_db_time,
)
from stoker.db.values import validate_key
from stoker.enrichment.model import WorkItem, WorkState
from stoker.nightly.row_checks import (
    choose_latest_sent,
    validate_item,
    validate_item_end,
    validate_sent_rows,
)

ITEM_COLUMNS = (
    "company_id, place, depth, state, owner, until_at, because, reasons, cost, saved, seconds, "
    "ended_at"
)

SENT_COLUMNS = "run, external_id, model, digest, sent, before, at"


def item_to_values(unit: WorkItem) -> dict[str, Value]:
    """Return an item as the values of its row, in the order of `ITEM_COLUMNS`."""
    return {
        "company_id": unit.company,
        "place": unit.rank,
        "depth": unit.depth,
        "state": unit.state,
        "owner": unit.owner,
        "until_at": to_optional_db_time(unit.claimed_until),
        "because": unit.reason,
        "reasons": compact_json(list(unit.reasons)),
        "cost": compact_json(unit.cost),
        "saved": compact_json(unit.saved),
        "seconds": compact_json(unit.seconds),
        "ended_at": to_optional_db_time(unit.ended_at),
    }


def parse_item(row: tuple[Any, ...]) -> WorkItem:
    """Return the item in a row of `ITEM_COLUMNS`."""
    company, place, depth, state, owner, until_at, because, reasons, cost, saved, seconds, end = row
    return WorkItem(
        company=company,
        rank=place,
        depth=Depth(depth),
        state=WorkState(state),
        owner=owner,
        claimed_until=from_optional_db_time(until_at),
        reason=because,
        reasons=tuple(from_db_json(reasons)),
        cost=from_db_json(cost),
        saved=from_db_json(saved),
        seconds=from_db_json(seconds),
        ended_at=from_optional_db_time(end),
    )


def sent_to_row(row: SentRow) -> tuple[Value, ...]:
    """Return what was written into a record as its row, in the order of `SENT_COLUMNS`."""
    return (
        row.run,
        row.external_id,
        row.model,
        row.digest,
        compact_json(row.values),
        compact_json(row.before),
        to_db_time(row.at),
    )


def parse_sent_row(row: tuple[Any, ...]) -> SentRow:
    """Return what was written, from a row of `SENT_COLUMNS`."""
    run, external_id, model, digest, sent, before, at = row
    return SentRow(
        external_id=external_id,
        model=model,
        digest=digest,
        values=from_db_json(sent),
        before=from_db_json(before),
        run=run,
        at=from_db_time(at),
    )


SKIP_LOCKED = "FOR UPDATE SKIP LOCKED"

INSERT_ITEM = f"""
INSERT INTO company_enrichment_runs (tenant_id, run, {ITEM_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

COUNT_PLANNED = """
SELECT count(*) FROM asked JOIN company_enrichment_runs u
    ON u.tenant_id = :tenant AND u.run = :run AND u.company_id = asked.id
"""

# The next ones are looked up once and for all, before any is changed.
CLAIM_ITEMS = f"""
WITH next_units AS MATERIALIZED (
    SELECT company_id FROM company_enrichment_runs
    WHERE tenant_id = :tenant AND run = :run AND state IN ('waiting', 'taken')
        AND (state = 'waiting' OR until_at IS NULL OR until_at <= :now)
    ORDER BY place LIMIT :limit {{passing_over}}
)
UPDATE company_enrichment_runs SET state = 'taken', owner = :owner, until_at = :until
WHERE tenant_id = :tenant AND run = :run AND company_id IN (SELECT company_id FROM next_units)
RETURNING {ITEM_COLUMNS}
"""

CLAIMED_BY_OWNER = "WHERE tenant_id = :tenant AND run = :run AND state = 'taken' AND owner = :owner"

EXTEND_CLAIMS = f"""
UPDATE company_enrichment_runs SET
    until_at = CASE WHEN until_at > :until THEN until_at ELSE :until END {CLAIMED_BY_OWNER}
"""

RELEASE_ITEMS = f"""
UPDATE company_enrichment_runs SET state = 'waiting', owner = '', until_at = NULL {CLAIMED_BY_OWNER}
"""

FINISH_ITEM = """
UPDATE company_enrichment_runs SET depth = :depth, state = :state, until_at = :until_at,
    because = :because, reasons = :reasons, cost = :cost, saved = :saved, seconds = :seconds,
    ended_at = :ended_at
WHERE tenant_id = :tenant AND run = :run AND company_id = :company_id AND owner = :owner
    AND state IN ('waiting', 'taken')
"""

SELECT_ITEMS = f"""
SELECT {ITEM_COLUMNS} FROM company_enrichment_runs
WHERE tenant_id = :tenant AND run = :run AND place > :after
"""

COUNT_ITEMS = """
SELECT state, count(*) FROM company_enrichment_runs
WHERE tenant_id = :tenant AND run = :run GROUP BY state
"""

# One step of the index per run: a run may have a hundred thousand items.
SELECT_ITEM_RUNS = """
WITH RECURSIVE names (run) AS (
    SELECT min(run) FROM company_enrichment_runs WHERE tenant_id = :tenant
    UNION ALL
    SELECT (SELECT min(run) FROM company_enrichment_runs
        WHERE tenant_id = :tenant AND run > names.run)
    FROM names WHERE names.run IS NOT NULL
)
SELECT run FROM names WHERE run IS NOT NULL
"""

DELETE_ITEMS = """
DELETE FROM company_enrichment_runs WHERE tenant_id = :tenant AND run = :run
    AND company_id IN (SELECT company_id FROM company_enrichment_runs
        WHERE tenant_id = :tenant AND run = :run LIMIT :limit)
"""

SELECT_LAST_ITEM = f"""
SELECT run, {ITEM_COLUMNS} FROM company_enrichment_runs
WHERE tenant_id = :tenant AND company_id = :company ORDER BY run DESC LIMIT 1
"""

SELECT_LAST_ITEMS = f"""
SELECT u.run, u.{ITEM_COLUMNS.replace(", ", ", u.")} FROM asked JOIN company_enrichment_runs u
    ON u.tenant_id = :tenant AND u.company_id = asked.id
WHERE u.run = (SELECT max(latest.run) FROM company_enrichment_runs latest
    WHERE latest.tenant_id = :tenant AND latest.company_id = asked.id)
"""

UPSERT_SENT_ROW = f"""
INSERT INTO crm_sent_rows (tenant_id, {SENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, run, external_id) DO UPDATE SET
    model = excluded.model, digest = excluded.digest, sent = excluded.sent, at = excluded.at
"""

SELECT_SENT_ROWS = f"""
SELECT s.{SENT_COLUMNS.replace(", ", ", s.")}
FROM asked JOIN crm_sent_rows s ON s.tenant_id = :tenant AND s.external_id = asked.id
"""

SELECT_SENT_BY_RUN = f"""
SELECT {SENT_COLUMNS} FROM crm_sent_rows WHERE tenant_id = :tenant AND run = :run AND external_id >
:after
ORDER BY external_id LIMIT :limit
"""


class SqlWorkStore:
    """A `NightStore` in the tables `company_enrichment_runs` and `crm_sent_rows`."""

    def __init__(self, database: Database, tenant: TenantId, *, passing_over: str = "") -> None:
        self._database = database
        self._tenant = tenant
        self._claim_query = CLAIM_ITEMS.format(passing_over=passing_over)

    async def insert_items(self, run: str, units: Sequence[WorkItem]) -> int:
        validate_run_name(run)
        planned: dict[str, WorkItem] = {}
        for item in units:
            planned.setdefault(item.company, validate_item(item))
        rows = [
            (self._tenant, run, *item_to_values(planned[company]).values())
            for company in sorted(planned)
        ]

        def plan(tx: Transaction) -> int:
            new = tx.execute_many(INSERT_ITEM, rows)
            if new < len(rows) and self._count_existing(tx, run, sorted(planned)) < len(rows):
                raise ConflictError("a place in the order is another unit's; nothing was written")
            return new

        return await self._database.write(plan) if rows else 0

    async def claim_items(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[WorkItem]:
        values = {
            "until": to_db_time(until),
            "now": to_db_time(now),
            "owner": validate_owner(owner),
            "run": validate_run_name(run),
        }
        rows = await self._database.write(
            lambda tx: tx.query(self._claim_query, tenant=self._tenant, limit=limit, **values)
        )
        return sorted(map(parse_item, rows), key=lambda unit: unit.rank)

    async def extend_claims(self, run: str, *, owner: str, until: datetime) -> int:
        return await self._update_claimed(EXTEND_CLAIMS, run, owner, until=to_db_time(until))

    async def finish_item(self, run: str, unit: WorkItem, dossier: CompanyRecord | None) -> bool:
        values, found = (
            item_to_values(validate_item_end(unit, dossier)),
            dossier and validate_company_record(dossier),
        )
        values["run"] = validate_run_name(run)
        del values["place"]

        def finish(tx: Transaction) -> bool:
            if not tx.execute(FINISH_ITEM, tenant=self._tenant, **values):
                return False
            if found is not None:
                save_company_record(tx, self._tenant, found)
            return True

        return await self._database.write(finish)

    async def release_items(self, run: str, *, owner: str) -> int:
        return await self._update_claimed(RELEASE_ITEMS, run, owner)

    async def list_items(
        self, run: str, *, states: Sequence[WorkState] = (), after: int = -1, limit: int = 1000
    ) -> list[WorkItem]:
        query = SELECT_ITEMS
        values: dict[str, Value] = {"run": validate_run_name(run), "after": after, "limit": limit}
        if states:
            named: dict[str, Value] = {f"s{n}": state for n, state in enumerate(states)}
            query, values = f"{query} AND state IN (:{', :'.join(named)})", values | named
        query += " ORDER BY place LIMIT :limit"
        rows = await self._database.read(lambda tx: tx.query(query, tenant=self._tenant, **values))
        return [parse_item(row) for row in rows]

    async def count_items(self, run: str) -> dict[WorkState, int]:
        validate_run_name(run)
        rows = await self._database.read(
            lambda tx: tx.query(COUNT_ITEMS, tenant=self._tenant, run=run)
        )
        return {WorkState(state): count for state, count in rows}

    async def list_item_runs(self) -> list[str]:
        rows = await self._database.read(lambda tx: tx.query(SELECT_ITEM_RUNS, tenant=self._tenant))
        return [run for (run,) in rows]

    async def delete_items(self, run: str, *, limit: int = 10_000) -> int:
        validate_run_name(run)
        return await self._database.write(
            lambda tx: tx.execute(DELETE_ITEMS, tenant=self._tenant, run=run, limit=limit)
        )

    async def find_last_item(self, company: CompanyId) -> tuple[str, WorkItem] | None:
        validate_company_id(company)
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_LAST_ITEM, tenant=self._tenant, company=company)
        )
        return (rows[0][0], parse_item(rows[0][1:])) if rows else None

    async def find_last_items(
        self, companies: Sequence[CompanyId]
    ) -> dict[CompanyId, tuple[str, WorkItem]]:
        ids = sorted({validate_company_id(company) for company in companies})

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = []
            for query, some in split_into_batches(SELECT_LAST_ITEMS, ids):
                rows += tx.query(query, tenant=self._tenant, **some)
            return rows

        rows = await self._database.read(find) if ids else []
        items = [(row[0], parse_item(row[1:])) for row in rows]
        return {item.company: (run, item) for run, item in items}

    async def find_sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        names = sorted({validate_key(name, what="a record's external id") for name in external_ids})

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = []
            for query, some in split_into_batches(SELECT_SENT_ROWS, names):
                found += tx.query(query, tenant=self._tenant, **some)
            return found

        return choose_latest_sent(
            map(parse_sent_row, await self._database.read(find) if names else [])
        )

    async def save_sent_rows(self, rows: Sequence[SentRow]) -> None:
        valid = sorted(validate_sent_rows(rows), key=lambda row: (row.run, row.external_id))
        values = [(self._tenant, *sent_to_row(row)) for row in valid]
        if values:
            await self._database.write(lambda tx: tx.execute_many(UPSERT_SENT_ROW, values))

    async def list_sent_rows(
        self, run: str, *, after: str = "", limit: int = 1000
    ) -> list[SentRow]:
        validate_text(after, what="a record's external id")
        values = {"run": validate_run_name(run), "after": after}
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_SENT_BY_RUN, tenant=self._tenant, limit=limit, **values)
        )
        return [parse_sent_row(row) for row in rows]

    async def _update_claimed(self, query: str, run: str, owner: str, **values: Value) -> int:
        values |= {"run": validate_run_name(run), "owner": validate_owner(owner)}
        return await self._database.write(
            lambda tx: tx.execute(query, tenant=self._tenant, **values)
        )

    def _count_existing(self, tx: Transaction, run: str, companies: Sequence[str]) -> int:
        counts = [
            tx.query(query, tenant=self._tenant, run=run, **some)[0][0]
            for query, some in split_into_batches(COUNT_PLANNED, companies)
        ]
        return sum(counts)
