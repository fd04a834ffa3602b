"""What services are built from: a context per process and per tenant, and the backend's stores.

A room builds its parts from the context, and the context keeps them: `context.get(build_limits)`
is the same limits each time. A store verb is atomic: all of it happens, or nothing. The caller
passes the time. All moments are aware, and stores return them in UTC.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from stoker.base.errors import ConfigError
from stoker.base.types import OPERATORS, TenantId, parse_tenant_id

if TYPE_CHECKING:
    from stoker.accounts.store import AccountStore
    from stoker.backends.shared import SharedStore
    from stoker.base.clock import Clock
    from stoker.base.events import EventBus, Observer
    from stoker.budgets.store import BudgetStore
    from stoker.crawl.store import PageStore
    from stoker.crm.store import CrmStore
    from stoker.db.database import Check, Database
    from stoker.db.table import Table
    from stoker.discovery.store import ListingStore
    from stoker.enrichment.store import WorkStore
    from stoker.heat.store import HeatStore
    from stoker.ledger.store import LedgerStore
    from stoker.pulls.store import PlanStore
    from stoker.registry.store import RegistryStore
    from stoker.runs.json_store import JsonRunStore
    from stoker.runs.store import RunStore
    from stoker.scheduling.store import ScheduleStore
    from stoker.settings import Settings
    from stoker.tenants.store import SetupStore, TenantDirectory
    from stoker.touches.store import TouchStore
    from stoker.vendors.answer_cache import AnswerStore

PartT = TypeVar("PartT")
OpenPartT = TypeVar("OpenPartT", bound=AbstractAsyncContextManager[Any])


_STORES = {  # by the name in `TenantStores`
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
    "plans": "stoker.pulls.store:PlanStore",
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
    name.partition(":")[0] for name in (*_STORES.values(), _SHARED, _REGISTRY, _DIRECTORY)
}


def import_stores() -> None:
    """Import every store now.

    A process that writes for hours calls this first: an import later could fail, for example
    when no file can be opened any more.
    """
    for name in STORE_MODULES:
        import_module(name)


def _load(name: str) -> Any:
    """Return what is at `module:name`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True, init=False)
class TenantStores:
    """One tenant's stores. No verb of theirs can reach another tenant's rows.

    Each is imported and built when it is first used: a command that reads runs imports the store
    of runs and no other room.
    """

    tenant: TenantId
    runs: RunStore | JsonRunStore
    schedule: ScheduleStore
    ledger: LedgerStore
    budgets: BudgetStore
    pages: PageStore
    answers: AnswerStore
    setup: SetupStore
    accounts: AccountStore
    work_items: WorkStore
    crm: CrmStore
    touches: TouchStore
    heat: HeatStore
    plans: PlanStore
    listings: ListingStore

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
        if name not in _STORES:
            raise AttributeError(f"a tenant has no store {name!r}")
        options = _POSTGRES_OPTIONS.get(name, {}) if self._is_postgres else {}
        store = _load(_STORES[name])(
            self._database, **{option: _load(value) for option, value in options.items()}
        )
        self.__dict__[name] = store
        return store


