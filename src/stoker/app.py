"""Opens the context of a process from its settings, and lists the scheduled tasks.

Only this module reads the environment. A room is imported when it is first used: a command that
reads runs imports neither vendors nor planners.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError, StokerError
from stoker.base.events import EventBus, Migrated, Observer, UnknownTenantNamed
from stoker.base.telemetry import build_telemetry, capture_library_logs
from stoker.base.types import TenantId
from stoker.context import Backend, Context, Parts, import_stores
from stoker.settings import Settings
from stoker.settings.load import add_stored_tenants, load_settings

if TYPE_CHECKING:
    from stoker.scheduling.service import Scheduler, Task
    from stoker.tenants.model import Tenant

CONFIG_FILE, ENV_FILE = "stoker.toml", ".env"
CLOCK_AHEAD = "STOKER_TEST_CLOCK_AHEAD_S"
_TRIM_ABOVE, _MAP_FROM, _POOLS = -1, -3, -8  # parameters of mallopt(3)
_LARGE_BYTES = 256 * 1024


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


def find_local_zone(environment: Mapping[str, str] = os.environ) -> str:
    """Return the IANA name of the machine's time zone; UTC where it has none."""
    from stoker.calendar.timezones import get_zone

    link = Path("/etc/localtime")
    named = environment.get("TZ", "").lstrip(":") or str(link.resolve() if link.exists() else "")
    name = named.rpartition("zoneinfo/")[2]
    try:
        get_zone(name)
    except ConfigError:
        return "UTC"
    return name


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
    if storage.backend == "json":
        from stoker.backends.json import JsonBackend

        return JsonBackend(storage.json_dir)
    from stoker.backends.sqlite import SqliteBackend

    return SqliteBackend(storage.sqlite_path)


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    observer: Observer | None = None,
    only_to_read: bool = False,
) -> AsyncIterator[Context]:
    """Open everything these settings name, its schema current, and close it afterwards.

    Only to read, a store that cannot be written to will do: looking must work before acting.
    What libraries log meanwhile goes where our own lines go, and is redacted like them.
    """
    trim_memory()
    if not only_to_read:
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
            for key, named in settings.list_unknown_tenants():
                origin = settings.get_origin(key)
                observer(UnknownTenantNamed(at=clock.now(), key=key, named=named, origin=origin))
            owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
            async with Parts() as parts:
                yield Context(
                    settings=settings,
                    backend=backend,
                    clock=clock,
                    observer=observer,
                    owner=owner,
                    events=EventBus(observer),
                    parts=parts,
                )
    finally:
        await backend.close()


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


def build_scheduler(
    context: Context, tenants: Sequence[TenantId] = (), *, nights: Sequence[TenantId] = ()
) -> Scheduler:
    """Return a scheduler of the tasks of `tenants`, and of the nights of some of them."""
    from stoker.enrichment.runner import build_runner
    from stoker.scheduling.service import Scheduler

    return Scheduler(
        _list_tasks(context, tenants, nights) if tenants or nights else [],
        backend=context.backend,
        runner=build_runner(context),
        at_once=context.settings.scheduling.tenant_concurrency,
    )


def _list_tasks(
    context: Context, tenants: Sequence[TenantId], nights: Sequence[TenantId]
) -> list[Task]:
    """Return maintenance and discoveries of all, then nights, sweeps and pulls of some tenants."""
    from stoker.discovery.service import build_discovery_run, build_posting_files
    from stoker.heat.service import build_sweep_task
    from stoker.maintenance.service import build_maintenance
    from stoker.nightly.setup import build_nightly_run, build_nightly_task
    from stoker.pulls.service import build_pull_task
    from stoker.scheduling.service import build_task

    everyone = [context.for_tenant(tenant) for tenant in tenants]
    some = [context.for_tenant(tenant) for tenant in nights]
    section = context.settings.scheduling
    tasks = [build_task(each, build_maintenance(each)) for each in everyone]
    tasks += [
        build_task(each, build_discovery_run(each, files=build_posting_files(each)))
        for each in everyone
        if each.settings.discovery.scheduled and each.settings.discovery.sources
    ]
    tasks += [
        build_nightly_task(
            each,
            build_nightly_run(each),
            start_delay=timedelta(seconds=section.stagger_s * (nth % section.tenant_concurrency)),
        )
        for nth, each in enumerate(some)
    ]
    tasks += [build_sweep_task(each) for each in some]
    tasks += [build_pull_task(each) for each in some if each.settings.pulls.scheduled]
    return tasks
