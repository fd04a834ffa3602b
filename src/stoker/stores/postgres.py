"""Many workers, one server, and row security between tenants.

A tenant's verbs run in transactions that begin by saying which tenant they are for, and end with
that forgotten: nothing about a tenant outlives a transaction, so a connection may serve anybody
next, also behind a pooler. No transaction begins before row security was seen to hold.
What a verb says in SQL is shared with SQLite; what the server's failures mean is `postgres_link`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import TypeVar

from stoker.core.model import TenantId
from stoker.errors import ConfigError, PermanentError, StokerError, TransientError
from stoker.ports import Check
from stoker.stores.migrations import pending
from stoker.stores.postgres_lanes import Call, Lanes
from stoker.stores.postgres_link import (
    PASSING,
    Connection,
    lost,
    place,
    psycopg,
    translated,
    translated_commit,
)
from stoker.stores.postgres_moves import MISSED
from stoker.stores.postgres_setup import schema_version
from stoker.stores.postgres_transaction import READ, WRITE, NoAnswer, PostgresTransaction, enter
from stoker.stores.row_security import lint, refuse_if_void, role_findings
from stoker.stores.schema_postgres import MIGRATIONS
from stoker.stores.sql import Transaction
from stoker.stores.sql_moves import Missed

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
        *,
        connections: int = 4,
        deadline: timedelta = timedelta(seconds=60),
    ) -> None:
        self._where = place(url)
        self._lanes = Lanes(url, connections=connections, deadline=deadline)
        self._safe = False
        self._judging = Lock()

    def for_tenant(self, tenant: TenantId | None) -> TenantDatabase:
        """Return transactions of one tenant; without one, of what tenants share."""
        return TenantDatabase(self, tenant)

    async def migrate(self) -> list[str]:
        """Say that nothing is to be done; the app's role may not change the schema itself."""
        steps = pending(MIGRATIONS, version=await self.schema_version(), where=self._where)
        if steps:
            raise ConfigError(
                f"{self._where} lacks {steps[0]}; run `stoker db migrate --admin-url ...` "
                "as an administrator"
            )
        return []

    async def schema_version(self) -> int:
        return await self.ask(schema_version)

    async def checks(self) -> list[Check]:
        try:
            version = await self.schema_version()
        except StokerError as error:
            return [Check(what="store", ok=False, detail=str(error))]
        latest = len(MIGRATIONS)
        schema = Check(what="schema version", ok=version == latest, detail=f"{version} of {latest}")
        return [
            Check(what="store", ok=True, detail=self._where),
            schema,
            await self._check("row security", lambda link: role_findings(link) + lint(link)),
            await self._check(
                "durability", lambda link: [row[0] for row in link.execute(DURABILITY)]
            ),
        ]

    async def close(self) -> None:
        await self._lanes.close()

    async def transact(
        self, tenant: TenantId | None, begin: str, work: Callable[[Transaction], Result]
    ) -> Result:
        """Run work behind a tenant's door; again from the start when that is safe and may help.

        Without a tenant, only what tenants share can be reached.
        """
        return await self._lanes.run(lambda call: self._repeated(call, tenant, begin, work))

    async def ask(self, question: Callable[[Connection], Result]) -> Result:
        """Ask something that belongs to no tenant, outside of any transaction.

        A table of tenants' rows asked this way answers with an error, not with rows.
        """

        def ask(call: Call) -> Result:
            with self._lanes.link(call) as link:
                try:
                    return question(link)
                except psycopg.Error as error:
                    raise translated(error, where=self._where) from error

        return await self._lanes.run(ask)

    async def _check(self, what: str, question: Callable[[Connection], Sequence[object]]) -> Check:
        try:
            found = await self.ask(question)
        except StokerError as error:
            return Check(what=what, ok=False, detail=str(error))
        return Check(what=what, ok=not found, detail=", ".join(map(str, found)) or "holds")

    def _repeated(
        self, call: Call, tenant: TenantId | None, begin: str, work: Callable[[Transaction], Result]
    ) -> Result:
        wait = FIRST_WAIT
        for left in reversed(range(ATTEMPTS)):
            try:
                return self._once(call, tenant, begin, work)
            except psycopg.Error as error:
                if error.sqlstate == MISSED:
                    raise Missed from error
                # Until COMMIT was sent nothing has happened, so these may be done again.
                passing = isinstance(error, PASSING) or lost(error)
                if call.expired:
                    raise TransientError(
                        f"{self._where} did not answer in time; nothing was done, try again later"
                    ) from error
                if not passing or not left:
                    raise translated(error, where=self._where) from error
            time.sleep(wait.total_seconds())
            wait *= 2
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self, call: Call, tenant: TenantId | None, begin: str, work: Callable[[Transaction], Result]
    ) -> Result:
        with self._lanes.link(call) as link:
            self._judge(link)
            enter(link, tenant, begin)
            transaction = PostgresTransaction(link)
            result = work(transaction)
            if call.expired:  # the caller has been told to give up; this is the last chance to
                raise psycopg.OperationalError("past its deadline")
            try:
                answer = transaction.commit()
            except NoAnswer as sent:
                if begin == READ:
                    raise sent.error from None
                raise translated_commit(sent.error, where=self._where) from sent.error
            if answer != "COMMIT":
                raise PermanentError(f"{self._where} rolled back what we asked it to commit")
            return result

    def _judge(self, link: Connection) -> None:
        with self._judging:
            if self._safe:
                return
            steps = pending(MIGRATIONS, version=schema_version(link), where=self._where)
            if steps:
                raise ConfigError(
                    f"{self._where} lacks {steps[0]}; run `stoker db setup --admin-url ...`, or "
                    "`stoker db migrate` if it was set up before"
                )
            refuse_if_void(link, where=self._where)
            self._safe = True


@dataclass(frozen=True, slots=True)
class TenantDatabase:
    """A `SqlDatabase` that can only be one tenant's, or (None) that of what tenants share."""

    backend: PostgresDatabase
    tenant: TenantId | None

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        return await self.backend.transact(self.tenant, WRITE, work)

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        return await self.backend.transact(self.tenant, READ, work)
