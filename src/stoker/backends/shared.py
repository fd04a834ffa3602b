"""What all tenants and processes share, in either database."""

from __future__ import annotations

from stoker.budgets.limits_store import OperatorStore
from stoker.db.database import Database
from stoker.rate_limits.store import RateStore


class SharedStore(RateStore, OperatorStore):
    """Stores what all tenants and workers share: rates, slots, stops. It has no tenant's data.

    Operators' changes have a ledger of their own; each writes its entry in the same transaction,
    never dated earlier than the entry before it.

    `operators` is the database session with the operators' ledger.
    """

    def __init__(self, database: Database, *, operators: Database) -> None:
        RateStore.__init__(self, database)
        OperatorStore.__init__(self, operators)
