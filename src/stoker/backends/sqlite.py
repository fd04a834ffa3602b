"""Every room's store in one SQLite file."""

from __future__ import annotations

from stoker.accounts.store import SqlAccounts, SqlTenantDirectory
from stoker.backends.shared import SqlSharedStore
from stoker.base.types import TenantId, parse_tenant_id
from stoker.budgets.store import SqlBudgetStore
from stoker.context import TenantStores
from stoker.crawl.store import SqlPages
from stoker.db.sqlite import SqliteDatabase
from stoker.discovery.store import SqlListingStore
from stoker.heat.store import SqlPullStore
from stoker.ledger.store import SqlLedgerStore
from stoker.nightly.store import SqlWorkStore
from stoker.registry.store import SqlRegistry
from stoker.runs.store import SqlRunStore
from stoker.scheduling.store import SqlScheduleStore
from stoker.touches.store import SqlTouchStore
from stoker.vendors.answer_cache import SqlAnswers


class SqliteBackend(SqliteDatabase):
    """All stores in one SQLite file."""

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Return one tenant's stores."""
        parse_tenant_id(tenant)  # refuses a name that could not be told apart
        return TenantStores(
            tenant=tenant,
            runs=SqlRunStore(self, tenant),
            schedule=SqlScheduleStore(self, tenant),
            ledger=SqlLedgerStore(self, tenant),
            money=SqlBudgetStore(self, tenant),
            pages=SqlPages(self, tenant),
            answers=SqlAnswers(self, tenant),
            accounts=SqlAccounts(self, tenant),
            nights=SqlWorkStore(self, tenant),
            touches=SqlTouchStore(self, tenant),
            attention=SqlPullStore(self, tenant),
            listings=SqlListingStore(self, tenant),
        )

    def shared(self) -> SqlSharedStore:
        """Return what tenants share."""
        return SqlSharedStore(self, operators=self)

    def registry(self) -> SqlRegistry:
        """Return the register of companies."""
        return SqlRegistry(self)

    def directory(self) -> SqlTenantDirectory:
        """Return the list of tenants."""
        return SqlTenantDirectory(self)
