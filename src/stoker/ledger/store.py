"""Store one tenant's ledger in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_json,
    from_db_time,
    to_db_time,
    wrap_row_errors,
)
from stoker.ledger import chain as ledger
from stoker.ledger.chain import LedgerEntry, NewEntry, validate_new_entry

COLUMNS = "seq, at, kind, subject, reason, data, previous, digest"

SELECT_LAST = "SELECT seq, digest FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"

INSERT_IF_NEXT = f"""
INSERT INTO ledger (tenant_id, {COLUMNS})
VALUES (:tenant, :seq, :at, :kind, :subject, :reason, :data, :previous, :digest)
ON CONFLICT DO NOTHING
"""

INSERT_ENTRY = f"INSERT INTO ledger (tenant_id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

SELECT_PAGE = f"""
SELECT {COLUMNS} FROM ledger
WHERE tenant_id = :tenant AND seq > :after ORDER BY seq LIMIT :limit
"""


class _LastLink(NamedTuple):
    seq: int
    digest: str


class SqlLedgerStore:
    """A `LedgerStore` in the table `ledger`."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def append(self, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
        return await self._database.write(lambda tx: append_entries(tx, self._tenant, notes))

    async def list_entries(self, *, after: int = 0, limit: int = 1000) -> list[LedgerEntry]:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_PAGE, tenant=self._tenant, after=after, limit=limit)
        )
        return [_parse_entry(row) for row in rows]


def append_entries(
    tx: Transaction, tenant: TenantId, notes: Sequence[NewEntry]
) -> list[LedgerEntry]:
    """Append within a transaction, so that another verb can do so as part of itself."""
    return append_checked(tx, tenant, [validate_new_entry(note) for note in notes])


def append_checked(
    tx: Transaction, tenant: TenantId, notes: Sequence[NewEntry]
) -> list[LedgerEntry]:
    """Append entries that were validated already, as `append_entries`."""
    if not notes:
        return []
    # The first to insert the next seq goes on; the others wait for its commit and look
    # again. Where transactions already wait for each other (SQLite), the first try succeeds.
    while True:
        last = [_LastLink(*row) for row in tx.query(SELECT_LAST, tenant=tenant)]
        first, *rest = ledger.chain_entries(notes, after=last[0] if last else None)
        if tx.execute(INSERT_IF_NEXT, tenant=tenant, **_to_values(first)):
            if rest:
                tx.execute_many(
                    INSERT_ENTRY, ((tenant, *_to_values(entry).values()) for entry in rest)
                )
            return [first, *rest]


def _to_values(entry: LedgerEntry) -> dict[str, Value]:
    return {
        "seq": entry.seq,
        "at": to_db_time(entry.at),
        "kind": entry.kind,
        "subject": entry.subject,
        "reason": entry.reason,
        "data": compact_json(entry.data),
        "previous": entry.previous,
        "digest": entry.digest,
    }


def _parse_entry(row: tuple[Any, ...]) -> LedgerEntry:
    seq, at, kind, subject, reason, data, previous, digest = row
    with wrap_row_errors(f"entry {seq} of the ledger"):
        return LedgerEntry(
            seq=seq,
            at=from_db_time(at),
            kind=kind,
            subject=subject,
            reason=reason,
            data=dict(from_db_json(data)),
            previous=previous,
            digest=digest,
        )
