"""Store one tenant's leases and recorded occurrences in SQL.

A row that a decision depends on is updated to itself, which locks it until the transaction ends, in
either database.
"""

from __future__ import annotations

from datetime import datetime

from stoker.base.errors import ConflictError
from stoker.db.database import Database, Transaction, to_db_time
from stoker.ledger.store import append_entries, find_last_time
from stoker.runs.leases import Lease
from stoker.scheduling.model import OccurrenceResult, build_occurrence_entry
from stoker.scheduling.schema import LEASES, RESULTS

_LEASE_COLUMNS = ("owner", "epoch", "beat", "until_at", "task")

UPDATE_LEASE = f"""
UPDATE leases SET {", ".join(f"{name} = :{name}" for name in _LEASE_COLUMNS)}
WHERE tenant_id = :tenant AND name = :name
    AND {" AND ".join(f"{name} = :seen_{name}" for name in _LEASE_COLUMNS)}
"""

LOCK_LEASE = """
UPDATE leases SET epoch = epoch
WHERE tenant_id = :tenant AND name = :name AND owner = :owner AND epoch = :epoch
"""


class ScheduleStore:
    """One tenant's record of what was due, and who acts on it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_lease(self, name: str) -> Lease | None:
        """Return the lease of this name as it is now."""
        wanted = LEASES.encode(name=name)
        found = await self._database.read(lambda tx: LEASES.find(tx, "name = :name", **wanted))
        return found[0] if found else None

    async def swap_lease(self, seen: Lease | None, wanted: Lease) -> bool:
        """Replace the lease by the new one if it is still exactly `seen`; return whether it was.

        Atomic: of many callers that saw the same lease, one gets True. `seen` None means that there
        was none.
        """
        values, before = LEASES.values(wanted), LEASES.values(seen) if seen else {}
        if seen is None:
            changed = await self._database.write(lambda tx: LEASES.insert_new(tx, [wanted]))
        elif seen.name != wanted.name:
            return False
        else:
            expected = {f"seen_{name}": before[name] for name in _LEASE_COLUMNS}
            changed = await self._database.write(
                lambda tx: tx.execute(UPDATE_LEASE, **values, **expected)
            )
        return changed == 1

    async def record_result(self, slot: OccurrenceResult, *, fence: Lease | None) -> bool:
        """Record the result of an occurrence with its ledger entry, unless it is recorded already.

        Atomic. True for the caller whose record it is, else False. With a fence, raises
        ConflictError and writes nothing unless the lease still has the fence's owner and fencing
        token.
        """
        slot, fence = RESULTS.store(slot), fence and LEASES.store(fence)

        def decide(tx: Transaction) -> bool:
            if fence is not None:
                self._lock_lease(tx, fence)
            if not RESULTS.insert_new(tx, [slot]):
                return False
            append_entries(tx, [build_occurrence_entry(slot, latest=find_last_time(tx))])
            return True

        return await self._database.write(decide)

    async def list_results(
        self, schedule: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[OccurrenceResult]:
        """Return decided occurrences with since <= occurrence < until, oldest first."""
        where, values = "schedule = :schedule", RESULTS.encode(schedule=schedule)
        if since is not None:
            where, values = where + " AND instant >= :since", values | {"since": to_db_time(since)}
        if until is not None:
            where, values = where + " AND instant < :until", values | {"until": to_db_time(until)}
        where += " ORDER BY instant"
        return await self._database.read(lambda tx: RESULTS.find(tx, where, **values))

    async def find_last_result(
        self, schedule: str, *, until: datetime | None = None
    ) -> OccurrenceResult | None:
        """Return the latest decided occurrence, at or before `until` if that is given."""
        where, values = "schedule = :schedule", RESULTS.encode(schedule=schedule)
        if until is not None:
            where, values = where + " AND instant <= :until", values | {"until": to_db_time(until)}
        where += " ORDER BY instant DESC LIMIT 1"
        found = await self._database.read(lambda tx: RESULTS.find(tx, where, **values))
        return found[0] if found else None

    async def find_latest_entry_at(self) -> datetime | None:
        """Return the time of the newest ledger entry: time has been this late before."""
        return await self._database.read(find_last_time)

    def _lock_lease(self, tx: Transaction, fence: Lease) -> None:
        held = tx.execute(
            LOCK_LEASE,
            name=fence.name,
            owner=fence.owner,
            epoch=fence.fencing_token,
        )
        if not held:
            raise ConflictError(f"the lease {fence.name} is not ours; nothing was written")
