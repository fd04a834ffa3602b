"""Builds the real things from Settings; the only file that knows them all.

It alone reads the environment. A backend is imported when it is asked for, so nobody pays for the
ones they do not use.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from stoker.config.loading import load
from stoker.config.settings import Settings
from stoker.core.budget_windows import ResetRule
from stoker.core.cadence import CatchUp
from stoker.core.caps import Cap
from stoker.core.default_caps import Allowances, caps_in_force, default_caps
from stoker.core.events import Migrated
from stoker.core.model import TenantId
from stoker.core.retention import RetentionRule
from stoker.core.runs import Manifest, config_hash
from stoker.engine.clock import SystemClock
from stoker.engine.leasing import Leaseholder
from stoker.engine.scheduler import Scheduler, Task
from stoker.engine.upkeep import Checkup, Upkeep
from stoker.errors import ConfigError
from stoker.ports import Backend, Clock, Observer
from stoker.stores.memory import MemoryBackend
from stoker.telemetry import library_logs, observer_for

LEASE_LENGTH = timedelta(seconds=30)
CONFIG_FILE, ENV_FILE = "stoker.toml", ".env"


@dataclass(frozen=True, kw_only=True)
class App:
    """Everything a command needs, opened and ready."""

    settings: Settings
    backend: Backend
    clock: Clock
    observer: Observer
    checkup: Checkup

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
            ),
            schedule=schedule,
            manifest=Manifest(
                config_hash=config_hash(snapshot), config=snapshot, caps=own.caps_in_force()
            ),
            catch_up=CatchUp(own.scheduling.catch_up),
            at_most=own.scheduling.catch_up_max,
        )

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
        own = self.settings.for_tenant(tenant)
        return ResetRule(zone=own.scheduling.timezone, at=own.caps.reset_time)

    def scheduler(self, tenants: tuple[TenantId, ...]) -> Scheduler:
        """Return a scheduler for these tenants' work, in this process."""
        return Scheduler(
            [self.task(tenant) for tenant in tenants],
            backend=self.backend,
            leaseholder=Leaseholder(
                owner=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
                clock=self.clock,
                observer=self.observer,
                length=LEASE_LENGTH,
            ),
            clock=self.clock,
            observer=self.observer,
            at_once=self.settings.scheduling.tenant_concurrency,
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


def caps_of(own: Settings) -> tuple[Cap, ...]:
    """Return the caps a tenant's settings switch on."""
    caps = own.caps
    return default_caps(
        Allowances(
            tavily_calls=caps.tavily_queries,
            lusha_calls=caps.lusha_contact_lookups,
            zerobounce_calls=caps.zerobounce_verifications,
            openai_tokens=caps.openai_daily_tokens,
            pull_units=caps.pull_units_per_day,
            money=caps.money_per_day_minor,
            currency=caps.currency,
        )
    )


def retention_rule(own: Settings) -> RetentionRule:
    """Return the rule a tenant's settings describe, whether or not it is switched on."""
    return RetentionRule(days=own.retention.days, keep_latest=own.retention.keep_latest_n_runs)


def backend_for(settings: Settings) -> Backend:
    """Return the backend these settings name. Nothing is opened for writing yet."""
    storage = settings.storage
    if storage.backend == "memory":
        return MemoryBackend()
    if storage.backend == "postgres":
        from stoker.stores.postgres import PostgresBackend

        if storage.postgres_url is None:
            raise ConfigError("storage.backend is postgres; set storage.postgres_url too")
        return PostgresBackend(storage.postgres_url.reveal())
    from stoker.stores.sqlite import SqliteBackend

    if storage.backend == "json":
        from stoker.stores.json_files import JsonBackend

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
    logs = observer_for(settings, sys.stderr)
    backend = backend_for(settings)
    try:
        with library_logs(logs):
            time, tell = clock or SystemClock(), observer or logs
            new = await _is_nothing_yet(settings, backend)
            if new and only_to_read:
                await backend.close()
                backend = MemoryBackend()  # what is not there reads as empty; looking makes nothing
            steps = await _made_current(backend, only_to_read=only_to_read)
            for step in () if new else steps:  # that something new was made is no news
                tell(Migrated(at=time.now(), step=step))
            yield App(
                settings=settings,
                backend=backend,
                clock=time,
                observer=tell,
                checkup=Checkup(backend, time),
            )
    finally:
        await backend.close()


async def _is_nothing_yet(settings: Settings, backend: Backend) -> bool:
    embedded = settings.storage.backend in ("sqlite", "json")
    return embedded and await backend.schema_version() == 0


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
