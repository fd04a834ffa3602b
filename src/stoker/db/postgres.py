"""Postgres for many workers: one transaction per verb, and row security between tenants.

A transaction begins by setting its tenant, after resetting everything set on the connection
before, so a connection can serve any tenant next, also behind a pooler. None begins before row
security was checked. It ends with COMMIT, sent together with the one statement that must not
wait for a round trip. `postgres_connection.py` translates the server's errors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from stoker.base.errors import ConfigError, PermanentError, StokerError, TransientError
from stoker.base.types import TenantId
from stoker.db.database import CONFLICT_SQLSTATE, Check, Transaction, Value, WriteConflict
from stoker.db.migrations import Schema
from stoker.db.postgres_connection import (
    RETRYABLE,
    Connection,
    ConnectionThreads,
    Deadline,
    describe_url,
    is_connection_lost,
    psycopg,
    sql,
    translate_commit_error,
    translate_error,
)
from stoker.db.postgres_setup import read_schema_version
from stoker.db.row_security import find_role_problems, find_table_problems, require_row_security
from stoker.db.table import Table

BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

# One round trip. RESET first: whatever was set on this connection before is forgotten. The policy's
# own function is asked too: on an empty table the policy alone would never be.
BEGIN_FOR_TENANT = """
RESET ALL; {begin};
SELECT pg_catalog.set_config('search_path', 'stoker, pg_catalog, pg_temp', true),
       pg_catalog.set_config('request.tenant_id', {tenant}, true), stoker_sec.tenant()
"""

# No tenant: asking for anything that tenants own is an error.
BEGIN_SHARED = """
RESET ALL; {begin};
SELECT pg_catalog.set_config('search_path', 'stoker, pg_catalog, pg_temp', true)
"""

# Quoted text and casts are passed over; a literal % would otherwise be the driver's placeholder.
_PLACEHOLDERS = re.compile(r"(?P<quoted>'[^']*')|(?P<cast>::)|:(?P<name>[a-z_]\w*)|(?P<place>\?)|%")

_NAMES = re.compile(r":([a-z_]\w*)")


@lru_cache(maxsize=512)
def to_driver_query(query: str) -> bytes:
    """Return a shared query as the driver wants it: `:name` and `?` become its placeholders."""

    def written(found: re.Match[str]) -> str:
        if found["name"]:
            return f"%({found['name']})s"
        return "%s" if found["place"] else found[0].replace("%", "%%")

    return _PLACEHOLDERS.sub(written, query).encode()


@dataclass(slots=True)
class PostgresTransaction:
    """A `Transaction` on a connection whose tenant is set."""

    connection: Connection
    tenant: TenantId | None = None
    last_statement: sql.Composed | None = None  # goes out together with COMMIT

    def query(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        values["tenant"] = self.tenant
        return self.connection.execute(to_driver_query(query), values).fetchall()

    def execute(self, query: str, **values: Value) -> int:
        values["tenant"] = self.tenant
        return self.connection.execute(to_driver_query(query), values).rowcount

    def execute_many(self, query: str, rows: Iterable[Sequence[Value]]) -> int:
        # One at a time would be a round trip each, and COPY is refused under row security.
        # All are asked for first: a row that is refused must not leave half a pipeline behind.
        ready = list(rows)
        with self.connection.cursor() as cursor:
            cursor.executemany(to_driver_query(query), ready)
            return max(cursor.rowcount, 0)

    def execute_with_commit(self, query: str, **values: Value) -> None:
        literals = {name: sql.Literal(value) for name, value in values.items()}
        self.last_statement = sql.SQL(_NAMES.sub(r"{\1}", query)).format(**literals)

    def commit(self) -> str | None:
        """Send what comes last, and COMMIT behind it; return what the server says it did.

        Raises psycopg.Error when the last statement was refused, so that COMMIT was never begun;
        NoAnswer when it may have been.
        """
        try:
            if self.last_statement is None:
                return self.connection.execute("COMMIT", prepare=False).statusmessage
            # One message: when its first half is refused, the server passes over the second.
            answer = self.connection.execute(
                sql.SQL("{}; COMMIT").format(self.last_statement), prepare=False
            )
            while answer.nextset():
                pass
            return answer.statusmessage
        except psycopg.Error as error:
            if self.last_statement is None or is_connection_lost(error):
                raise CommitUnconfirmed(error) from error
            raise


class CommitUnconfirmed(Exception):  # noqa: N818 – what went wrong is the error in it
    """COMMIT was sent, and did not come back as it should."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__()
        self.error = error


def begin_transaction(link: Connection, tenant: TenantId | None, begin: str) -> None:
    """Begin a transaction for a tenant, or (None) for what tenants share."""
    if tenant is None:
        link.execute(sql.SQL(BEGIN_SHARED).format(begin=sql.SQL(begin)), prepare=False)
        return
    words = sql.SQL(BEGIN_FOR_TENANT).format(begin=sql.SQL(begin), tenant=sql.Literal(tenant))
    answer = link.execute(words, prepare=False)
    while answer.nextset():
        pass
    [(_, setting, in_force)] = answer.fetchall()
    if not setting == in_force == tenant:
        raise PermanentError(f"the database answers for another tenant than {tenant}; stopped")


Result = TypeVar("Result")

DURABILITY = """
SELECT name || ' = ' || setting FROM pg_catalog.pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
"""

ATTEMPTS = 5

FIRST_WAIT = timedelta(milliseconds=10)  # doubled each time; what we wait for is another commit


