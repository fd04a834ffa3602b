"""The table of work items: one company's night each."""

from __future__ import annotations

from stoker.base.errors import PermanentError
from stoker.base.types import Depth
from stoker.db.table import (
    INT,
    JSON_OBJECT,
    JSON_TEXTS,
    KEY,
    TEXT,
    TIME,
    Column,
    Index,
    Table,
    enum,
)
from stoker.enrichment.model import WorkItem, WorkState


def _check_rank(item: WorkItem) -> None:
    if item.rank < 0:
        raise PermanentError(f"a place is 0 or more, not {item.rank}; nothing was written")


ITEMS = Table(
    "company_enrichment_runs",
    WorkItem,
    Column("run", KEY, parent=True),
    Column("company_id", KEY, field="company"),
    Column("place", INT, field="rank"),
    Column("depth", enum(Depth)),
    Column("state", enum(WorkState)),
    Column("owner", TEXT),
    Column("until_at", TIME, field="claimed_until", null=True),
    Column("because", TEXT, field="reason"),
    Column("reasons", JSON_TEXTS),
    Column("cost", JSON_OBJECT),
    Column("saved", JSON_OBJECT),
    Column("seconds", JSON_OBJECT),
    Column("ended_at", TIME, null=True),
    key=["run", "company_id"],
    unique=["run, place"],
    indexes=[
        Index("units_by_company", "company_id, run"),
        Index("open_units", "run, place", where="state IN ('waiting', 'taken')"),
    ],
    check=_check_rank,
    since=6,
    what="the work item of",
    grants="SELECT, INSERT, UPDATE, DELETE",
    fill=50,  # items are rewritten twice a night
    wide=True,
)

TABLES = (ITEMS,)
