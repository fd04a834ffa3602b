"""Builds the real things from Settings; the only file that knows them all.

It alone reads the environment. A backend is imported when it is asked for, so nobody pays for the
ones they do not use.

One gate per tenant in this process, opened when first asked for, closed together.

What a gate is stands in `paying`; whose promises it makes, under which caps, is told by whoever
builds this.

Large buffers go back to the machine as soon as nobody needs them.

Pages of strangers are large now and then. Where the C library keeps what they took for another
time, in as many pools as there are threads, a long night takes more memory the longer it is. It
can be told not to; where there is no such thing to tell, nothing happens.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from stoker.accounts.model import Tenant
from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError, StokerError
from stoker.base.events import Migrated, Observer
from stoker.base.telemetry import library_logs, observer_for
from stoker.base.types import Step, TenantId
from stoker.budgets.caps import Cap, caps_in_force
from stoker.budgets.gate import Gate
from stoker.budgets.reserver import Promises
from stoker.budgets.windows import ResetRule
from stoker.calendar.recurrence import CatchUp, Interval
from stoker.config.load import load
from stoker.config.tenants import joined
from stoker.connectors import Connectors
from stoker.context import Backend
from stoker.crawl.model import Pacer
from stoker.discovery.service import Discovery
from stoker.heat.sweep import Sweep
from stoker.maintenance.service import Checkup, Upkeep
from stoker.memory.backend import MemoryBackend
from stoker.nightly.service import Night
from stoker.nightly.setup import exports_for, night_for, order_of
from stoker.policies import caps_of, hosts_for, reset_of, retention_rule, traffic_for
from stoker.rate_limits.limiter import Passages, Traffic, Turnstile
from stoker.rate_limits.rate_limit import Pace, Places
from stoker.runs.leases import Leaseholder
from stoker.runs.model import Manifest, config_hash
from stoker.scheduling.service import Scheduler, Task
from stoker.settings import Settings
from stoker.vendors.client import Asking

if TYPE_CHECKING:
    from stoker.discovery.export import PostingFiles
    from stoker.pulls.service import PullPlanning, Pulls


class Gates:
    """The gates of one process. While open, their promises are kept alive."""

    def __init__(self, promises: Callable[[TenantId], Promises], *, clock: Clock) -> None:
        self._promises = promises
        self._clock = clock
        self._gates: dict[TenantId, Gate] = {}
        self._open = AsyncExitStack()
        self._closed = False

    async def gate(self, tenant: TenantId) -> Gate:
        """Return a tenant's gate, the same each time. Raises ConfigError once this is closed."""
        if self._closed:
            raise ConfigError("this process is closing; ask for money while it is open")
        if tenant not in self._gates:
            promises = self._promises(tenant)
            # Before the first wait, so that whoever asks meanwhile gets this one.
            self._gates[tenant] = Gate(promises, clock=self._clock)
            await self._open.enter_async_context(promises)
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


_TRIM_ABOVE, _MAP_FROM, _POOLS = -1, -3, -8  # as mallopt(3) numbers them

_LARGE = 256 * 1024


