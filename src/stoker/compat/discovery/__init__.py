"""The names of discovery and cadence scripts: plain dicts, no event loop."""

from stoker.compat.discovery import json_store, sqlite_store
from stoker.compat.discovery.config import compute_next_run, should_run
from stoker.compat.discovery.json_store import JsonStore
from stoker.compat.discovery.records import run_enrichment_pipeline
from stoker.compat.discovery.sqlite_store import SqliteStore

__all__ = [
    "JsonStore",
    "SqliteStore",
    "compute_next_run",
    "json_store",
    "run_enrichment_pipeline",
    "should_run",
    "sqlite_store",
]
