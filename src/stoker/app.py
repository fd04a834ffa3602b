"""Builds the program from its settings: backend, limits, vendor clients, scheduled tasks.

Only this module reads the environment. Each part is built, and its room imported, when it is
first used: a command that reads runs imports neither vendors nor planners.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError, StokerError
from stoker.base.events import EventBus, Migrated, Observer
from stoker.base.telemetry import build_telemetry, capture_library_logs
from stoker.base.types import Step, TenantId
from stoker.calendar.recurrence import CatchUp, Interval
from stoker.config.load import load_settings
from stoker.config.tenants import add_stored_tenants
from stoker.context import Backend
from stoker.settings import Settings

if TYPE_CHECKING:
    from stoker.accounts.model import Tenant
    from stoker.budgets.caps import Cap
    from stoker.budgets.service import BudgetService
    from stoker.budgets.windows import ResetRule
    from stoker.connectors import VendorFactory
    from stoker.discovery.export import PostingFiles
    from stoker.discovery.run import DiscoveryRun
    from stoker.heat.sweep import HeatSweep
    from stoker.maintenance.service import CachedHealthChecks, Maintenance
    from stoker.nightly.service import NightlyRun
    from stoker.pulls.service import PullPlanner
    from stoker.rate_limits.host_delays import HostPacer
    from stoker.rate_limits.limiter import CallLimiter, FairQueue, VendorLimits
    from stoker.rate_limits.rate_limit import ConcurrencyLimiter, RateLimiter
    from stoker.runs.model import Manifest, Run
    from stoker.runs.service import RunJob, Runner
    from stoker.scheduling.service import Scheduler, Task
    from stoker.vendors.client import VendorClient

LEASE_LENGTH = timedelta(seconds=30)
RESERVATION_LEASE = timedelta(seconds=60)  # then the reservations of a dead process expire
# Signals are deleted after so many half-lives: nothing is left of them.
SIGNAL_AGE_PER_HALF_LIFE = 40
CONFIG_FILE, ENV_FILE = "stoker.toml", ".env"
CLOCK_AHEAD = "STOKER_TEST_CLOCK_AHEAD_S"
_TRIM_ABOVE, _MAP_FROM, _POOLS = -1, -3, -8  # parameters of mallopt(3)
_LARGE_BYTES = 256 * 1024

_Part = TypeVar("_Part")


class Gates:
    """One budget service per tenant, opened when first used, all closed together.

    While open, each renews the leases of its tenant's reservations.
    """

    def __init__(self, build: Callable[[TenantId], BudgetService]) -> None:
        self._build = build
        self._gates: dict[TenantId, BudgetService] = {}
        self._open = AsyncExitStack()
        self._closed = False

    async def get_gate(self, tenant: TenantId) -> BudgetService:
        """Return a tenant's budget service, the same each time. Raises ConfigError once closed."""
        if self._closed:
            raise ConfigError("this process is closing; it can reserve nothing more")
        if tenant not in self._gates:
            # Before the first await, so that a concurrent caller gets this one.
            self._gates[tenant] = self._build(tenant)
            await self._open.enter_async_context(self._gates[tenant])
        return self._gates[tenant]

    async def __aenter__(self) -> Gates:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        await self._open.aclose()


