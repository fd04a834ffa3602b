"""The tables of what was written into a CRM, per run and record, and of what was not."""

from __future__ import annotations

from stoker.crm.model import LeftRow, SentRow
from stoker.db.table import FLAG, JSON_OBJECT, KEEP_OLD, KEY, TEXT, TIME, Column, Index, Table

SENT_ROWS = Table(
    "crm_sent_rows",
    SentRow,
    Column("run", KEY),
    Column("external_id", KEY),
    Column("model", TEXT),
    Column("digest", TEXT),
    Column("sent", JSON_OBJECT, field="values"),
    Column("before", JSON_OBJECT, merge=KEEP_OLD),
    Column("at", TIME),
    key=["run", "external_id"],
    indexes=[Index("sent_rows_by_id", "external_id, at, run")],
    since=6,
    what="the row sent in run",
    grants="SELECT, INSERT, UPDATE",
    wide=True,
)

LEFT_ROWS = Table(
    "crm_left_rows",
    LeftRow,
    Column("external_id", KEY),
    Column("model", TEXT),
    Column("run", KEY),
    Column("is_refused", FLAG),
    Column("reason", TEXT),
    Column("at", TIME),
    key=["external_id"],
    indexes=[Index("left_rows_by_run", "run, external_id")],
    since=23,
    what="the row left in run",
    grants="SELECT, INSERT, UPDATE, DELETE",
)

TABLES = (SENT_ROWS, LEFT_ROWS)
