"""What all tenants and processes share, in either database."""

from __future__ import annotations

from stoker.budgets.shared_store import SqlOperatorStore
from stoker.db.database import Database
from stoker.rate_limits.store import SqlRateStore


class SqlSharedStore(SqlRateStore, SqlOperatorStore):
    """A `SharedStore`: rates and slots, and what operators set for all tenants.

    `operators` is the database session with the operators' ledger.
    """

    def __init__(self, database: Database, *, operators: Database) -> None:
        SqlRateStore.__init__(self, database)
        SqlOperatorStore.__init__(self, database, operators=operators)
