"""The tables of rates and concurrency slots, which all tenants share.

Their keys name sites and machines, so no tenant's transaction sees them.
"""

from __future__ import annotations

from typing import Any

from stoker.db.policies import PROCESS_AND_OPERATORS, PROCESS_ONLY
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
    policies=PROCESS_ONLY,
    guarded_since=15,
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
    policies=PROCESS_AND_OPERATORS,
    guarded_since=15,
)

TABLES = (RATES, SLOTS)