def trim_memory() -> None:
    """Make the C library return large freed buffers to the system at once.

    Otherwise it keeps them, in one pool per thread, and a long night takes ever more memory.
    Call it before any thread starts; without such a library it does nothing.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        for what, value in (
            (_MAP_FROM, _LARGE_BYTES),
            (_TRIM_ABOVE, 2 * _LARGE_BYTES),
            (_POOLS, 2),
        ):
            library.mallopt(what, value)


@dataclass(frozen=True, kw_only=True)
class App:
    """Everything a command needs, opened and ready."""

    settings: Settings
    backend: Backend
    clock: Clock
    observer: Observer
    owner: str  # unlike that of any other process, past ones included
    gates: Gates
    _events: EventBus  # what shared parts report to; see `redirect_events`
    _exits: AsyncExitStack = field(default_factory=AsyncExitStack)
    _parts: dict[str, Any] = field(default_factory=dict)
    _limiters: dict[TenantId, CallLimiter] = field(default_factory=dict)
    _vendor_clients: dict[TenantId, VendorClient] = field(default_factory=dict)

    @contextmanager
    def redirect_events(self, observer: Observer) -> Iterator[App]:
        """Send all events to another observer until the block ends.

        Yields the app to use in it. Parts that both share, such as gates and vendor clients,
        report to that observer too.
        """
        with self._events.redirect(observer):
            yield replace(self, observer=observer)

    @property
    def vendor_limits(self) -> VendorLimits:
        """The rate limits of every vendor."""
        from stoker.policies import build_vendor_limits

        return self._get_part(
            "vendor_limits",
            lambda: build_vendor_limits(
                self.settings, self.backend, owner=self.owner, clock=self.clock
            ),
        )

    @property
    def hosts(self) -> HostPacer:
        """The delay between two requests to one host."""
        from stoker.policies import build_host_pacer

        return self._get_part(
            "hosts", lambda: build_host_pacer(self.settings, self.backend, clock=self.clock)
        )

    @property
    def connectors(self) -> VendorFactory:
        """The vendors' clients; closed with the app."""
        from stoker.connectors import VendorFactory

        def build() -> VendorFactory:
            backend = self.backend
            built = VendorFactory(
                self.settings,
                hosts=self.hosts,
                traffic=self.vendor_limits,
                clock=self.clock,
                stops=lambda tenant: backend.tenant(tenant).money.list_stops(),
            )
            self._exits.push_async_exit(built)
            return built

        return self._get_part("connectors", build)

    @property
    def health_checks(self) -> CachedHealthChecks:
        """The backend's health, asked once for all tenants."""
        from stoker.maintenance.service import CachedHealthChecks

        return self._get_part("health_checks", lambda: CachedHealthChecks(self.backend, self.clock))

    def _get_part(self, name: str, build: Callable[[], _Part]) -> _Part:
        if name not in self._parts:
            self._parts[name] = build()
        part: _Part = self._parts[name]
        return part

    async def get_gate(self, tenant: TenantId) -> BudgetService:
        """Return a tenant's way to spend money, kept alive until the app is closed."""
        return await self.gates.get_gate(tenant)

    def get_limiter(self, tenant: TenantId) -> CallLimiter:
        """Return what a tenant's paid calls wait for: turns, places, rates."""
        from stoker.rate_limits.limiter import CallLimiter

        if tenant not in self._limiters:
            self._limiters[tenant] = CallLimiter(self.vendor_limits, tenant, clock=self.clock)
        return self._limiters[tenant]

    async def get_vendor_client(self, tenant: TenantId) -> VendorClient:
        """Return a tenant's way to ask vendors: what was answered before is not paid for again."""
        from stoker.vendors.client import VendorClient

        gate = await self.get_gate(tenant)
        if tenant not in self._vendor_clients:
            self._vendor_clients[tenant] = VendorClient(
                self.backend.tenant(tenant),
                gate=gate,
                passages=self.get_limiter(tenant),
                clock=self.clock,
                observer=self._events,
                chance=random.random,
                reset=self.get_reset_rule(tenant),
                rehearsing=self.settings.sandbox.address is not None,
            )
        return self._vendor_clients[tenant]

    def get_rate_limiter(self, connector: str, tenant: TenantId | None = None) -> RateLimiter:
        """Return the pace of a connector's calls; of which tenant, where each has its own key."""
        return self.vendor_limits.get_rate_limiter(connector, tenant=tenant)

    def get_concurrency_limiter(
        self, connector: str, tenant: TenantId | None = None
    ) -> ConcurrencyLimiter | None:
        """Return a connector's places; None when the turnstile alone says how many go at once."""
        return self.vendor_limits.find_concurrency_limiter(connector, tenant=tenant)

    def get_fair_queue(self, connector: str, tenant: TenantId | None = None) -> FairQueue:
        """Return where tenants of this process wait for their turn on a connector."""
        return self.vendor_limits.get_fair_queue(connector, tenant=tenant)

    @property
    def runner(self) -> Runner:
        """What starts and executes runs in this process."""
        from stoker.enrichment.summary import summarize_partial_run
        from stoker.runs.leases import LeaseHolder
        from stoker.runs.service import Runner

        leases = LeaseHolder(
            owner=self.owner, clock=self.clock, observer=self.observer, length=LEASE_LENGTH
        )
        return Runner(leases=leases, summarize=summarize_partial_run)

    async def run_now(self, tenant: TenantId, job: RunJob) -> Run:
        """Run a job for a tenant, due or not. Raises ConflictError while one is running."""
        return await self.runner.run_now(
            self.backend.tenant(tenant), job, manifest=self.build_manifest(tenant)
        )

    def build_manifest(self, tenant: TenantId) -> Manifest:
        """Return the manifest of a run that starts with a tenant's settings."""
        from stoker.runs.model import Manifest, compute_config_hash

        own = self.settings.for_tenant(tenant)
        snapshot = own.snapshot()
        return Manifest(
            config_hash=compute_config_hash(snapshot), config=snapshot, caps=own.list_cap_values()
        )

    def build_task(self, tenant: TenantId, job: RunJob) -> Task:
        """Return a job as a task, due when the tenant's schedule says so."""
        from stoker.scheduling.service import Task

        own = self.settings.for_tenant(tenant)
        return Task(
            tenant=tenant,
            job=job,
            schedule=self.settings.get_schedule(tenant),
            manifest=self.build_manifest(tenant),
            catch_up=CatchUp(own.scheduling.catch_up),
            at_most=own.scheduling.catch_up_max,
        )

    def build_maintenance(self, tenant: TenantId) -> Maintenance:
        """Return a tenant's upkeep with the schedule and rules in force for it."""
        from stoker.maintenance.service import Maintenance

        own = self.settings.for_tenant(tenant)
        return Maintenance(
            runner=self.runner,
            health_checks=self.health_checks,
            schedule=self.settings.get_schedule(tenant),
            zone=own.scheduling.timezone,
            rule=own.retention,
            signal_retention=SIGNAL_AGE_PER_HALF_LIFE * own.heat.half_life,
        )

    def build_nightly_run(
        self,
        tenant: TenantId,
        *,
        limit: int | None = None,
        steps: tuple[Step, ...] = tuple(Step),
        from_run: str = "",
        again: bool = False,
    ) -> NightlyRun:
        """Return a tenant's night; at most so many companies, only these steps, if said."""
        from stoker.nightly.setup import build_exporter, build_nightly_options, build_nightly_run

        own, reset = self.settings.for_tenant(tenant), self.get_reset_rule(tenant)
        return build_nightly_run(
            tenant,
            build_nightly_options(
                own, reset=reset, limit=limit, steps=steps, from_run=from_run, again=again
            ),
            own=own,
            backend=self.backend,
            connectors=self.connectors,
            gate=lambda: self.get_gate(tenant),
            asking=lambda: self.get_vendor_client(tenant),
            caps=lambda: self.list_caps(tenant),
            exports=build_exporter(self.connectors, tenant, own=own),
            owner=self.owner,
            clock=self.clock,
        )

    def build_nightly_task(self, tenant: TenantId, night: NightlyRun) -> Task:
        """Return a tenant's night as a task, due when its schedule says so."""
        return replace(self.build_task(tenant, night), resume_window=self.get_reset_rule(tenant))

    def build_heat_sweep(self, tenant: TenantId) -> HeatSweep:
        """Return what brings a tenant's heats up to date."""
        from stoker.heat.sweep import HeatSweep

        own = self.settings.for_tenant(tenant)
        return HeatSweep(heat=own.heat, tiers=own.heat, icp_rule=own.icp.rule_name)

    def build_sweep_task(self, tenant: TenantId) -> Task:
        """Return a tenant's sweep as a task, due every so often, whatever its nights are."""
        every = self.settings.heat.sweep_every
        return replace(
            self.build_task(tenant, self.build_heat_sweep(tenant)),
            schedule=Interval(every=every),
            catch_up=CatchUp.LATEST,
        )

    def build_pull_planner(self, tenant: TenantId, *, policy: str | None = None) -> PullPlanner:
        """Return what plans a tenant's pulls; by another policy than settings say, if said."""
        from stoker.pulls.service import build_pull_planner

        return build_pull_planner(
            tenant,
            own=self.settings.for_tenant(tenant),
            policy=policy,
            backend=self.backend,
            connectors=self.connectors,
            caps=lambda: self.list_caps(tenant),
            reset=self.get_reset_rule(tenant),
            traffic=self.vendor_limits,
            clock=self.clock,
        )

    def build_pull_run(self, tenant: TenantId, *, policy: str | None = None) -> NightlyRun:
        """Return a tenant's pulls: looks chosen by what they are worth, done as a night's are."""
        from stoker.nightly.setup import build_exporter
        from stoker.pulls.service import build_pull_run

        return build_pull_run(
            tenant,
            planning=self.build_pull_planner(tenant, policy=policy),
            own=self.settings.for_tenant(tenant),
            backend=self.backend,
            connectors=self.connectors,
            gate=lambda: self.get_gate(tenant),
            asking=lambda: self.get_vendor_client(tenant),
            exports=build_exporter(self.connectors, tenant, own=self.settings.for_tenant(tenant)),
            owner=self.owner,
            reset=self.get_reset_rule(tenant),
        )

    def get_posting_files(self, tenant: TenantId, *, out: Path | None = None) -> PostingFiles:
        """Return where a tenant's files of postings go: there, or where its settings say."""
        from stoker.discovery.service import build_posting_files

        alone = len(self.settings.tenants) == 1
        return build_posting_files(self.settings.for_tenant(tenant), tenant, out=out, alone=alone)

    def build_discovery_run(
        self, tenant: TenantId, *, files: PostingFiles | None, enrich: bool | None = None
    ) -> DiscoveryRun:
        """Return a tenant's discovery, as settings say or as somebody asks for."""
        from stoker.discovery.service import build_discovery

        own = self.settings.for_tenant(tenant)
        return build_discovery(own, tenant, connectors=self.connectors, files=files, enrich=enrich)

    def _list_discovery_tasks(self, tenants: tuple[TenantId, ...]) -> list[Task]:
        return [
            self.build_task(
                tenant, self.build_discovery_run(tenant, files=self.get_posting_files(tenant))
            )
            for tenant in tenants
            if (said := self.settings.for_tenant(tenant).discovery).scheduled and said.sources
        ]

    def _list_pull_tasks(self, tenants: tuple[TenantId, ...]) -> list[Task]:
        sweeps = [self.build_sweep_task(tenant) for tenant in tenants]
        pulls = [
            replace(
                self.build_nightly_task(tenant, self.build_pull_run(tenant)),
                schedule=Interval(every=said.tick),
                catch_up=CatchUp.LATEST,
            )
            for tenant in tenants
            if (said := self.settings.for_tenant(tenant).pulls).scheduled
        ]
        return [*sweeps, *pulls]

    async def list_caps(self, tenant: TenantId) -> tuple[Cap, ...]:
        """Return every cap in force for a tenant, those it shares first.

        Includes caps a person added; what people said about limits is asked for by the store, in
        the moment in which it grants or refuses.
        """
        from stoker.budgets.caps import build_default_caps, list_effective_caps

        given = build_default_caps(self.settings.for_tenant(tenant).caps)
        own = await self.backend.tenant(tenant).money.list_cap_changes()
        return (*await self.list_shared_caps(), *list_effective_caps(given, own, shared=False))

    async def list_shared_caps(self) -> tuple[Cap, ...]:
        """Return the caps that tenants share. There are none until an operator sets one."""
        from stoker.budgets.caps import list_effective_caps

        return list_effective_caps((), await self.backend.shared().list_cap_changes(), shared=True)

    def get_reset_rule(self, tenant: TenantId) -> ResetRule:
        """Return when a tenant's caps begin anew: in its own zone, at its own time."""
        from stoker.policies import build_reset_rule

        return build_reset_rule(self.settings.for_tenant(tenant))

    def build_scheduler(
        self, tenants: tuple[TenantId, ...], *, nights: tuple[TenantId, ...] = ()
    ) -> Scheduler:
        """Return a scheduler for tenants' upkeep, and for the nights of some, in this process.

        Whoever has nights has its heats swept, and its pulls made if its settings want that;
        whoever's settings want it discovers too.
        """
        from stoker.scheduling.service import Scheduler

        upkeep = [self.build_task(tenant, self.build_maintenance(tenant)) for tenant in tenants]
        discoveries = self._list_discovery_tasks(tenants)
        said = self.settings.scheduling
        tonight = [
            replace(
                self.build_nightly_task(tenant, self.build_nightly_run(tenant)),
                start_delay=timedelta(seconds=said.stagger_s * (nth % said.tenant_concurrency)),
            )
            for nth, tenant in enumerate(nights)
        ]
        return Scheduler(
            [*upkeep, *discoveries, *tonight, *self._list_pull_tasks(nights)],
            backend=self.backend,
            runner=self.runner,
            at_once=said.tenant_concurrency,
        )


