"""What a tenant's runs wrote into its CRM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from stoker.crm.model import LeftRow, SentRow
from stoker.crm.schema import LEFT_ROWS, SENT_ROWS
from stoker.crm.upsert import list_settled_digests
from stoker.db.codec import validate_text
from stoker.db.database import Database, Transaction


class CrmStore:
    """The rows of one tenant that were sent to its CRM, by run and external id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        """Return what was last written under these ids, by id: the latest, whichever run's.

        With what all writes under the id together have settled.
        """
        names = sorted(set(external_ids))
        for name in names:
            SENT_ROWS.encode(external_id=name)
        if not names:
            return {}
        rows = await self._database.read(lambda tx: SENT_ROWS.find_in(tx, "external_id", names))
        rows.sort(key=lambda row: (row.external_id, row.at, row.run))
        latest: dict[str, SentRow] = {}
        for external_id, writes in groupby(rows, key=lambda row: row.external_id):
            of_record = list(writes)
            latest[external_id] = replace(of_record[-1], settled=list_settled_digests(of_record))
        return latest

    async def save_sent_rows(self, rows: Sequence[SentRow]) -> None:
        """Save what was written; `before` of the same run stays as it was first saved.

        What another run wrote under the same id stays beside it, and what is settled follows from
        that alone.
        """
        valid = [SENT_ROWS.store(row) for row in rows]
        if valid:
            await self._database.write(lambda tx: SENT_ROWS.save(tx, valid))

    async def list_sent_rows(
        self, run: str, *, after: str = "", limit: int = 1000
    ) -> list[SentRow]:
        """Return one page of what a run wrote, in id order."""
        validate_text(after, what="a record's external id")
        where = "run = :run AND external_id > :after ORDER BY external_id LIMIT :limit"
        values = SENT_ROWS.encode(run=run)
        return await self._database.read(
            lambda tx: SENT_ROWS.find(tx, where, after=after, limit=limit, **values)
        )

    async def save_left_rows(self, rows: Sequence[LeftRow], *, written: Sequence[str]) -> None:
        """Save which rows were not written and why; forget those that were, in one transaction."""
        valid = [LEFT_ROWS.store(row) for row in rows]
        names = sorted({*written} - {row.external_id for row in rows})
        for name in names:
            LEFT_ROWS.encode(external_id=name)

        def work(tx: Transaction) -> None:
            for row in LEFT_ROWS.find_in(tx, "external_id", names) if names else ():
                LEFT_ROWS.delete(tx, "external_id = :name", name=row.external_id)
            if valid:
                LEFT_ROWS.save(tx, valid)

        if valid or names:
            await self._database.write(work)

    async def find_left_rows(self, external_ids: Sequence[str]) -> list[LeftRow]:
        """Return those of these rows that were not written, in id order."""
        names = sorted(set(external_ids))
        if not names:
            return []
        rows = await self._database.read(lambda tx: LEFT_ROWS.find_in(tx, "external_id", names))
        return sorted(rows, key=lambda row: row.external_id)

    async def list_left_rows(self, run: str, *, limit: int = 1000) -> list[LeftRow]:
        """Return the rows that a run did not write and that no later run decided, in id order."""
        where = "run = :run ORDER BY external_id LIMIT :limit"
        values = LEFT_ROWS.encode(run=run)
        return await self._database.read(
            lambda tx: LEFT_ROWS.find(tx, where, limit=limit, **values)
        )
