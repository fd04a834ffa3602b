"""Work items of one tenant, in SQL.

On Postgres, workers that claim items skip rows that another worker is claiming; SQLite has one
writer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from stoker.accounts.model import CompanyId, CompanyRecord
from stoker.accounts.store import save_company_record
from stoker.base.errors import ConflictError, PermanentError
from stoker.db.codec import validate_key
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    iter_pages,
    split_into_batches,
    to_db_time,
)
from stoker.enrichment.model import END_STATES, WorkItem, WorkState
from stoker.enrichment.schema import ITEMS

SKIP_LOCKED = "FOR UPDATE SKIP LOCKED"

PAGE_SIZE = 500  # items in memory

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
    ORDER BY place LIMIT :limit {{skip_locked}}
)
UPDATE company_enrichment_runs SET state = 'taken', owner = :owner, until_at = :until
WHERE tenant_id = :tenant AND run = :run AND company_id IN (SELECT company_id FROM next_units)
RETURNING {ITEMS.names}
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
UPDATE company_enrichment_runs SET depth = :depth, state = :state, until_at = NULL,
    because = :because, reasons = :reasons, cost = :cost, saved = :saved, seconds = :seconds,
    ended_at = :ended_at, skipped = :skipped, causes = :causes
WHERE tenant_id = :tenant AND run = :run AND company_id = :company_id AND owner = :owner
    AND state IN ('waiting', 'taken')
"""

COUNT_ITEMS = """
SELECT state, count(*) FROM company_enrichment_runs
WHERE tenant_id = :tenant AND run = :run GROUP BY state
"""

SELECT_LAST_ITEMS = f"""
SELECT u.run, {ITEMS.names_of("u")} FROM asked JOIN company_enrichment_runs u
    ON u.tenant_id = :tenant AND u.company_id = asked.id
WHERE u.run = (SELECT max(latest.run) FROM company_enrichment_runs latest
    WHERE latest.tenant_id = :tenant AND latest.company_id = asked.id)
"""

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


