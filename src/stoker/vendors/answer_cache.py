"""Cache a tenant's paid answers in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.db.database import Database, to_db_time
from stoker.vendors.model import CachedAnswer
from stoker.vendors.schema import ANSWERS

# The outer condition repeats the inner one: an answer that was renewed meanwhile stays.
DELETE_ANSWERS = """
DELETE FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before AND key IN (
    SELECT key FROM vendor_answers WHERE tenant_id = :tenant AND good_until < :before
    ORDER BY good_until, key LIMIT :limit)
"""


class AnswerStore:
    """One tenant's paid answers. An answer is saved before its reservation is settled."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_answers(self, answers: Sequence[CachedAnswer]) -> None:
        """Save answers, each in place of an older one under its key. Atomic."""
        latest = {answer.key: answer for answer in map(ANSWERS.store, answers)}
        if latest:
            await self._database.write(lambda tx: ANSWERS.save(tx, latest.values()))

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        """Return the answers under these keys by key, expired or not."""
        names = sorted({str(ANSWERS.encode(key=key)["key"]) for key in keys})
        if not names:
            return {}
        found = await self._database.read(lambda tx: ANSWERS.find_in(tx, "key", names))
        return {answer.key: answer for answer in sorted(found, key=lambda answer: answer.key)}

    async def delete_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete at most `limit` answers that expired before then; return how many."""
        end = to_db_time(before)
        return await self._database.write(
            lambda tx: tx.execute(DELETE_ANSWERS, before=end, limit=limit)
        )
