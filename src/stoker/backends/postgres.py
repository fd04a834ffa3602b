"""Every room's store in one Postgres database, each tenant behind row security."""

from __future__ import annotations

from stoker.accounts.store import SqlAccounts, SqlTenantDirectory
from stoker.backends.shared import SqlSharedStore
from stoker.base.types import OPERATORS, TenantId, parse_tenant_id
from stoker.budgets.postgres_writes import write_changes_on_server
from stoker.budgets.store import SqlBudgetStore
from stoker.context import TenantStores
from stoker.crawl.store import SqlPages
from stoker.db.postgres import PostgresDatabase
from stoker.discovery.store import SqlListingStore
from stoker.heat.store import SqlPullStore
from stoker.ledger.store import SqlLedgerStore
from stoker.nightly.store import SKIP_LOCKED, SqlWorkStore
from stoker.registry.store import SqlRegistry
from stoker.runs.store import SqlRunStore
from stoker.scheduling.store import SqlScheduleStore
from stoker.touches.store import SqlTouchStore
from stoker.vendors.answer_cache import SqlAnswers


class PostgresBackend(PostgresDatabase):
    """All stores in one Postgres database, each tenant behind row security."""

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Return one tenant's stores."""
        database = self.for_tenant(parse_tenant_id(tenant))
        return TenantStores(
            tenant=tenant,
            runs=SqlRunStore(database, tenant),
            schedule=SqlScheduleStore(database, tenant),
            ledger=SqlLedgerStore(database, tenant),
            money=SqlBudgetStore(database, tenant, write=write_changes_on_server),
            pages=SqlPages(database, tenant),
            answers=SqlAnswers(database, tenant),
            accounts=SqlAccounts(database, tenant),
            nights=SqlWorkStore(database, tenant, passing_over=SKIP_LOCKED),
            touches=SqlTouchStore(database, tenant),
            attention=SqlPullStore(database, tenant),
            listings=SqlListingStore(database, tenant),
        )

    def shared(self) -> SqlSharedStore:
        """Return what tenants share."""
        return SqlSharedStore(self.for_tenant(None), operators=self.for_tenant(OPERATORS))

    def registry(self) -> SqlRegistry:
        """Return the register of companies."""
        return SqlRegistry(self.for_tenant(None))

    def directory(self) -> SqlTenantDirectory:
        """Return the list of tenants."""
        return SqlTenantDirectory(self.for_tenant(None))
