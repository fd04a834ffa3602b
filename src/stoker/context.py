"""What a backend offers: one tenant's stores, what tenants share, and its own health.

A store verb states what the product means and is atomic: all of it happens, or nothing. The
caller passes the time. All moments are aware, and stores return them in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from stoker.base.types import TenantId
from stoker.db.database import Check

if TYPE_CHECKING:
    from stoker.accounts.model import AccountStore, TenantDirectory
    from stoker.backends.shared import SharedStore
    from stoker.budgets.store import BudgetStore
    from stoker.crawl.store import PageStore
    from stoker.discovery.sources import ListingStore
    from stoker.enrichment.store import WorkStore
    from stoker.heat.store import HeatStore
    from stoker.ledger.store import LedgerStore
    from stoker.registry.model import RegistryStore
    from stoker.runs.model import RunStore
    from stoker.scheduling.store import ScheduleStore
    from stoker.touches.model import TouchStore
    from stoker.vendors.answer_cache import AnswerStore


@dataclass(frozen=True, kw_only=True)
class TenantStores:
    """One tenant's stores. No verb of theirs can reach another tenant's rows."""

    tenant: TenantId
    runs: RunStore
    schedule: ScheduleStore
    ledger: LedgerStore
    money: BudgetStore
    pages: PageStore
    answers: AnswerStore
    accounts: AccountStore
    nights: WorkStore
    touches: TouchStore
    attention: HeatStore
    listings: ListingStore


class LazyTenantStores(TenantStores):
    """One tenant's stores, each built when it is first used: only its room is then imported."""

    def __init__(
        self,
        *,
        tenant: TenantId,
        builders: Mapping[str, Callable[[], object]] | None = None,
        **stores: object,
    ) -> None:
        # `dataclasses.replace` passes every store; a backend passes how to build them.
        self.__dict__.update(stores, tenant=tenant, _builders=builders or {})

    def __getattr__(self, name: str) -> Any:
        builders = self.__dict__.get("_builders", {})
        if name not in builders:
            raise AttributeError(f"a tenant has no store {name!r}")
        self.__dict__[name] = builders[name]()
        return self.__dict__[name]


class Backend(Protocol):
    """Where stores live. The only place a tenant is named."""

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Return a tenant's stores; those of an unknown tenant are empty."""
        ...

    def shared(self) -> SharedStore:
        """Return the store of what tenants share."""
        ...

    def registry(self) -> RegistryStore:
        """Return the public register of companies."""
        ...

    def directory(self) -> TenantDirectory:
        """Return the list of tenants."""
        ...

    async def migrate(self) -> list[str]:
        """Bring the schema up to this program's version; return the steps taken, none if current.

        Every step happens once, in a transaction. Raises ConfigError when the schema is newer
        than this program.
        """
        ...

    async def schema_version(self) -> int:
        """Return the version of the schema as it is, 0 when there is none yet."""
        ...

    async def checks(self) -> list[Check]:
        """Return health checks; a problem is a failed check, never an error."""
        ...

    async def close(self) -> None:
        """Finish pending work, then close files and connections. Closing twice is allowed."""
        ...