class WorkStore:
    """One tenant's work items, and what it has written into its CRM. Each verb is atomic."""

    def __init__(self, database: Database, *, skip_locked: str = "") -> None:
        self._database = database
        self._claim_query = CLAIM_ITEMS.format(skip_locked=skip_locked)

    async def insert_items(self, run: str, units: Sequence[WorkItem]) -> int:
        """Add items to a run; return how many were new. One already there stays as it is.

        Raises ConflictError, and adds nothing, when a new one's place in the order is another's.
        """
        validate_key(run, what="a run's name")
        planned: dict[str, WorkItem] = {}
        for item in units:
            planned.setdefault(item.company, ITEMS.store(item))

        def plan(tx: Transaction) -> int:
            new = ITEMS.insert_new(tx, planned.values(), run)
            if new < len(planned) and _count_existing(tx, run, sorted(planned)) < len(planned):
                raise ConflictError("a place in the order is another unit's; nothing was written")
            return new

        return await self._database.write(plan) if planned else 0

    async def claim_items(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[WorkItem]:
        """Claim the next items that are free, or whose owner's claim expired, in their order.

        A claim has expired when its `until` is not after `now`. Of many workers each item goes to
        one. Claiming extends no existing claim.
        """
        values = {
            "until": to_db_time(until),
            "now": to_db_time(now),
            "owner": validate_key(owner, what="an owner"),
            "run": validate_key(run, what="a run's name"),
        }
        rows = await self._database.write(
            lambda tx: tx.query(self._claim_query, limit=limit, **values)
        )
        return sorted(map(ITEMS.read, rows), key=lambda item: item.rank)

    async def extend_claims(self, run: str, *, owner: str, until: datetime) -> int:
        """Extend everything this owner has claimed; return how many. It never shortens."""
        return await self._update_claimed(EXTEND_CLAIMS, run, owner, until=to_db_time(until))

    async def finish_item(self, run: str, unit: WorkItem, dossier: CompanyRecord | None) -> bool:
        """Write how an item ended, and what is known about its company now, together.

        False, and nothing is written, when the item has ended already, has another owner or was
        never planned; an unclaimed item has the empty owner. Its rank stays as planned. The record
        replaces what was known, contacts and score included; empty values never do.
        """
        check_item_end(unit, dossier)
        values = ITEMS.values(unit) | {"run": validate_key(run, what="a run's name")}
        del values["place"], values["until_at"], values["first_lookup"]

        def finish(tx: Transaction) -> bool:
            if not tx.execute(FINISH_ITEM, **values):
                return False
            if dossier is not None:
                save_company_record(tx, dossier)
            return True

        return await self._database.write(finish)

    async def release_items(self, run: str, *, owner: str) -> int:
        """Release everything this owner has claimed and not finished; return how many."""
        return await self._update_claimed(RELEASE_ITEMS, run, owner)

    async def list_items(
        self, run: str, *, states: Sequence[WorkState] = (), after: int = -1, limit: int = 1000
    ) -> list[WorkItem]:
        """Return one page of a run's items in their order, beginning after a place."""
        where = "run = :run AND place > :after"
        values: dict[str, Value] = {
            "run": validate_key(run, what="a run's name"),
            "after": after,
            "limit": limit,
        }
        if states:
            named: dict[str, Value] = {f"s{n}": state for n, state in enumerate(states)}
            where, values = f"{where} AND state IN (:{', :'.join(named)})", values | named
        return await self._database.read(
            lambda tx: ITEMS.find(tx, f"{where} ORDER BY place LIMIT :limit", **values)
        )

    def iter_items(
        self, run: str, *, states: Sequence[WorkState] = (), page: int = PAGE_SIZE
    ) -> AsyncIterator[Sequence[WorkItem]]:
        """Yield a run's items in their order, page by page."""
        return iter_pages(
            lambda after: self.list_items(run, states=states, after=after, limit=page),
            lambda item: item.rank,
            after=-1,
        )

    async def count_items(self, run: str) -> dict[WorkState, int]:
        """Return how many items of a run are in each state; a state without any is left out."""
        validate_key(run, what="a run's name")
        rows = await self._database.read(lambda tx: tx.query(COUNT_ITEMS, run=run))
        return {WorkState(state): count for state, count in rows}

    async def list_item_runs(self) -> list[str]:
        """Return the runs that have items, oldest first."""
        rows = await self._database.read(lambda tx: tx.query(SELECT_ITEM_RUNS))
        return [run for (run,) in rows]

    async def delete_items(self, run: str, *, limit: int = 10_000) -> int:
        """Delete at most `limit` items of a run; return how many."""
        validate_key(run, what="a run's name")
        return await self._database.write(lambda tx: tx.execute(DELETE_ITEMS, run=run, limit=limit))

    async def find_last_items(
        self, companies: Sequence[CompanyId]
    ) -> dict[CompanyId, tuple[str, WorkItem]]:
        """Return by company the newest run that had it, by the run's name, and its item."""
        ids = sorted({validate_key(company, what="a company's id") for company in companies})

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = []
            for query, some in split_into_batches(SELECT_LAST_ITEMS, ids):
                rows += tx.query(query, **some)
            return rows

        rows = await self._database.read(find) if ids else []
        items = [(run, ITEMS.read(item)) for run, *item in rows]
        return {item.company: (run, item) for run, item in items}

    async def _update_claimed(self, query: str, run: str, owner: str, **values: Value) -> int:
        values |= {
            "run": validate_key(run, what="a run's name"),
            "owner": validate_key(owner, what="an owner"),
        }
        return await self._database.write(lambda tx: tx.execute(query, **values))


def check_item_end(item: WorkItem, record: CompanyRecord | None) -> None:
    """Raise PermanentError for an item that did not end, or a record of another company."""
    if item.state not in END_STATES:
        raise PermanentError(f"a unit does not end as {item.state}; nothing was written")
    if record is not None and record.company.id != item.company:
        raise PermanentError(
            "the company record is of another company than the item; nothing was written"
        )


def _count_existing(tx: Transaction, run: str, companies: Sequence[str]) -> int:
    return sum(
        tx.query(query, run=run, **some)[0][0]
        for query, some in split_into_batches(COUNT_PLANNED, companies)
    )
