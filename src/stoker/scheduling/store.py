"""Store one tenant's leases and recorded occurrences in SQL.

A row that a decision depends on is updated to itself, which locks it until the transaction ends, in
either database.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stoker.base.errors import ConflictError
from stoker.base.types import TenantId
from stoker.db.codec import validate_text
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_time,
    from_optional_db_time,
    to_db_time,
    to_optional_db_time,
)
from stoker.ledger.store import append_entries
from stoker.runs.leases import Lease, validate_lease
from stoker.scheduling.model import (
    OccurrenceResult,
    OccurrenceState,
    build_occurrence_entry,
    validate_occurrence_result,
)

SELECT_LEASE = """
SELECT name, owner, epoch, beat, until_at, task FROM leases
WHERE tenant_id = :tenant AND name = :name
"""

INSERT_LEASE = """
INSERT INTO leases (tenant_id, name, owner, epoch, beat, until_at, task)
VALUES (:tenant, :name, :owner, :epoch, :beat, :until_at, :task)
ON CONFLICT DO NOTHING
"""

UPDATE_LEASE = """
UPDATE leases SET owner = :owner, epoch = :epoch, beat = :beat, until_at = :until_at, task = :task
WHERE tenant_id = :tenant AND name = :name AND owner = :seen_owner AND epoch = :seen_epoch
  AND beat = :seen_beat AND until_at = :seen_until_at AND task = :seen_task
"""

LOCK_LEASE = """
UPDATE leases SET epoch = epoch
WHERE tenant_id = :tenant AND name = :name AND owner = :owner AND epoch = :epoch
"""

INSERT_RESULT = """
INSERT INTO slots (tenant_id, schedule, instant, state, decided_at, reason, run_at)
VALUES (:tenant, :schedule, :instant, :state, :decided_at, :reason, :run_at)
ON CONFLICT DO NOTHING
"""

SELECT_RESULTS = """
SELECT schedule, instant, state, decided_at, reason, run_at FROM slots
WHERE tenant_id = :tenant AND schedule = :schedule
"""

SELECT_LATEST_ENTRY = "SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"


class SqlScheduleStore:
    """A `ScheduleStore` in the tables `leases` and `slots`."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def find_lease(self, name: str) -> Lease | None:
        validate_text(name, what="a lease's name")
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_LEASE, tenant=self._tenant, name=name)
        )
        return _parse_lease(rows[0]) if rows else None

    async def swap_lease(self, seen: Lease | None, wanted: Lease) -> bool:
        values, seen = _to_lease_values(validate_lease(wanted)), seen and validate_lease(seen)
        if seen is None:
            query = INSERT_LEASE
        elif seen.name != wanted.name:
            return False
        else:
            query = UPDATE_LEASE
            before = _to_lease_values(seen)
            values |= {f"seen_{key}": value for key, value in before.items() if key != "name"}
        changed = await self._database.write(
            lambda tx: tx.execute(query, tenant=self._tenant, **values)
        )
        return changed == 1

    async def record_result(self, slot: OccurrenceResult, *, fence: Lease | None) -> bool:
        slot, fence = validate_occurrence_result(slot), fence and validate_lease(fence)

        def decide(tx: Transaction) -> bool:
            if fence is not None:
                self._lock_lease(tx, fence)
            if not tx.execute(INSERT_RESULT, tenant=self._tenant, **_to_result_values(slot)):
                return False
            append_entries(
                tx,
                self._tenant,
                [build_occurrence_entry(slot, latest=self._find_latest_entry_at(tx))],
            )
            return True

        return await self._database.write(decide)

    async def list_results(
        self, schedule: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[OccurrenceResult]:
        query, values = SELECT_RESULTS, self._get_key_values(schedule)
        if since is not None:
            query, values = query + " AND instant >= :since", values | {"since": to_db_time(since)}
        if until is not None:
            query, values = query + " AND instant < :until", values | {"until": to_db_time(until)}
        rows = await self._database.read(lambda tx: tx.query(query + " ORDER BY instant", **values))
        return [_parse_result(row) for row in rows]

    async def find_last_result(
        self, schedule: str, *, until: datetime | None = None
    ) -> OccurrenceResult | None:
        query, values = SELECT_RESULTS, self._get_key_values(schedule)
        if until is not None:
            query, values = query + " AND instant <= :until", values | {"until": to_db_time(until)}
        newest_first = query + " ORDER BY instant DESC LIMIT 1"
        rows = await self._database.read(lambda tx: tx.query(newest_first, **values))
        return _parse_result(rows[0]) if rows else None

    async def find_latest_entry_at(self) -> datetime | None:
        return await self._database.read(self._find_latest_entry_at)

    def _find_latest_entry_at(self, tx: Transaction) -> datetime | None:
        rows = tx.query(SELECT_LATEST_ENTRY, tenant=self._tenant)
        return from_db_time(rows[0][0]) if rows else None

    def _get_key_values(self, schedule: str) -> dict[str, Value]:
        validate_text(schedule, what="a schedule's name")
        return {"tenant": self._tenant, "schedule": schedule}

    def _lock_lease(self, tx: Transaction, fence: Lease) -> None:
        held = tx.execute(
            LOCK_LEASE,
            tenant=self._tenant,
            name=fence.name,
            owner=fence.owner,
            epoch=fence.fencing_token,
        )
        if not held:
            raise ConflictError(f"the lease {fence.name} is not ours; nothing was written")


def _to_lease_values(lease: Lease) -> dict[str, Value]:
    return {
        "name": lease.name,
        "owner": lease.owner,
        "epoch": lease.fencing_token,
        "beat": lease.heartbeat,
        "until_at": to_db_time(lease.until),
        "task": lease.task,
    }


def _parse_lease(row: tuple[Any, ...]) -> Lease:
    name, owner, epoch, beat, until_at, task = row
    return Lease(
        name=name,
        owner=owner,
        fencing_token=epoch,
        heartbeat=beat,
        until=from_db_time(until_at),
        task=task,
    )


def _to_result_values(slot: OccurrenceResult) -> dict[str, Value]:
    return {
        "schedule": slot.schedule,
        "instant": to_db_time(slot.due_at),
        "state": slot.state.value,
        "decided_at": to_db_time(slot.decided_at),
        "reason": slot.reason,
        "run_at": to_optional_db_time(slot.run_at),
    }


def _parse_result(row: tuple[Any, ...]) -> OccurrenceResult:
    schedule, instant, state, decided_at, reason, run_at = row
    return OccurrenceResult(
        schedule=schedule,
        due_at=from_db_time(instant),
        state=OccurrenceState(state),
        decided_at=from_db_time(decided_at),
        reason=reason,
        run_at=from_optional_db_time(run_at),
    )
