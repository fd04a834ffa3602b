"""Every room's store in one Postgres database, each tenant behind row security."""

from __future__ import annotations

from stoker.accounts.store import SqlAccounts, SqlDirectory
from stoker.base.types import OPERATORS, TenantId, tenant_id
from stoker.budgets.postgres_writes import write_moves_at_once
from stoker.budgets.shared_store import SqlShared
from stoker.budgets.store import SqlMoney
from stoker.context import Store
from stoker.db.postgres import PostgresDatabase
from stoker.discovery.store import SqlListings
from stoker.heat.store import SqlAttention
from stoker.ledger.store import SqlLedger
from stoker.nightly.store import PASSING_OVER, SqlNights
from stoker.registry.store import SqlRegistry
from stoker.runs.store import SqlRuns
from stoker.scheduling.store import SqlSchedule
from stoker.touches.store import SqlTouches
from stoker.vendors.answer_cache import SqlAnswers, SqlPages


class PostgresBackend(PostgresDatabase):
    """All stores in one Postgres database, each tenant behind row security."""

    def tenant(self, tenant: TenantId) -> Store:
        """Return one tenant's stores."""
        database = self.for_tenant(tenant_id(tenant))
        return Store(
            tenant=tenant,
            runs=SqlRuns(database, tenant),
            schedule=SqlSchedule(database, tenant),
            ledger=SqlLedger(database, tenant),
            money=SqlMoney(database, tenant, write=write_moves_at_once),
            pages=SqlPages(database, tenant),
            answers=SqlAnswers(database, tenant),
            accounts=SqlAccounts(database, tenant),
            nights=SqlNights(database, tenant, passing_over=PASSING_OVER),
            touches=SqlTouches(database, tenant),
            attention=SqlAttention(database, tenant),
            listings=SqlListings(database, tenant),
        )

    def shared(self) -> SqlShared:
        """Return what tenants share."""
        return SqlShared(self.for_tenant(None), operators=self.for_tenant(OPERATORS))

    def registry(self) -> SqlRegistry:
        """Return the register of companies."""
        return SqlRegistry(self.for_tenant(None))

    def directory(self) -> SqlDirectory:
        """Return the list of tenants."""
        return SqlDirectory(self.for_tenant(None))
