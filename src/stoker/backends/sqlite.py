"""Every room's store in one SQLite file, or in SQLite in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.backends.stores import build_tenant_stores
from stoker.base.types import TenantId
from stoker.context import TenantStores
from stoker.db.sqlite import SqliteDatabase
from stoker.db.sqlite_memory import SqliteMemoryDatabase

if TYPE_CHECKING:
    from stoker.accounts.store import SqlTenantDirectory
    from stoker.backends.shared import SqlSharedStore
    from stoker.db.database import Database
    from stoker.registry.store import SqlRegistry


class _SqliteStores:
    """The stores of a SQLite database, in which nothing separates tenants but their ids."""

    def tenant(self: Database, tenant: TenantId) -> TenantStores:
        """Return one tenant's stores."""
        return build_tenant_stores(self, tenant)

    def shared(self: Database) -> SqlSharedStore:
        """Return what tenants share."""
        from stoker.backends.shared import SqlSharedStore

        return SqlSharedStore(self, operators=self)

    def registry(self: Database) -> SqlRegistry:
        """Return the register of companies."""
        from stoker.registry.store import SqlRegistry

        return SqlRegistry(self)

    def directory(self: Database) -> SqlTenantDirectory:
        """Return the list of tenants."""
        from stoker.accounts.store import SqlTenantDirectory

        return SqlTenantDirectory(self)


class SqliteBackend(_SqliteStores, SqliteDatabase):
    """All stores in one SQLite file."""


class MemoryBackend(_SqliteStores, SqliteMemoryDatabase):
    """All stores in SQLite in memory; closing it deletes them."""
