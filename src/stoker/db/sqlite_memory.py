"""SQLite in memory: for tests, rehearsals, and reading a store that does not exist yet.

One connection, used on the caller's own thread: a verb never waits, so verbs interleave only
where their callers do. The schema is built once per process and copied into each database.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import apsw

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.db.database import Check, Result, Transaction
from stoker.db.migrations import Schema
from stoker.db.sqlite import SqliteTransaction, TenantDatabase
from stoker.db.sqlite_file import refuse_old_sqlite, wrap_sqlite_errors
from stoker.db.sqlite_migrations import SET_VERSION

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

    def for_tenant(self, tenant: TenantId) -> TenantDatabase:
        """Return transactions of one tenant."""
        return TenantDatabase(self, tenant)

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
