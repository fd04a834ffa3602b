"""Every room's store in one SQLite file."""

from __future__ import annotations

from stoker.core.model import TenantId, tenant_id
from stoker.ports import Store
from stoker.stores.sql_accounts import SqlAccounts, SqlDirectory
from stoker.stores.sql_attention import SqlAttention
from stoker.stores.sql_knowledge import SqlAnswers, SqlPages
from stoker.stores.sql_ledger import SqlLedger
from stoker.stores.sql_listings import SqlListings
from stoker.stores.sql_money import SqlMoney
from stoker.stores.sql_nights import SqlNights
from stoker.stores.sql_registry import SqlRegistry
from stoker.stores.sql_runs import SqlRuns
from stoker.stores.sql_schedule import SqlSchedule
from stoker.stores.sql_shared import SqlShared
from stoker.stores.sql_touches import SqlTouches
from stoker.stores.sqlite import SqliteDatabase


class SqliteBackend(SqliteDatabase):
    """All stores in one SQLite file."""

    def tenant(self, tenant: TenantId) -> Store:
        """Return one tenant's stores."""
        tenant_id(tenant)  # refuses a name that could not be told apart
        return Store(
            tenant=tenant,
            runs=SqlRuns(self, tenant),
            schedule=SqlSchedule(self, tenant),
            ledger=SqlLedger(self, tenant),
            money=SqlMoney(self, tenant),
            pages=SqlPages(self, tenant),
            answers=SqlAnswers(self, tenant),
            accounts=SqlAccounts(self, tenant),
            nights=SqlNights(self, tenant),
            touches=SqlTouches(self, tenant),
            attention=SqlAttention(self, tenant),
            listings=SqlListings(self, tenant),
        )

    def shared(self) -> SqlShared:
        """Return what tenants share."""
        return SqlShared(self, operators=self)

    def registry(self) -> SqlRegistry:
        """Return the register of companies."""
        return SqlRegistry(self)

    def directory(self) -> SqlDirectory:
        """Return the list of tenants."""
        return SqlDirectory(self)
