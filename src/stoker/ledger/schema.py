"""The table of the ledger. It grows, and nothing else."""

from __future__ import annotations

from stoker.db.table import INT, JSON_OBJECT, TEXT, TIME, Column, Script, Table
from stoker.ledger.chain import LedgerEntry

ENTRIES = Table(
    "ledger",
    LedgerEntry,
    Column("seq", INT),
    Column("at", TIME),
    Column("kind", TEXT),
    Column("subject", TEXT),
    Column("reason", TEXT),
    Column("data", JSON_OBJECT),
    Column("previous", TEXT),
    Column("digest", TEXT),
    key=["seq"],
    since=3,
    what="the ledger entry",
    grants="SELECT, INSERT",
)

_APPEND_ONLY = Script(
    since=3,
    sqlite="""\
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_is_not_deleted BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
""",
)

TABLES = (ENTRIES, _APPEND_ONLY)
