"""Builds one tenant's SQL stores, each when it is first used.

A command that reads runs then imports the store of runs and no other room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stoker.base.types import TenantId, parse_tenant_id
from stoker.context import LazyTenantStores, TenantStores

if TYPE_CHECKING:
    from stoker.accounts.store import AccountStore
    from stoker.budgets.store import BudgetStore
    from stoker.crawl.store import PageStore
    from stoker.db.database import Database
    from stoker.discovery.store import ListingStore
    from stoker.enrichment.store import WorkStore
    from stoker.heat.store import HeatStore
    from stoker.ledger.store import LedgerStore
    from stoker.runs.store import SqlRunStore
    from stoker.scheduling.store import ScheduleStore
    from stoker.touches.store import TouchStore
    from stoker.vendors.answer_cache import AnswerStore


STORE_MODULES = (
    "stoker.accounts.store",
    "stoker.backends.shared",
    "stoker.budgets.store",
    "stoker.crawl.store",
    "stoker.discovery.store",
    "stoker.enrichment.store",
    "stoker.heat.store",
    "stoker.ledger.store",
    "stoker.registry.store",
    "stoker.runs.store",
    "stoker.scheduling.store",
    "stoker.touches.store",
    "stoker.vendors.answer_cache",
)


def import_stores() -> None:
    """Import every store now.

    A process that writes for hours calls this first: an import later could fail, for example
    when no file can be opened any more.
    """
    for name in STORE_MODULES:
        import_module(name)


def build_tenant_stores(
    database: Database, tenant: TenantId, *, on_server: bool = False
) -> TenantStores:
    """Return one tenant's stores; `on_server` says that the database is Postgres."""
    parse_tenant_id(tenant)

    def runs() -> SqlRunStore:
        from stoker.runs.store import SqlRunStore

        return SqlRunStore(database)

    def schedule() -> ScheduleStore:
        from stoker.scheduling.store import ScheduleStore

        return ScheduleStore(database)

    def ledger() -> LedgerStore:
        from stoker.ledger.store import LedgerStore

        return LedgerStore(database)

    def money() -> BudgetStore:
        from stoker.budgets.store import BudgetStore, write_changes, write_changes_on_server

        write = write_changes_on_server if on_server else write_changes
        return BudgetStore(database, write=write)

    def pages() -> PageStore:
        from stoker.crawl.store import PageStore

        return PageStore(database)

    def answers() -> AnswerStore:
        from stoker.vendors.answer_cache import AnswerStore

        return AnswerStore(database)

    def accounts() -> AccountStore:
        from stoker.accounts.store import AccountStore

        return AccountStore(database)

    def nights() -> WorkStore:
        from stoker.enrichment.store import SKIP_LOCKED, WorkStore

        return WorkStore(database, skip_locked=SKIP_LOCKED if on_server else "")

    def touches() -> TouchStore:
        from stoker.touches.store import TouchStore

        return TouchStore(database)

    def attention() -> HeatStore:
        from stoker.heat.store import HeatStore

        return HeatStore(database)

    def listings() -> ListingStore:
        from stoker.discovery.store import ListingStore

        return ListingStore(database)

    builders = (
        runs,
        schedule,
        ledger,
        money,
        pages,
        answers,
        accounts,
        nights,
        touches,
        attention,
        listings,
    )
    return LazyTenantStores(tenant=tenant, builders={build.__name__: build for build in builders})
