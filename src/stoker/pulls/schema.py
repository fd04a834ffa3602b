"""The tables of pull plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stoker.base.types import Json
from stoker.db.table import BLOB, INT, JSON_OBJECT, KEY, TIME, Column, Script, Table
from stoker.heat.schema import SHORT_TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A run's plan without its decisions, which are in the plan's parts."""

    run: str
    at: datetime
    policy: str
    header: Mapping[str, Json]


PLANS = Table(
    "pull_plans",
    PlanRecord,
    Column("run", KEY),
    Column("at", TIME),
    Column("policy", SHORT_TEXT),
    Column("header", JSON_OBJECT),
    key=["run"],
    since=8,
    what="the plan of",
    grants="SELECT, INSERT, DELETE",
    wide=True,
)

# A part is opaque here, and may be a megabyte.
PLAN_PARTS: Table[Any] = Table(
    "pull_plan_parts",
    None,
    Column("run", KEY),
    Column("number", INT),
    Column("part", BLOB),
    key=["run", "number"],
    since=8,
    grants="SELECT, INSERT, DELETE",
    wide=True,
)

_PARTS_UNCOMPRESSED = Script(
    since=8,
    postgres="ALTER TABLE stoker.pull_plan_parts ALTER COLUMN part SET STORAGE EXTERNAL;\n",
)

TABLES = (PLANS, PLAN_PARTS, _PARTS_UNCOMPRESSED)
