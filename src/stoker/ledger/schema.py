"""The tables of the ledger, which grows and nothing else, and of how far it was verified."""

from __future__ import annotations

from stoker.db.table import INT, JSON_OBJECT, TEXT, TIME, Column, Script, Table
from stoker.ledger.chain import Checkpoint, LedgerEntry, VerifiedLedger

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

CHECKPOINTS = Table(
    "ledger_checkpoints",
    VerifiedLedger,
    Column("seq", INT, field="head.seq"),
    Column("digest", TEXT, field="head.digest"),
    Column("start_seq", INT, field="start.seq"),
    Column("start_digest", TEXT, field="start.digest"),
    Column("start_at", TIME),
    Column("full_at", TIME),
    key=[],
    nested={"head": Checkpoint, "start": Checkpoint},
    since=12,
    what="the ledger's checkpoint",
    grants="SELECT, INSERT, UPDATE",
)

TABLES = (ENTRIES, _APPEND_ONLY, CHECKPOINTS)