def read_settings(
    *,
    directory: Path,
    config: Path | None,
    flags: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Read the settings for work in a directory. Raises ConfigError."""
    return load_settings(
        file=_find_config_file(directory, config),
        env_file=directory / ENV_FILE if (directory / ENV_FILE).is_file() else None,
        environment=environment,
        flags=flags,
    ).with_directory(directory)


def system_clock(environment: Mapping[str, str] = os.environ) -> SystemClock:
    """Return the machine's clock, moved by the seconds that a test sets in the environment."""
    return SystemClock(ahead=timedelta(seconds=float(environment.get(CLOCK_AHEAD) or 0)))


def build_backend(settings: Settings) -> Backend:
    """Return the backend these settings name. Nothing is opened for writing yet."""
    storage = settings.storage
    if storage.backend == "memory":
        from stoker.backends.sqlite import MemoryBackend

        return MemoryBackend()
    if storage.backend == "postgres":
        from stoker.backends.postgres import PostgresBackend

        if storage.postgres_url is None:
            raise ConfigError("storage.backend is postgres; set storage.postgres_url too")
        return PostgresBackend(storage.postgres_url.reveal())
    from stoker.backends.sqlite import SqliteBackend

    if storage.backend == "json":
        from stoker.backends.json import JsonBackend

        return JsonBackend(
            storage.json_dir, schedule=SqliteBackend(storage.json_dir / "schedule.db")
        )
    return SqliteBackend(storage.sqlite_path)


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    observer: Observer | None = None,
    only_to_read: bool = False,
) -> AsyncIterator[App]:
    """Open everything these settings name, its schema current, and close it afterwards.

    Only to read, a store that cannot be written to will do: looking must work before acting.
    What libraries log meanwhile goes where our own lines go, and is redacted like them.
    """
    trim_memory()
    if not only_to_read:
        from stoker.backends.stores import import_stores

        import_stores()
    logs = build_telemetry(
        sys.stderr,
        form=settings.logging.format,
        level=settings.logging.level,
        secrets=settings.list_secret_values(),
        no_colour=settings.logging.no_color,
    )
    backend = build_backend(settings)
    try:
        with capture_library_logs(logs):
            clock, observer = clock or system_clock(), observer or logs
            new = await _is_store_missing(settings, backend)
            if new and only_to_read:
                from stoker.backends.sqlite import MemoryBackend

                await backend.close()
                backend = MemoryBackend()  # a missing store reads as empty; reading creates none
            steps = await _migrate_backend(backend, only_to_read=only_to_read)
            for step in () if new else steps:
                observer(Migrated(at=clock.now(), step=step))
            settings = add_stored_tenants(
                settings, await _list_stored_tenants(backend, only_to_read=only_to_read)
            )
            owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
            events = EventBus(observer)
            build = _BudgetBuilder(settings, backend, owner=owner, clock=clock, events=events)
            async with Gates(build) as gates, AsyncExitStack() as exits:
                yield App(
                    settings=settings,
                    backend=backend,
                    clock=clock,
                    observer=observer,
                    owner=owner,
                    gates=gates,
                    _events=events,
                    _exits=exits,
                )
    finally:
        await backend.close()


