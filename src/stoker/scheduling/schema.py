"""The tables of leases and recorded occurrences."""

from __future__ import annotations

from stoker.db.table import INT, ORDERED_TEXT, TEXT, TIME, Column, Table, enum
from stoker.runs.leases import Lease
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

LEASES = Table(
    "leases",
    Lease,
    Column("name", ORDERED_TEXT),
    Column("owner", TEXT),
    Column("epoch", INT, field="fencing_token"),
    Column("beat", INT, field="heartbeat"),
    Column("until_at", TIME, field="until"),
    Column("task", TEXT),
    key=["name"],
    since=2,
    what="the lease",
    grants="SELECT, INSERT, UPDATE",
)

RESULTS = Table(
    "slots",
    OccurrenceResult,
    Column("schedule", ORDERED_TEXT),
    Column("instant", TIME, field="due_at"),
    Column("state", enum(OccurrenceState)),
    Column("decided_at", TIME),
    Column("reason", TEXT),
    Column("run_at", TIME, null=True),
    key=["schedule", "instant"],
    since=2,
    what="the occurrence of",
    grants="SELECT, INSERT",
)

TABLES = (LEASES, RESULTS)
