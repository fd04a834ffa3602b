"""Every room's store in one Postgres database, each tenant behind row security."""

from __future__ import annotations

from stoker.core.model import OPERATORS, TenantId, tenant_id
from stoker.ports import Store
from stoker.stores.postgres import PostgresDatabase
from stoker.stores.postgres_moves import write_moves_at_once
from stoker.stores.sql_accounts import SqlAccounts, SqlDirectory
from stoker.stores.sql_attention import SqlAttention
from stoker.stores.sql_knowledge import SqlAnswers, SqlPages
from stoker.stores.sql_ledger import SqlLedger
from stoker.stores.sql_listings import SqlListings
from stoker.stores.sql_money import SqlMoney
from stoker.stores.sql_nights import PASSING_OVER, SqlNights
from stoker.stores.sql_registry import SqlRegistry
from stoker.stores.sql_runs import SqlRuns
from stoker.stores.sql_schedule import SqlSchedule
from stoker.stores.sql_shared import SqlShared
from stoker.stores.sql_touches import SqlTouches


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
