"""Every room's store in one SQLite file, or in SQLite in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from stoker.backends.schema import SCHEMA
from stoker.backends.stores import SqlStores
from stoker.base.types import TenantId
from stoker.db.database import Database
from stoker.db.sqlite import SqliteDatabase, SqliteMemoryDatabase


class SqliteBackend(SqlStores, SqliteDatabase):
    """All stores in one SQLite file; nothing in it separates tenants but their ids."""

    def __init__(self, path: str | Path, *, busy: timedelta = timedelta(seconds=30)) -> None:
        super().__init__(path, SCHEMA, busy=busy)

    def get_session(self, tenant: TenantId | None) -> Database:
        return self if tenant is None else self.for_tenant(tenant)


class MemoryBackend(SqlStores, SqliteMemoryDatabase):
    """All stores in SQLite in memory; closing it deletes them."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)

    def get_session(self, tenant: TenantId | None) -> Database:
        return self if tenant is None else self.for_tenant(tenant)
