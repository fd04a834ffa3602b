"""Every room's store in one Postgres database, each tenant behind row security."""

from __future__ import annotations

from datetime import timedelta

from stoker.backends.schema import SCHEMA
from stoker.context import Backend
from stoker.db.postgres import PostgresDatabase


class PostgresBackend(PostgresDatabase, Backend):
    """All stores in one Postgres database, each tenant behind row security."""

    is_postgres = True

    def __init__(
        self, url: str, *, connections: int = 4, deadline: timedelta = timedelta(seconds=60)
    ) -> None:
        super().__init__(url, SCHEMA, connections=connections, deadline=deadline)