class PostgresDatabase:
    """A Postgres database that `stoker db setup` prepared.

    Connects when first asked for something. The first transaction raises ConfigError, and so does
    every one after it, when row security would be void or the schema is not this program's.
    """

    def __init__(
        self,
        url: str,
        schema: Schema,
        *,
        connections: int = 4,
        deadline: timedelta = timedelta(seconds=60),
    ) -> None:
        self._where = describe_url(url)
        self._schema = schema
        self._threads = ConnectionThreads(url, connections=connections, deadline=deadline)
        self._safe = False
        self._safe_lock = Lock()

    def for_tenant(self, tenant: TenantId | None) -> TenantDatabase:
        """Return transactions of one tenant; without one, of what tenants share."""
        return TenantDatabase(self, tenant)

    async def migrate(self) -> list[str]:
        """Say that nothing is to be done; the app's role may not change the schema itself."""
        steps = self._schema.list_pending(await self.schema_version(), where=self._where)
        if steps:
            raise ConfigError(
                f"{self._where} lacks {steps[0]}; run `stoker db migrate --admin-url ...` "
                "as an administrator"
            )
        return []

    async def schema_version(self) -> int:
        return await self.run_outside_tenants(read_schema_version)

    async def checks(self) -> list[Check]:
        try:
            version = await self.schema_version()
        except StokerError as error:
            return [Check(what="store", ok=False, detail=str(error))]
        latest = self._schema.version
        schema = Check(what="schema version", ok=version == latest, detail=f"{version} of {latest}")
        return [
            Check(what="store", ok=True, detail=self._where),
            schema,
            await self._check(
                "row security",
                lambda link: find_role_problems(link) + find_table_problems(link, self._schema),
            ),
            await self._check(
                "durability", lambda link: [row[0] for row in link.execute(DURABILITY)]
            ),
        ]

    def list_tables(self) -> Sequence[Table[Any]]:
        return self._schema.tables

    def list_grants(self) -> Mapping[str, str]:
        return self._schema.grants

    async def overwrite_deleted(self) -> str:
        """Say what is left to the server's owner: the app may not vacuum its tables."""
        return (
            "the server still has the bytes of deleted rows until it vacuums; to overwrite them "
            "now, as the owner: VACUUM FULL. Its WAL and backups end by their own retention."
        )

    async def close(self) -> None:
        await self._threads.close()

    async def transact(
        self, tenant: TenantId | None, begin: str, work: Callable[[Transaction], Result]
    ) -> Result:
        """Run work behind a tenant's door; again from the start when that is safe and may help.

        Without a tenant, only what tenants share can be reached.
        """
        return await self._threads.run(lambda call: self._run_with_retry(call, tenant, begin, work))

    async def run_outside_tenants(self, question: Callable[[Connection], Result]) -> Result:
        """Ask something that belongs to no tenant, outside of any transaction.

        A table of tenants' rows asked this way answers with an error, not with rows.
        """

        def ask(call: Deadline) -> Result:
            with self._threads.borrow_connection(call) as link:
                try:
                    return question(link)
                except psycopg.Error as error:
                    raise translate_error(error, where=self._where) from error

        return await self._threads.run(ask)

    async def _check(self, what: str, question: Callable[[Connection], Sequence[object]]) -> Check:
        try:
            found = await self.run_outside_tenants(question)
        except StokerError as error:
            return Check(what=what, ok=False, detail=str(error))
        return Check(what=what, ok=not found, detail=", ".join(map(str, found)) or "holds")

    def _run_with_retry(
        self,
        call: Deadline,
        tenant: TenantId | None,
        begin: str,
        work: Callable[[Transaction], Result],
    ) -> Result:
        wait = FIRST_WAIT
        for left in reversed(range(ATTEMPTS)):
            try:
                return self._run_once(call, tenant, begin, work)
            except psycopg.Error as error:
                if error.sqlstate == CONFLICT_SQLSTATE:
                    raise WriteConflict from error
                # Until COMMIT was sent nothing has happened, so these may be done again.
                passing = isinstance(error, RETRYABLE) or is_connection_lost(error)
                if call.expired:
                    raise TransientError(
                        f"{self._where} did not answer in time; nothing was done, try again later"
                    ) from error
                if not passing or not left:
                    raise translate_error(error, where=self._where) from error
            time.sleep(wait.total_seconds())
            wait *= 2
        raise AssertionError("the last attempt returns or raises")

    def _run_once(
        self,
        call: Deadline,
        tenant: TenantId | None,
        begin: str,
        work: Callable[[Transaction], Result],
    ) -> Result:
        with self._threads.borrow_connection(call) as link:
            self._check_safe_once(link)
            begin_transaction(link, tenant, begin)
            transaction = PostgresTransaction(link, tenant)
            result = work(transaction)
            if call.expired:  # the caller has given up; this is the last chance to
                raise psycopg.OperationalError("past its deadline")
            try:
                answer = transaction.commit()
            except CommitUnconfirmed as sent:
                if begin == BEGIN_READ:
                    raise sent.error from None
                raise translate_commit_error(sent.error, where=self._where) from sent.error
            if answer != "COMMIT":
                raise PermanentError(f"{self._where} rolled back what we asked it to commit")
            return result

    def _check_safe_once(self, link: Connection) -> None:
        with self._safe_lock:
            if self._safe:
                return
            steps = self._schema.list_pending(read_schema_version(link), where=self._where)
            if steps:
                raise ConfigError(
                    f"{self._where} lacks {steps[0]}; run `stoker db setup --admin-url ...`, or "
                    "`stoker db migrate` if it was set up before"
                )
            require_row_security(link, self._schema, where=self._where)
            self._safe = True


@dataclass(frozen=True, slots=True)
class TenantDatabase:
    """A `SqlDatabase` that can only be one tenant's, or (None) that of what tenants share."""

    backend: PostgresDatabase
    tenant: TenantId | None

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        return await self.backend.transact(self.tenant, BEGIN_WRITE, work)

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        return await self.backend.transact(self.tenant, BEGIN_READ, work)
