"""SQLite for all tenants: in one file, the default for a single machine, or in memory.

Writes to a file go through one thread and one connection (`sqlite_writer.py`), reads through a few
others that never wait for it. In memory there is one connection, used on the caller's own thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import apsw

from stoker.base.errors import ConfigError, StokerError, TransientError
from stoker.base.types import TenantId
from stoker.db.database import Check, Database, Result, Transaction, Value
from stoker.db.migrations import Schema
from stoker.db.sqlite_file import (
    SET_VERSION,
    apply_migrations,
    check_durability,
    check_file,
    enable_wal,
    open_reader,
    open_writer,
    read_schema_version,
    refuse_old_sqlite,
    require_schema_version,
    wrap_sqlite_errors,
)
from stoker.db.sqlite_writer import SqliteWriter
from stoker.db.table import Table

READERS = 4


class SqliteTransaction:
    """A `Transaction` on one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.tenant: TenantId | None = None

    def query(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        if self.tenant is not None:
            values["tenant"] = self.tenant
        return self._connection.execute(query, values).fetchall()

    def execute(self, query: str, **values: Value) -> int:
        if self.tenant is not None:
            values["tenant"] = self.tenant
        before = self._connection.total_changes()
        self._connection.execute(query, values)
        return self._connection.total_changes() - before

    def execute_many(self, query: str, rows: Iterable[Sequence[Value]]) -> int:
        before = self._connection.total_changes()
        self._connection.executemany(query, rows)
        return self._connection.total_changes() - before

    def execute_with_commit(self, query: str, **values: Value) -> None:
        self._connection.execute(query, values)


@dataclass(frozen=True, slots=True)
class TenantDatabase:
    """One tenant's transactions in a database in which only ids separate tenants."""

    database: Database
    tenant: TenantId

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        return await self.database.write(lambda tx: self._run(tx, work))

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        return await self.database.read(lambda tx: self._run(tx, work))

    def _run(self, tx: Transaction, work: Callable[[Transaction], Result]) -> Result:
        tx.tenant = self.tenant
        return work(tx)


class SqliteDatabase:
    """One SQLite file for all tenants, durable the moment a verb returns.

    The file is made by `migrate` and by nothing else. `busy` is how long a write waits for
    another process before it is refused with TransientError.
    """

    def __init__(
        self, path: str | Path, schema: Schema, *, busy: timedelta = timedelta(seconds=30)
    ) -> None:
        refuse_old_sqlite(apsw.sqlite_lib_version())
        self._path = Path(path)
        self._schema = schema
        self._busy = busy
        self._writer = SqliteWriter(self._path, self._connect_writer)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._local = threading.local()
        self._reading: list[apsw.Connection] = []
        self._closed = False

    def for_tenant(self, tenant: TenantId | None) -> Database:
        """Return transactions of one tenant; without one, of what tenants share."""
        return self if tenant is None else TenantDatabase(self, tenant)

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run work in the next group commit; see `Database`."""
        asked = self._writer.submit(lambda connection: work(SqliteTransaction(connection)))
        return await asyncio.wrap_future(asked)

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run work against one consistent view; see `Database`."""
        return await self._read(lambda: self._run_in_view(work))

    async def migrate(self) -> list[str]:
        return await asyncio.wrap_future(self._writer.submit_exclusive(self._migrate))

    async def schema_version(self) -> int:
        with suppress(PermissionError):  # opening it says what is wrong
            if not self._path.exists():
                return 0
        return await self._read(self._read_version)

    async def checks(self) -> list[Check]:
        version = Check(what="SQLite version", ok=True, detail=apsw.sqlite_lib_version())
        try:
            durable = await asyncio.wrap_future(
                self._writer.submit_exclusive(self._check_durability)
            )
        except StokerError as error:
            durable = [Check(what="writing", ok=False, detail=str(error))]
        look = partial(check_file, self._path, self._schema, busy=self._busy)
        return [version, *durable, *await self._read(look)]

    def list_tables(self) -> Sequence[Table[Any]]:
        return self._schema.tables

    def list_grants(self) -> Mapping[str, str]:
        return self._schema.grants

    async def overwrite_deleted(self) -> str:
        await asyncio.wrap_future(self._writer.submit_exclusive(self._vacuum))
        return ""

    def _vacuum(self, current: apsw.Connection | None) -> None:
        if current is None:
            current = self._connect_writer()
            self._writer.use_connection(current)
        with wrap_sqlite_errors(self._path):
            # Rewrites every page, then empties the log: nothing deleted is left in either.
            current.execute("VACUUM")
            [[is_busy, _, _]] = current.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if is_busy:
            raise TransientError(
                f"{self._path} is read by another process, so its log still has deleted rows; "
                "repeat the command when that has ended"
            )

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._closed = True
        self._writer.finish()
        self._readers.shutdown()
        while self._reading:
            self._reading.pop().close()
        # Last, so that it is the one to fold the log back into the file.
        self._writer.close()

    async def _read(self, work: Callable[[], Result]) -> Result:
        if self._closed:
            raise ConfigError(f"the store in {self._path} was closed; open it again")
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def _run_in_view(self, work: Callable[[Transaction], Result]) -> Result:
        if not hasattr(self._local, "connection"):
            connection = self._require_current(open_reader(self._path, busy=self._busy))
            self._local.connection = connection
            self._reading.append(connection)
        connection = self._local.connection
        with wrap_sqlite_errors(self._path):
            connection.execute("BEGIN")
            try:
                return work(SqliteTransaction(connection))
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _read_version(self) -> int:
        connection = open_reader(self._path, busy=self._busy)
        try:
            return read_schema_version(connection, self._path)
        finally:
            connection.close()

    def _connect_writer(self) -> apsw.Connection:
        connection = self._require_current(open_writer(self._path, busy=self._busy))
        enable_wal(connection, self._path, busy=self._busy)
        return connection

    def _require_current(self, connection: apsw.Connection) -> apsw.Connection:
        try:
            require_schema_version(connection, self._path, self._schema)
        except StokerError:
            connection.close()
            raise
        return connection

    def _migrate(self, current: apsw.Connection | None) -> list[str]:
        connection = current or open_writer(self._path, busy=self._busy, create=True)
        try:
            taken = apply_migrations(connection, self._path, self._schema, busy=self._busy)
        except StokerError:
            if current is None:
                connection.close()
            raise
        if current is None:
            self._writer.use_connection(connection)
        return taken

    def _check_durability(self, current: apsw.Connection | None) -> list[Check]:
        if current is None:
            current = self._connect_writer()
            self._writer.use_connection(current)
        return check_durability(current)


_WHERE = Path(":memory:")  # named in error messages


class SqliteMemoryDatabase:
    """One database in memory for all tenants, always at the current schema."""

    def __init__(self, schema: Schema) -> None:
        refuse_old_sqlite(apsw.sqlite_lib_version())
        self._connection = apsw.Connection(":memory:")
        self._connection.deserialize("main", _build_schema(schema))
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._schema = schema
        self._closed = False

    def for_tenant(self, tenant: TenantId | None) -> Database:
        """Return transactions of one tenant; without one, of what tenants share."""
        return self if tenant is None else TenantDatabase(self, tenant)

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run work in a transaction; see `Database`."""
        return self.run(work)

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run work without keeping what it writes; see `Database`."""
        return self.run(work, keep=False)

    async def migrate(self) -> list[str]:
        """Do nothing: the schema is always current."""
        return []

    async def schema_version(self) -> int:
        """Return the number of the newest migration."""
        return self._schema.version

    async def checks(self) -> list[Check]:
        """Say that nothing outlives the process."""
        detail = "nothing is stored; everything is lost when the process ends"
        return [Check(what="memory", ok=True, detail=detail)]

    def list_tables(self) -> Sequence[Table[Any]]:
        return self._schema.tables

    def list_grants(self) -> Mapping[str, str]:
        return self._schema.grants

    async def overwrite_deleted(self) -> str:
        """Do nothing: memory ends with the process."""
        return ""

    async def close(self) -> None:
        """Delete everything. Closing twice is once."""
        self._closed = True
        self._connection.close()

    def run(self, work: Callable[[Transaction], Result], *, keep: bool = True) -> Result:
        """Run work in a transaction, and keep what it writes if asked."""
        if self._closed:
            raise ConfigError("the store in memory was closed; open a new one")
        connection = self._connection
        with wrap_sqlite_errors(_WHERE):
            connection.execute("BEGIN")
            try:
                result = work(SqliteTransaction(connection))
                connection.execute("COMMIT" if keep else "ROLLBACK")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result


@cache
def _build_schema(schema: Schema) -> bytes:
    connection = apsw.Connection(":memory:")
    for step in schema.sqlite:
        connection.execute(step.script)
        connection.execute(SET_VERSION, {"version": str(step.number)})
    return connection.serialize("main")
