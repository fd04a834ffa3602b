"""Store one tenant's ledger in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.db.database import Database, Transaction, from_db_time, wrap_row_errors
from stoker.ledger import chain as ledger
from stoker.ledger.chain import (
    Checkpoint,
    LedgerEntry,
    NewEntry,
    VerifiedLedger,
    validate_new_entry,
)
from stoker.ledger.schema import CHECKPOINTS, ENTRIES

SELECT_LAST = "SELECT seq, digest FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"


_MAX_SEQ = 2**63 - 1  # what every store can count to

SELECT_LAST_TIME = "SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"

LAST_ENTRY_TIME = "the moment of the last ledger entry"


def find_last_time(tx: Transaction) -> datetime | None:
    """Return the time of the tenant's last entry."""
    rows = tx.query(SELECT_LAST_TIME)
    with wrap_row_errors(LAST_ENTRY_TIME):
        return from_db_time(rows[0][0]) if rows else None


class LedgerStore:
    """One tenant's ledger: it grows, and nothing else."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
        """Append entries in order, each chained to the one before; return them with number and
        digest.

        Atomic; of two callers one appends all its entries after the other's, so `seq` has no gaps.
        """
        return await self._database.write(lambda tx: append_entries(tx, notes))

    async def list_entries(self, *, after: int = 0, limit: int = 1000) -> list[LedgerEntry]:
        """Return one page of the ledger in order, beginning after a seq."""
        return await self._database.read(
            lambda tx: ENTRIES.find(
                tx, "seq > :after ORDER BY seq LIMIT :limit", after=after, limit=limit
            )
        )

    async def list_latest(self, *, before: int | None = None, limit: int) -> list[LedgerEntry]:
        """Return one page of the ledger, newest first, beginning below a seq."""
        below = _MAX_SEQ if before is None else before
        return await self._database.read(
            lambda tx: ENTRIES.find(
                tx, "seq < :below ORDER BY seq DESC LIMIT :limit", below=below, limit=limit
            )
        )

    async def find_checkpoint(self) -> VerifiedLedger | None:
        """Return how far the ledger was verified, None if it never was."""
        found = await self._database.read(lambda tx: CHECKPOINTS.find(tx, "TRUE"))
        return found[0] if found else None

    async def save_checkpoint(self, verified: VerifiedLedger) -> None:
        """Save how far the ledger was verified, in place of what was saved before."""
        await self._database.write(lambda tx: CHECKPOINTS.save(tx, [verified]))


def append_entries(tx: Transaction, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
    """Append within a transaction, so that another verb can do so as part of itself."""
    return append_checked(tx, [validate_new_entry(note) for note in notes])


def append_checked(tx: Transaction, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
    """Append entries that were validated already, as `append_entries`."""
    if not notes:
        return []
    # The first to insert the next seq goes on; the others wait for its commit and look
    # again. Where transactions already wait for each other (SQLite), the first try succeeds.
    while True:
        last = [Checkpoint(*row) for row in tx.query(SELECT_LAST)]
        first, *rest = ledger.chain_entries(notes, after=last[0] if last else None)
        if ENTRIES.insert_new(tx, [first]):
            if rest:
                rows = [(tx.tenant, *ENTRIES.to_row(entry)) for entry in rest]
                tx.execute_many(ENTRIES.insert, rows)
            return [first, *rest]
