"""Every backend, opened empty and ready. A new one joins all suites with one line in `BACKENDS`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

import pg
from stoker.backends.json import JsonBackend
from stoker.backends.postgres import PostgresBackend
from stoker.backends.sqlite import MemoryBackend, SqliteBackend
from stoker.base.errors import PermanentError, StokerError
from stoker.base.types import TenantId
from stoker.context import Backend

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Backend]:
    backend = MemoryBackend()
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def sqlite(home: Path) -> AsyncIterator[Backend]:
    backend = SqliteBackend(home / "stoker.db")
    try:
        await backend.migrate()
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def json(home: Path) -> AsyncIterator[Backend]:
    backend = JsonBackend(home / "runs", database=home / "stoker.db")
    try:
        await backend.migrate()
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def postgres(_: Path) -> AsyncIterator[Backend]:
    if reason := pg.why_no_postgres():
        pytest.skip(reason)
    with pg.emptied_database(pg.session_server()) as url:
        backend = PostgresBackend(url)
        try:
            yield backend
        finally:
            await backend.close()


BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Backend]]] = {
    "memory": memory,
    "sqlite": sqlite,
    "postgres": postgres,
    "json": json,
}


async def refused(verb: Awaitable[object], kind: type[StokerError] = PermanentError) -> None:
    """Assert that a verb raises this error, with a message of one line."""
    with pytest.raises(kind) as caught:
        await verb
    assert "\n" not in str(caught.value)
