"""Every room's store in one Postgres database, each tenant behind row security."""

from __future__ import annotations

from datetime import timedelta

from stoker.backends.schema import SCHEMA
from stoker.backends.stores import SqlStores
from stoker.db.postgres import PostgresDatabase


class PostgresBackend(SqlStores, PostgresDatabase):
    """All stores in one Postgres database, each tenant behind row security."""

    is_postgres = True
    get_session = PostgresDatabase.for_tenant

    def __init__(
        self, url: str, *, connections: int = 4, deadline: timedelta = timedelta(seconds=60)
    ) -> None:
        super().__init__(url, SCHEMA, connections=connections, deadline=deadline)
