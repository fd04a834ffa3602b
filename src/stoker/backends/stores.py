"""The stores of a SQL database, each imported and built when it is first used.

A command that reads runs then imports the store of runs and no other room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.base.types import OPERATORS, TenantId, parse_tenant_id
from stoker.context import TenantStores

if TYPE_CHECKING:
    from stoker.backends.shared import SharedStore
    from stoker.db.database import Database
    from stoker.registry.store import RegistryStore
    from stoker.tenants.store import TenantDirectory

_TENANT_STORES = {  # by the name in `TenantStores`
    "runs": "stoker.runs.store:RunStore",
    "schedule": "stoker.scheduling.store:ScheduleStore",
    "ledger": "stoker.ledger.store:LedgerStore",
    "budgets": "stoker.budgets.store:BudgetStore",
    "pages": "stoker.crawl.store:PageStore",
    "answers": "stoker.vendors.answer_cache:AnswerStore",
    "setup": "stoker.tenants.store:SetupStore",
    "accounts": "stoker.accounts.store:AccountStore",
    "work_items": "stoker.enrichment.store:WorkStore",
    "crm": "stoker.crm.store:CrmStore",
    "touches": "stoker.touches.store:TouchStore",
    "heat": "stoker.heat.store:HeatStore",
    "listings": "stoker.discovery.store:ListingStore",
}
_POSTGRES_OPTIONS = {  # what such a store is built with when the database is Postgres
    "budgets": {"write": "stoker.budgets.store:write_changes_on_server"},
    "work_items": {"skip_locked": "stoker.enrichment.store:SKIP_LOCKED"},
}
_SHARED = "stoker.backends.shared:SharedStore"
_REGISTRY = "stoker.registry.store:RegistryStore"
_DIRECTORY = "stoker.tenants.store:TenantDirectory"

STORE_MODULES = {
    name.partition(":")[0] for name in (*_TENANT_STORES.values(), _SHARED, _REGISTRY, _DIRECTORY)
}


def import_stores() -> None:
    """Import every store now.

    A process that writes for hours calls this first: an import later could fail, for example
    when no file can be opened any more.
    """
    for name in STORE_MODULES:
        import_module(name)


class LazyTenantStores(TenantStores):
    """One tenant's stores, each built when it is first used."""

    def __init__(
        self,
        *,
        tenant: TenantId,
        database: Database | None = None,
        is_postgres: bool = False,
        **stores: object,
    ) -> None:
        # `dataclasses.replace` passes every store; a backend passes the database instead.
        self.__dict__.update(stores, tenant=tenant, _database=database, _is_postgres=is_postgres)

    def __getattr__(self, name: str) -> Any:
        if name not in _TENANT_STORES:
            raise AttributeError(f"a tenant has no store {name!r}")
        options = _POSTGRES_OPTIONS.get(name, {}) if self._is_postgres else {}
        store = _load(_TENANT_STORES[name])(
            self._database, **{option: _load(value) for option, value in options.items()}
        )
        self.__dict__[name] = store
        return store


class SqlStores:
    """The stores of a SQL database, for a backend to inherit."""

    is_postgres: ClassVar[bool] = False

    def get_session(self, tenant: TenantId | None) -> Database:
        """Return the database as one tenant sees it; for None, without any tenant's rows."""
        raise NotImplementedError

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Return one tenant's stores."""
        session = self.get_session(parse_tenant_id(tenant))
        return LazyTenantStores(tenant=tenant, database=session, is_postgres=self.is_postgres)

    def shared(self) -> SharedStore:
        """Return what tenants share."""
        store: SharedStore = _load(_SHARED)(
            self.get_session(None), operators=self.get_session(OPERATORS)
        )
        return store

    def registry(self) -> RegistryStore:
        """Return the register of companies."""
        store: RegistryStore = _load(_REGISTRY)(self.get_session(None))
        return store

    def directory(self) -> TenantDirectory:
        """Return the list of tenants."""
        store: TenantDirectory = _load(_DIRECTORY)(self.get_session(None))
        return store


def _load(name: str) -> Any:
    """Return what is at `module:name`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
