"""Every room's store in one SQLite file."""

from __future__ import annotations

from stoker.accounts.store import SqlAccounts, SqlDirectory
from stoker.base.types import TenantId, tenant_id
from stoker.budgets.shared_store import SqlShared
from stoker.budgets.store import SqlMoney
from stoker.context import Store
from stoker.db.sqlite import SqliteDatabase
from stoker.discovery.store import SqlListings
from stoker.heat.store import SqlAttention
from stoker.ledger.store import SqlLedger
from stoker.nightly.store import SqlNights
from stoker.registry.store import SqlRegistry
from stoker.runs.store import SqlRuns
from stoker.scheduling.store import SqlSchedule
from stoker.touches.store import SqlTouches
from stoker.vendors.answer_cache import SqlAnswers, SqlPages


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
