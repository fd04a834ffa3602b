"""What the engine needs from the world, and nothing more.

Every verb on a store is written once per backend, so a verb earns its place: it says what the
product means, it is atomic, and it happens wholly or not at all. Stores are told the time; they
never ask for it. All moments are aware; what comes back is in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stoker.base.types import TenantId
from stoker.db.database import Check

if TYPE_CHECKING:
    from stoker.accounts.model import AccountStore, TenantDirectory
    from stoker.budgets.model import BudgetStore, SharedStore
    from stoker.crawl.model import PageStore
    from stoker.discovery.sources import ListingStore
    from stoker.enrichment.model import WorkStore
    from stoker.heat.model import PullStore
    from stoker.ledger.chain import LedgerStore
    from stoker.registry.model import RegistryStore
    from stoker.runs.model import RunStore
    from stoker.scheduling.model import ScheduleStore
    from stoker.touches.model import TouchStore
    from stoker.vendors.model import AnswerStore


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStores:
    """One tenant's memory. There is no verb on it that can reach another tenant's."""

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
    attention: PullStore
    listings: ListingStore


class Backend(Protocol):
    """Where stores live. The only place a tenant is named."""

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Open a tenant's door. A tenant never seen before has an empty store."""
        ...

    def shared(self) -> SharedStore:
        """Open what belongs to no tenant."""
        ...

    def registry(self) -> RegistryStore:
        """Open the public register of companies."""
        ...

    def directory(self) -> TenantDirectory:
        """Open the list of who the tenants are."""
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
        """Look after the backend's own health; what is wrong comes back as a check, not raised."""
        ...

    async def close(self) -> None:
        """Finish what was asked, then let go of files and connections. Closing twice is once."""
        ...
