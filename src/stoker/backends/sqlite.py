"""Every room's store in one SQLite file, or in SQLite in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from stoker.backends.schema import SCHEMA
from stoker.context import Backend
from stoker.db.sqlite import SqliteDatabase, SqliteMemoryDatabase


class SqliteBackend(SqliteDatabase, Backend):
    """All stores in one SQLite file; nothing in it separates tenants but their ids."""

    def __init__(self, path: str | Path, *, busy: timedelta = timedelta(seconds=30)) -> None:
        super().__init__(path, SCHEMA, busy=busy)


class MemoryBackend(SqliteMemoryDatabase, Backend):
    """All stores in SQLite in memory; closing it deletes them."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