def hand_back_large_buffers() -> None:
    """Tell the C library of this process; to be called before threads are begun."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        for what, value in ((_MAP_FROM, _LARGE), (_TRIM_ABOVE, 2 * _LARGE), (_POOLS, 2)):
            library.mallopt(what, value)


FADED = timedelta(hours=40)  # for each hour of their half-life: what is left of signals is nothing

LEASE_LENGTH = timedelta(seconds=30)

PROMISE_LEASE = timedelta(seconds=60)  # after which the promises of a dead process are dealt with

CONFIG_FILE, ENV_FILE = "stoker.toml", ".env"

CLOCK_AHEAD = "STOKER_TEST_CLOCK_AHEAD_S"


@dataclass(frozen=True, kw_only=True)
class App:
    """Everything a command needs, opened and ready."""

    settings: Settings
    backend: Backend
    clock: Clock
    observer: Observer
    checkup: Checkup
    owner: str  # unlike any other process's, also of those long gone
    gates: Gates
    traffic: Traffic
    hosts: Pacer
    connectors: Connectors
    _passages: dict[TenantId, Passages] = field(default_factory=dict)
    _asking: dict[TenantId, Asking] = field(default_factory=dict)

    async def gate(self, tenant: TenantId) -> Gate:
        """Return a tenant's way to spend money, kept alive until the app is closed."""
        return await self.gates.gate(tenant)

    def passages(self, tenant: TenantId) -> Passages:
        """Return what a tenant's paid calls wait for: turns, places, rates."""
        if tenant not in self._passages:
            self._passages[tenant] = Passages(self.traffic, tenant, clock=self.clock)
        return self._passages[tenant]

    async def asking(self, tenant: TenantId) -> Asking:
        """Return a tenant's way to ask vendors: what was answered before is not paid for again."""
        gate = await self.gate(tenant)
        if tenant not in self._asking:
            self._asking[tenant] = Asking(
                self.backend.tenant(tenant),
                gate=gate,
                passages=self.passages(tenant),
                clock=self.clock,
                observer=self.observer,
                chance=random.random,
                reset=self.reset_for(tenant),
                rehearsing=self.settings.sandbox.address is not None,
            )
        return self._asking[tenant]

    def pace(self, connector: str, tenant: TenantId | None = None) -> Pace:
        """Return the pace of a connector's calls; of which tenant, where each has its own key."""
        return self.traffic.pace(connector, tenant=tenant)

    def places(self, connector: str, tenant: TenantId | None = None) -> Places | None:
        """Return a connector's places; None when the turnstile alone says how many go at once."""
        return self.traffic.places(connector, tenant=tenant)

    def turnstile(self, connector: str, tenant: TenantId | None = None) -> Turnstile:
        """Return where tenants of this process wait for their turn on a connector."""
        return self.traffic.turnstile(connector, tenant=tenant)

    def task(self, tenant: TenantId) -> Task:
        """Return a tenant's upkeep with the schedule and rules in force for it."""
        own = self.settings.for_tenant(tenant)
        snapshot = own.snapshot()
        schedule = self.settings.schedule_for(tenant)
        return Task(
            tenant=tenant,
            work=Upkeep(
                checkup=self.checkup,
                schedule=schedule,
                zone=own.scheduling.timezone,
                rule=retention_rule(own),
                prunes=own.retention.enabled,
                signals_for=FADED * own.heat.half_life_hours,
            ),
            schedule=schedule,
            manifest=Manifest(
                config_hash=config_hash(snapshot), config=snapshot, caps=own.caps_in_force()
            ),
            catch_up=CatchUp(own.scheduling.catch_up),
            at_most=own.scheduling.catch_up_max,
        )

    def night(
        self,
        tenant: TenantId,
        *,
        limit: int | None = None,
        steps: tuple[Step, ...] = tuple(Step),
        from_run: str = "",
        again: bool = False,
    ) -> Night:
        """Return a tenant's night; at most so many companies, only these steps, if said."""
        own, reset = self.settings.for_tenant(tenant), self.reset_for(tenant)
        return night_for(
            tenant,
            order_of(own, reset=reset, limit=limit, steps=steps, from_run=from_run, again=again),
            own=own,
            backend=self.backend,
            connectors=self.connectors,
            gate=lambda: self.gate(tenant),
            asking=lambda: self.asking(tenant),
            caps=lambda: self.caps_for(tenant),
            exports=exports_for(self.connectors, tenant, own=own),
            owner=self.owner,
            clock=self.clock,
        )

    def night_task(self, tenant: TenantId, night: Night) -> Task:
        """Return a tenant's night as a task, due when its schedule says so."""
        return replace(self.task(tenant), work=night, goes_on_within=self.reset_for(tenant))

    def sweep(self, tenant: TenantId) -> Sweep:
        """Return what brings a tenant's heats up to date."""
        own = self.settings.for_tenant(tenant)
        return Sweep(heat=own.heat.rule(), tiers=own.heat.tiers(), icp_rule=own.icp.rule_name)

    def sweep_task(self, tenant: TenantId) -> Task:
        """Return a tenant's sweep as a task, due every so often, whatever its nights are."""
        every = timedelta(minutes=self.settings.heat.sweep_minutes)
        return replace(
            self.task(tenant),
            work=self.sweep(tenant),
            schedule=Interval(every=every),
            catch_up=CatchUp.LATEST,
        )

    def pull_planning(self, tenant: TenantId, *, policy: str | None = None) -> PullPlanning:
        """Return what plans a tenant's pulls; by another policy than settings say, if said."""
        from stoker.pulls.service import planning_for

        return planning_for(
            tenant,
            own=self.settings.for_tenant(tenant),
            policy=policy,
            backend=self.backend,
            connectors=self.connectors,
            caps=lambda: self.caps_for(tenant),
            reset=self.reset_for(tenant),
            traffic=self.traffic,
            clock=self.clock,
        )

    def pulls(self, tenant: TenantId, *, policy: str | None = None) -> Night:
        """Return a tenant's pulls: looks chosen by what they are worth, done as a night's are."""
        from stoker.pulls.service import pulls_for

        return pulls_for(
            tenant,
            planning=self.pull_planning(tenant, policy=policy),
            own=self.settings.for_tenant(tenant),
            backend=self.backend,
            connectors=self.connectors,
            gate=lambda: self.gate(tenant),
            asking=lambda: self.asking(tenant),
            exports=exports_for(self.connectors, tenant, own=self.settings.for_tenant(tenant)),
            owner=self.owner,
            reset=self.reset_for(tenant),
        )

    def plan_task(self, tenant: TenantId, pulls: Pulls) -> Task:
        """Return a plan that is kept as a run of its own."""
        from stoker.pulls.service import PlanOnly

        return replace(self.task(tenant), work=PlanOnly(pulls=pulls))

    def posting_files(self, tenant: TenantId, *, out: Path | None = None) -> PostingFiles:
        """Return where a tenant's files of postings go: there, or where its settings say."""
        from stoker.discovery.service import files_for

        alone = len(self.settings.tenants) == 1
        return files_for(self.settings.for_tenant(tenant), tenant, out=out, alone=alone)

    def discovery(
        self, tenant: TenantId, *, files: PostingFiles | None, enrich: bool | None = None
    ) -> Discovery:
        """Return a tenant's discovery, as settings say or as somebody asks for."""
        from stoker.discovery.service import discovery_for, order_of

        own = self.settings.for_tenant(tenant)
        keeps = retention_rule(own) if own.retention.enabled else None
        order = order_of(own, enrich=enrich, retention=keeps)
        return discovery_for(tenant, order, own=own, connectors=self.connectors, files=files)

    def discovery_task(self, tenant: TenantId, discovery: Discovery) -> Task:
        """Return a tenant's discovery as a task, due when its schedule says so."""
        return replace(self.task(tenant), work=discovery)

    def _scheduled_discoveries(self, tenants: tuple[TenantId, ...]) -> list[Task]:
        return [
            self.discovery_task(tenant, self.discovery(tenant, files=self.posting_files(tenant)))
            for tenant in tenants
            if (said := self.settings.for_tenant(tenant).discovery).scheduled and said.sources
        ]

    def _attending(self, tenants: tuple[TenantId, ...]) -> list[Task]:
        sweeps = [self.sweep_task(tenant) for tenant in tenants]
        pulls = [
            replace(
                self.night_task(tenant, self.pulls(tenant)),
                schedule=Interval(every=timedelta(hours=said.tick_hours)),
                catch_up=CatchUp.LATEST,
            )
            for tenant in tenants
            if (said := self.settings.for_tenant(tenant).pulls).scheduled
        ]
        return [*sweeps, *pulls]

    async def caps_for(self, tenant: TenantId) -> tuple[Cap, ...]:
        """Return every cap in force for a tenant, those it shares first.

        Includes caps a person added; what people said about limits is asked for by the store, in
        the moment in which it grants or refuses.
        """
        given = caps_of(self.settings.for_tenant(tenant))
        own = await self.backend.tenant(tenant).money.cap_changes()
        return (*await self.shared_caps(), *caps_in_force(given, own, shared=False))

    async def shared_caps(self) -> tuple[Cap, ...]:
        """Return the caps that tenants share. There are none until an operator sets one."""
        return caps_in_force((), await self.backend.shared().cap_changes(), shared=True)

    def reset_for(self, tenant: TenantId) -> ResetRule:
        """Return when a tenant's caps begin anew: in its own zone, at its own time."""
        return reset_of(self.settings.for_tenant(tenant))

    def scheduler(
        self, tenants: tuple[TenantId, ...], *, nights: tuple[TenantId, ...] = ()
    ) -> Scheduler:
        """Return a scheduler for tenants' upkeep, and for the nights of some, in this process.

        Whoever has nights has its heats swept, and its pulls made if its settings want that;
        whoever's settings want it discovers too.
        """
        upkeep = [self.task(tenant) for tenant in tenants]
        discoveries = self._scheduled_discoveries(tenants)
        said = self.settings.scheduling
        tonight = [
            replace(
                self.night_task(tenant, self.night(tenant)),
                begins_after=timedelta(seconds=said.stagger_s * (nth % said.tenant_concurrency)),
            )
            for nth, tenant in enumerate(nights)
        ]
        return Scheduler(
            [*upkeep, *discoveries, *tonight, *self._attending(nights)],
            backend=self.backend,
            leaseholder=Leaseholder(
                owner=self.owner,
                clock=self.clock,
                observer=self.observer,
                length=LEASE_LENGTH,
            ),
            clock=self.clock,
            observer=self.observer,
            at_once=said.tenant_concurrency,
        )


