"""Cache a tenant's paid answers in SQL.

Rows are written in the order of their keys, so that two writers never deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId, to_utc
from stoker.db.codec import validate_json, validate_text
from stoker.db.database import (
    Database,
    Transaction,
    from_db_json,
    from_db_time,
    split_into_batches,
    to_db_time,
)
from stoker.db.values import validate_key
from stoker.vendors.model import CachedAnswer


def validate_answer(answer: CachedAnswer) -> CachedAnswer:
    """Return a paid answer as a store returns it. Raises for what no database can store."""
    validate_key(answer.key, what="an answer's key")
    validate_text(answer.connector, what="a connector's name")
    return replace(
        answer,
        answer=validate_json(answer.answer, what="an answer"),
        cost=validate_json(dict(answer.cost), what="an answer's cost"),
        at=to_utc(answer.at, what="when an answer came"),
        expires_at=to_utc(answer.expires_at, what="how long an answer is good"),
    )


UPSERT_ANSWER = """
INSERT INTO vendor_answers (tenant_id, key, connector, answer, cost, at, good_until)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, key) DO UPDATE SET
    connector = excluded.connector, answer = excluded.answer, cost = excluded.cost,
    at = excluded.at, good_until = excluded.good_until
"""

SELECT_ANSWERS = """
SELECT v.key, v.connector, v.answer, v.cost, v.at, v.good_until
FROM asked JOIN vendor_answers v ON v.tenant_id = :tenant AND v.key = asked.id
"""

# The outer condition repeats the inner one: an answer that was renewed meanwhile stays.
DELETE_ANSWERS = """
DELETE FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before AND key IN (
    SELECT key FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before
    ORDER BY good_until, key LIMIT :limit)
"""


class SqlAnswers:
    """An `AnswerStore` in the table `vendor_answers`."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def save_answers(self, answers: Sequence[CachedAnswer]) -> None:
        latest = {answer.key: answer for answer in map(validate_answer, answers)}
        rows = [
            (
                self._tenant,
                key,
                answer.connector,
                # In a list, so that an answer of one word is not mistaken for JSON not yet decoded.
                compact_json([answer.answer]),
                compact_json(answer.cost),
                to_db_time(answer.at),
                to_db_time(answer.expires_at),
            )
            for key, answer in sorted(latest.items())
        ]
        if rows:
            await self._database.write(lambda tx: tx.execute_many(UPSERT_ANSWER, rows))

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        names = sorted({validate_key(key, what="an answer's key") for key in keys})

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = []
            for query, ids in split_into_batches(SELECT_ANSWERS, names):
                rows += tx.query(query, tenant=self._tenant, **ids)
            return rows

        rows = await self._database.read(find) if names else []
        return {row[0]: _to_cached_answer(row) for row in sorted(rows, key=lambda row: row[0])}

    async def delete_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        end = to_db_time(before)
        return await self._database.write(
            lambda tx: tx.execute(DELETE_ANSWERS, tenant=self._tenant, before=end, limit=limit)
        )


def _to_cached_answer(row: tuple[Any, ...]) -> CachedAnswer:
    key, connector, answer, cost, at, good_until = row
    return CachedAnswer(
        key=key,
        connector=connector,
        answer=from_db_json(answer)[0],
        cost=from_db_json(cost),
        at=from_db_time(at),
        expires_at=from_db_time(good_until),
    )
