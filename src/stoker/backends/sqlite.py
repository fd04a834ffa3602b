"""Every room's store in one SQLite file, or in SQLite in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stoker.backends.schema import SCHEMA
from stoker.backends.stores import build_tenant_stores
from stoker.base.types import OPERATORS, TenantId, parse_tenant_id
from stoker.context import TenantStores
from stoker.db.database import Database
from stoker.db.sqlite import SqliteDatabase, TenantDatabase
from stoker.db.sqlite_memory import SqliteMemoryDatabase

if TYPE_CHECKING:
    from stoker.accounts.store import TenantDirectory
    from stoker.backends.shared import SharedStore
    from stoker.registry.store import RegistryStore


class _SqliteStores(Database, Protocol):
    """The stores of a SQLite database, in which nothing separates tenants but their ids."""

    def for_tenant(self, tenant: TenantId) -> TenantDatabase: ...

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Return one tenant's stores."""
        return build_tenant_stores(self.for_tenant(parse_tenant_id(tenant)), tenant)

    def shared(self) -> SharedStore:
        """Return what tenants share."""
        from stoker.backends.shared import SharedStore

        return SharedStore(self, operators=self.for_tenant(OPERATORS))

    def registry(self) -> RegistryStore:
        """Return the register of companies."""
        from stoker.registry.store import RegistryStore

        return RegistryStore(self)

    def directory(self) -> TenantDirectory:
        """Return the list of tenants."""
        from stoker.accounts.store import TenantDirectory

        return TenantDirectory(self)


class SqliteBackend(SqliteDatabase, _SqliteStores):
    """All stores in one SQLite file."""

    def __init__(self, path: str | Path, *, busy: timedelta = timedelta(seconds=30)) -> None:
        super().__init__(path, SCHEMA, busy=busy)


class MemoryBackend(SqliteMemoryDatabase, _SqliteStores):
    """All stores in SQLite in memory; closing it deletes them."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