def settings(
    *,
    directory: Path,
    config: Path | None,
    flags: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Read the settings for work in a directory. Raises ConfigError."""
    return load(
        file=_config_file(directory, config),
        env_file=directory / ENV_FILE if (directory / ENV_FILE).is_file() else None,
        environment=environment,
        flags=flags,
    ).located(directory)


def system_clock(environment: Mapping[str, str] = os.environ) -> SystemClock:
    """Return the machine's clock, moved by the seconds that a test sets in the environment."""
    return SystemClock(ahead=timedelta(seconds=float(environment.get(CLOCK_AHEAD) or 0)))


def backend_for(settings: Settings) -> Backend:
    """Return the backend these settings name. Nothing is opened for writing yet."""
    storage = settings.storage
    if storage.backend == "memory":
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
async def opened(
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
    hand_back_large_buffers()
    logs = observer_for(settings, sys.stderr)
    backend = backend_for(settings)
    try:
        with library_logs(logs):
            told, tell = clock or system_clock(), observer or logs
            new = await _is_nothing_yet(settings, backend)
            if new and only_to_read:
                await backend.close()
                backend = MemoryBackend()  # what is not there reads as empty; looking makes nothing
            steps = await _made_current(backend, only_to_read=only_to_read)
            for step in () if new else steps:  # that something new was made is no news
                tell(Migrated(at=told.now(), step=step))
            settings = joined(settings, await _known_tenants(backend, only_to_read=only_to_read))
            owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"

            def promises(tenant: TenantId) -> Promises:
                return Promises(
                    backend.tenant(tenant).money,
                    caps=caps_of(settings.for_tenant(tenant)),
                    reset=reset_of(settings.for_tenant(tenant)),
                    owner=owner,
                    clock=told,
                    lease=PROMISE_LEASE,
                    tenant=tenant,
                    observer=tell,
                )

            traffic = traffic_for(settings, backend, owner=owner, clock=told)
            hosts = hosts_for(settings, backend, clock=told)
            async with (
                Gates(promises, clock=told) as gates,
                Connectors(
                    settings,
                    hosts=hosts,
                    traffic=traffic,
                    clock=told,
                    stops=lambda tenant: backend.tenant(tenant).money.stops(),
                ) as connectors,
            ):
                yield App(
                    settings=settings,
                    backend=backend,
                    clock=told,
                    observer=tell,
                    checkup=Checkup(backend, told),
                    owner=owner,
                    gates=gates,
                    traffic=traffic,
                    hosts=hosts,
                    connectors=connectors,
                )
    finally:
        await backend.close()


async def _is_nothing_yet(settings: Settings, backend: Backend) -> bool:
    embedded = settings.storage.backend in ("sqlite", "json")
    return embedded and await backend.schema_version() == 0


async def _known_tenants(backend: Backend, *, only_to_read: bool) -> list[Tenant]:
    try:
        return await backend.directory().tenants()
    except StokerError:
        if not only_to_read:
            raise
        return []  # as above


async def _made_current(backend: Backend, *, only_to_read: bool) -> list[str]:
    try:
        return await backend.migrate()
    except ConfigError:
        if not only_to_read:
            raise
        return []  # the first read says what is wrong, if it matters to it


def _config_file(directory: Path, config: Path | None) -> Path | None:
    if config is not None:
        if not config.is_file():
            raise ConfigError(f"there is no settings file {config}; write one with: stoker init")
        return config
    found = directory / CONFIG_FILE
    return found if found.is_file() else None
