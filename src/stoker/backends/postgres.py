"""Every room's store in one Postgres database, each tenant behind row security."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from stoker.backends.schema import SCHEMA
from stoker.backends.stores import build_tenant_stores
from stoker.base.types import OPERATORS, TenantId, parse_tenant_id
from stoker.context import TenantStores
from stoker.db.postgres import PostgresDatabase

if TYPE_CHECKING:
    from stoker.accounts.store import TenantDirectory
    from stoker.backends.shared import SharedStore
    from stoker.registry.store import RegistryStore


class PostgresBackend(PostgresDatabase):
    """All stores in one Postgres database, each tenant behind row security."""

    def __init__(
        self, url: str, *, connections: int = 4, deadline: timedelta = timedelta(seconds=60)
    ) -> None:
        super().__init__(url, SCHEMA, connections=connections, deadline=deadline)

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Return one tenant's stores."""
        return build_tenant_stores(self.for_tenant(parse_tenant_id(tenant)), tenant, on_server=True)

    def shared(self) -> SharedStore:
        """Return what tenants share."""
        from stoker.backends.shared import SharedStore

        return SharedStore(self.for_tenant(None), operators=self.for_tenant(OPERATORS))

    def registry(self) -> RegistryStore:
        """Return the register of companies."""
        from stoker.registry.store import RegistryStore

        return RegistryStore(self.for_tenant(None))

    def directory(self) -> TenantDirectory:
        """Return the list of tenants."""
        from stoker.accounts.store import TenantDirectory

        return TenantDirectory(self.for_tenant(None))
