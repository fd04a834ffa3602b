"""The tables of rates and concurrency slots, which all tenants share."""

from __future__ import annotations

from typing import Any

from stoker.db.table import ORDERED_TEXT, TIME, Column, Table

RATES: Table[Any] = Table(
    "rates",
    None,
    Column("key", ORDERED_TEXT),
    Column("next_at", TIME),
    key=["key"],
    since=4,
    grants="SELECT, INSERT, UPDATE, DELETE",
    tenant=False,
    fill=50,
)

SLOTS: Table[Any] = Table(
    "places",
    None,
    Column("name", ORDERED_TEXT),
    Column("owner", ORDERED_TEXT),
    Column("until_at", TIME),
    key=["name", "owner"],
    since=4,
    grants="SELECT, INSERT, UPDATE, DELETE",
    tenant=False,
)

TABLES = (RATES, SLOTS)