@dataclass(frozen=True)
class _BudgetBuilder:
    settings: Settings
    backend: Backend
    _: KW_ONLY
    owner: str
    clock: Clock
    events: EventBus

    def __call__(self, tenant: TenantId) -> BudgetService:
        from stoker.budgets.caps import build_default_caps
        from stoker.budgets.service import BudgetService
        from stoker.policies import build_reset_rule

        own = self.settings.for_tenant(tenant)
        return BudgetService(
            self.backend.tenant(tenant).money,
            caps=build_default_caps(own.caps),
            reset=build_reset_rule(own),
            owner=self.owner,
            clock=self.clock,
            lease=RESERVATION_LEASE,
            tenant=tenant,
            observer=self.events,
        )


async def _is_store_missing(settings: Settings, backend: Backend) -> bool:
    embedded = settings.storage.backend in ("sqlite", "json")
    return embedded and await backend.schema_version() == 0


async def _list_stored_tenants(backend: Backend, *, only_to_read: bool) -> list[Tenant]:
    try:
        return await backend.directory().list_tenants()
    except StokerError:
        if not only_to_read:
            raise
        return []  # as above


async def _migrate_backend(backend: Backend, *, only_to_read: bool) -> list[str]:
    try:
        return await backend.migrate()
    except ConfigError:
        if not only_to_read:
            raise
        return []  # the first read says what is wrong, if it matters to it


def _find_config_file(directory: Path, config: Path | None) -> Path | None:
    if config is not None:
        if not config.is_file():
            raise ConfigError(f"there is no settings file {config}; write one with: stoker init")
        return config
    found = directory / CONFIG_FILE
    return found if found.is_file() else None
