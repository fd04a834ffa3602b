"""The schema of the whole program: the tables of all rooms, in numbered steps."""

from __future__ import annotations

from importlib import import_module

from stoker.db.migrations import Schema
from stoker.db.table import Script, Table

# The number of a step is its place here. A step that was released keeps name and place.
_STEPS = (
    "run store",
    "leases and slots",
    "ledger",
    "money",
    "registry, pages and answers",
    "tenants, companies and nights",
    "touches",
    "heat and pulls",
    "sources of postings",
    "runs asked to stop",
    "deletion of what old runs leave",
    "ledger checkpoints, deletion of old money",
    "steps that lookups skipped",
    "causes of skipped steps, whose a website is",
    "counts of stops and caps, guards of what tenants share",
    "erased persons",
    "failed lookups",
    "columns and indexes under the names people know",
    "accounts given by a person, history of heat",
    "persons and channels of touches",
    "contacts that keep their records",
    "yields and values of accounts",
    "rows that a CRM did not get",
)

_ROOMS = (
    "runs",
    "scheduling",
    "ledger",
    "budgets",
    "rate_limits",
    "registry",
    "crawl",
    "vendors",
    "tenants",
    "accounts",
    "enrichment",
    "crm",
    "touches",
    "heat",
    "pulls",
    "discovery",
)


def _load_tables() -> list[Script | Table[object]]:
    # Only here, not at the top: most commands touch the tables of one room.
    return [part for room in _ROOMS for part in import_module(f"stoker.{room}.schema").TABLES]


SCHEMA = Schema(_STEPS, _load_tables)
