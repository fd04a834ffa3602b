"""One tenant's ledger, in SQL. What an entry is, and how it is chained, is `core.ledger`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    json_value,
    moment,
    moment_text,
    refusing_garbage,
)
from stoker.ledger import chain as ledger
from stoker.ledger.chain import Entry, Note, kept_note

COLUMNS = "seq, at, kind, subject, reason, data, previous, digest"

LAST = "SELECT seq, digest FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"

CLAIM = f"""
INSERT INTO ledger (tenant_id, {COLUMNS})
VALUES (:tenant, :seq, :at, :kind, :subject, :reason, :data, :previous, :digest)
ON CONFLICT DO NOTHING
"""

ADD = f"INSERT INTO ledger (tenant_id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

PAGE = f"""
SELECT {COLUMNS} FROM ledger
WHERE tenant_id = :tenant AND seq > :after ORDER BY seq LIMIT :limit
"""


class _Last(NamedTuple):
    seq: int
    digest: str


class SqlLedger:
    """A `LedgerStore` in the table `ledger`."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def append(self, notes: Sequence[Note]) -> list[Entry]:
        return await self._database.write(lambda tx: added(tx, self._tenant, notes))

    async def entries(self, *, after: int = 0, limit: int = 1000) -> list[Entry]:
        rows = await self._database.read(
            lambda tx: tx.rows(PAGE, tenant=self._tenant, after=after, limit=limit)
        )
        return [_entry(row) for row in rows]


def added(tx: Transaction, tenant: TenantId, notes: Sequence[Note]) -> list[Entry]:
    """Append within a transaction, so that another verb can do so as part of itself."""
    return added_as_they_are(tx, tenant, [kept_note(note) for note in notes])


def added_as_they_are(tx: Transaction, tenant: TenantId, notes: Sequence[Note]) -> list[Entry]:
    """As `added`, for notes made of nothing but what was found fit to be kept already."""
    if not notes:
        return []
    # Whoever inserts the next seq first has the turn; the others wait for its commit and look
    # again. Where transactions already wait for each other (SQLite), the first try succeeds.
    while True:
        last = [_Last(*row) for row in tx.rows(LAST, tenant=tenant)]
        first, *rest = ledger.chained(notes, after=last[0] if last else None)
        if tx.change(CLAIM, tenant=tenant, **_values(first)):
            if rest:
                tx.change_many(ADD, ((tenant, *_values(entry).values()) for entry in rest))
            return [first, *rest]


def _values(entry: Entry) -> dict[str, Value]:
    return {
        "seq": entry.seq,
        "at": moment_text(entry.at),
        "kind": entry.kind,
        "subject": entry.subject,
        "reason": entry.reason,
        "data": compact_json(entry.data),
        "previous": entry.previous,
        "digest": entry.digest,
    }


def _entry(row: tuple[Any, ...]) -> Entry:
    seq, at, kind, subject, reason, data, previous, digest = row
    with refusing_garbage(f"entry {seq} of the ledger"):
        return Entry(
            seq=seq,
            at=moment(at),
            kind=kind,
            subject=subject,
            reason=reason,
            data=dict(json_value(data)),
            previous=previous,
            digest=digest,
        )
