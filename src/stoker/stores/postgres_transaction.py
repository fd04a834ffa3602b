"""One transaction on a Postgres connection: how it begins, speaks and ends.

It begins by saying which tenant it is for, and whatever was said on the connection before is
forgotten. It ends with COMMIT, and with it may go the one statement that must not wait for us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stoker.core.model import TenantId
from stoker.errors import PermanentError
from stoker.stores.postgres_link import Connection, lost, psycopg, sql
from stoker.stores.sql import Value

WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

# One round trip. RESET first: whatever was set on this connection before is forgotten. The policy's
# own function is asked too: on an empty table the policy alone would never be.
ENTER = """
RESET ALL; {begin};
SELECT pg_catalog.set_config('search_path', 'stoker, pg_catalog, pg_temp', true),
       pg_catalog.set_config('request.tenant_id', {tenant}, true), stoker_sec.tenant()
"""

# No tenant: asking for anything that tenants own is an error.
ENTER_SHARED = """
RESET ALL; {begin};
SELECT pg_catalog.set_config('search_path', 'stoker, pg_catalog, pg_temp', true)
"""

# Quoted text and casts are passed over; a literal % would otherwise be the driver's placeholder.
_PLACES = re.compile(r"(?P<quoted>'[^']*')|(?P<cast>::)|:(?P<name>[a-z_]\w*)|(?P<place>\?)|%")
_NAMES = re.compile(r":([a-z_]\w*)")


@lru_cache(maxsize=512)
def driver_query(query: str) -> bytes:
    """Return a shared query as the driver wants it: `:name` and `?` become its placeholders."""

    def written(found: re.Match[str]) -> str:
        if found["name"]:
            return f"%({found['name']})s"
        return "%s" if found["place"] else found[0].replace("%", "%%")

    return _PLACES.sub(written, query).encode()


@dataclass(slots=True)
class PostgresTransaction:
    """A `Transaction` on a connection whose tenant is set."""

    link: Connection
    last: sql.Composed | None = None  # goes out together with COMMIT

    def rows(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        return self.link.execute(driver_query(query), values).fetchall()

    def change(self, query: str, **values: Value) -> int:
        return self.link.execute(driver_query(query), values).rowcount

    def change_many(self, query: str, rows: Iterable[Sequence[Value]]) -> int:
        # One at a time would be a round trip each, and COPY is refused under row security.
        # All are asked for first: a row that is refused must not leave half a pipeline behind.
        ready = list(rows)
        with self.link.cursor() as cursor:
            cursor.executemany(driver_query(query), ready)
            return max(cursor.rowcount, 0)

    def at_commit(self, query: str, **values: Value) -> None:
        literals = {name: sql.Literal(value) for name, value in values.items()}
        self.last = sql.SQL(_NAMES.sub(r"{\1}", query)).format(**literals)

    def commit(self) -> str | None:
        """Send what comes last, and COMMIT behind it; return what the server says it did.

        Raises psycopg.Error when the last statement was refused, so that COMMIT was never begun;
        NoAnswer when it may have been.
        """
        try:
            if self.last is None:
                return self.link.execute("COMMIT", prepare=False).statusmessage
            # One message: when its first half is refused, the server passes over the second.
            answer = self.link.execute(sql.SQL("{}; COMMIT").format(self.last), prepare=False)
            while answer.nextset():
                pass
            return answer.statusmessage
        except psycopg.Error as error:
            if self.last is None or lost(error):
                raise NoAnswer(error) from error
            raise


class NoAnswer(Exception):  # noqa: N818 – what went wrong is the error in it
    """COMMIT was sent, and did not come back as it should."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__()
        self.error = error


def enter(link: Connection, tenant: TenantId | None, begin: str) -> None:
    """Begin a transaction for a tenant, or (None) for what tenants share."""
    if tenant is None:
        link.execute(sql.SQL(ENTER_SHARED).format(begin=sql.SQL(begin)), prepare=False)
        return
    words = sql.SQL(ENTER).format(begin=sql.SQL(begin), tenant=sql.Literal(tenant))
    answer = link.execute(words, prepare=False)
    while answer.nextset():
        pass
    [(_, told, obeyed)] = answer.fetchall()
    if not told == obeyed == tenant:
        raise PermanentError(f"the database answers for another tenant than {tenant}; stopped")