class Backend(ABC):
    """Where stores live. The only place a tenant is named."""

    is_postgres: ClassVar[bool] = False

    @abstractmethod
    def for_tenant(self, tenant: TenantId | None) -> Database:
        """Return the database as one tenant sees it; for None, without any tenant's rows."""

    @abstractmethod
    async def migrate(self) -> list[str]:
        """Bring the schema up to this program's version; return the steps taken, none if current.

        Every step happens once, in a transaction. Raises ConfigError when the schema is newer
        than this program.
        """

    @abstractmethod
    async def schema_version(self) -> int:
        """Return the version of the schema as it is, 0 when there is none yet."""

    @abstractmethod
    async def checks(self) -> list[Check]:
        """Return health checks; a problem is a failed check, never an error."""

    @abstractmethod
    def list_tables(self) -> Sequence[Table[Any]]:
        """Return every table, those that tenants share included."""

    @abstractmethod
    def list_grants(self) -> Mapping[str, str]:
        """Return by table what this program may do with its rows, e.g. "SELECT, INSERT".

        Postgres enforces it; on SQLite it is a promise all the same.
        """

    @abstractmethod
    async def overwrite_deleted(self) -> str:
        """Overwrite the bytes that deleted rows left in our files.

        Returns what only the owner of a database server can do, in a sentence; empty if nothing.
        Raises TransientError while another process reads the file.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish pending work, then close files and connections. Closing twice is allowed."""

    def tenant(self, tenant: TenantId) -> TenantStores:
        """Return a tenant's stores; those of an unknown tenant are empty."""
        session = self.for_tenant(parse_tenant_id(tenant))
        return TenantStores(tenant=tenant, database=session, is_postgres=self.is_postgres)

    def shared(self) -> SharedStore:
        """Return the store of what tenants share."""
        store: SharedStore = _load(_SHARED)(
            self.for_tenant(None), operators=self.for_tenant(OPERATORS)
        )
        return store

    def registry(self) -> RegistryStore:
        """Return the public register of companies."""
        store: RegistryStore = _load(_REGISTRY)(self.for_tenant(None))
        return store

    def directory(self) -> TenantDirectory:
        """Return the list of tenants."""
        store: TenantDirectory = _load(_DIRECTORY)(self.for_tenant(None))
        return store


class Parts:
    """What a process has built, each part once. All are closed together, the latest first."""

    def __init__(self) -> None:
        self.exits = AsyncExitStack()
        self._built: dict[object, Any] = {}
        self._is_closed = False

    def get(self, key: object, build: Callable[[], PartT]) -> PartT:
        """Return the part of this key, built when it is first asked for."""
        if key not in self._built:
            self._built[key] = build()
        part: PartT = self._built[key]
        return part

    async def open(self, key: object, build: Callable[[], OpenPartT]) -> OpenPartT:
        """As `get`, for a part that is entered first. Raises ConfigError once closed."""
        if self._is_closed:
            raise ConfigError("this process is closing; it can reserve nothing more")
        is_new = key not in self._built
        part = self.get(key, build)  # before the first await: a concurrent caller gets this one
        if is_new:
            await self.exits.enter_async_context(part)
        return part

    async def __aenter__(self) -> Parts:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        await self.exits.aclose()


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the services of a process are built from, opened and ready."""

    settings: Settings
    backend: Backend
    clock: Clock
    observer: Observer
    owner: str  # unlike that of any other process, past ones included
    events: EventBus  # what parts report to, see `redirect_events`
    parts: Parts = field(default_factory=Parts)

    def get(self, build: Callable[[Context], PartT]) -> PartT:
        """Return what this function builds for the process, the same each time."""
        return self.parts.get(build, lambda: build(self))

    def for_tenant(self, tenant: TenantId) -> TenantContext:
        """Return a tenant's context. Raises ConfigError for an unknown tenant."""
        own = self.parts.get(("settings", tenant), lambda: self.settings.for_tenant(tenant))
        return TenantContext(process=self, settings=own, store=self.backend.tenant(tenant))

    @contextmanager
    def redirect_events(self, observer: Observer) -> Iterator[Self]:
        """Send all events to another observer until the block ends.

        Yields the context to use in it. Parts that both share report to that observer too.
        """
        with self.events.redirect(observer):
            yield replace(self, observer=observer)


@dataclass(frozen=True, kw_only=True)
class TenantContext:
    """What the services of one tenant are built from."""

    process: Context
    settings: Settings  # what is in force for this tenant
    store: TenantStores

    @property
    def id(self) -> TenantId:
        """The tenant's id."""
        return self.store.tenant

    @property
    def clock(self) -> Clock:
        """The clock of the process."""
        return self.process.clock

    def get(self, build: Callable[[TenantContext], PartT]) -> PartT:
        """Return what this function builds for the tenant, the same each time."""
        return self.process.parts.get((build, self.id), lambda: build(self))

    async def open(self, build: Callable[[TenantContext], OpenPartT]) -> OpenPartT:
        """As `get`, for a part that stays entered until the process closes."""
        return await self.process.parts.open((build, self.id), lambda: build(self))
