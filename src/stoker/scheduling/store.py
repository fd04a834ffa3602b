"""One tenant's leases and decided instants, in SQL.

A row that a decision rests on is updated to itself rather than only read: that holds it still
until the transaction ends, in either database.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stoker.base.errors import ConflictError
from stoker.base.types import TenantId
from stoker.db.codec import kept_text
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)
from stoker.ledger.store import added
from stoker.runs.leases import Lease, kept_lease
from stoker.scheduling.model import Slot, SlotState, kept_slot, slot_note

LEASE = """
SELECT name, owner, epoch, beat, until_at, task FROM leases
WHERE tenant_id = :tenant AND name = :name
"""

FIRST_LEASE = """
INSERT INTO leases (tenant_id, name, owner, epoch, beat, until_at, task)
VALUES (:tenant, :name, :owner, :epoch, :beat, :until_at, :task)
ON CONFLICT DO NOTHING
"""

SWAP = """
UPDATE leases SET owner = :owner, epoch = :epoch, beat = :beat, until_at = :until_at, task = :task
WHERE tenant_id = :tenant AND name = :name AND owner = :seen_owner AND epoch = :seen_epoch
  AND beat = :seen_beat AND until_at = :seen_until_at AND task = :seen_task
"""

HOLD_FENCE = """
UPDATE leases SET epoch = epoch
WHERE tenant_id = :tenant AND name = :name AND owner = :owner AND epoch = :epoch
"""

DECIDE = """
INSERT INTO slots (tenant_id, schedule, instant, state, decided_at, reason, run_at)
VALUES (:tenant, :schedule, :instant, :state, :decided_at, :reason, :run_at)
ON CONFLICT DO NOTHING
"""

SLOTS = """
SELECT schedule, instant, state, decided_at, reason, run_at FROM slots
WHERE tenant_id = :tenant AND schedule = :schedule
"""

LATEST_ENTRY = "SELECT at FROM ledger WHERE tenant_id = :tenant ORDER BY seq DESC LIMIT 1"


class SqlSchedule:
    """A `ScheduleStore` in the tables `leases` and `slots`."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def lease(self, name: str) -> Lease | None:
        kept_text(name, what="a lease's name")
        rows = await self._database.read(lambda tx: tx.rows(LEASE, tenant=self._tenant, name=name))
        return _lease(rows[0]) if rows else None

    async def swap_lease(self, seen: Lease | None, wanted: Lease) -> bool:
        values, seen = _lease_values(kept_lease(wanted)), seen and kept_lease(seen)
        if seen is None:
            query = FIRST_LEASE
        elif seen.name != wanted.name:
            return False
        else:
            query = SWAP
            before = _lease_values(seen)
            values |= {f"seen_{key}": value for key, value in before.items() if key != "name"}
        changed = await self._database.write(
            lambda tx: tx.change(query, tenant=self._tenant, **values)
        )
        return changed == 1

    async def decide_slot(self, slot: Slot, *, fence: Lease | None) -> bool:
        slot, fence = kept_slot(slot), fence and kept_lease(fence)

        def decide(tx: Transaction) -> bool:
            if fence is not None:
                self._hold(tx, fence)
            if not tx.change(DECIDE, tenant=self._tenant, **_slot_values(slot)):
                return False
            added(tx, self._tenant, [slot_note(slot, latest=self._latest(tx))])
            return True

        return await self._database.write(decide)

    async def slots(
        self, schedule: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[Slot]:
        query, values = SLOTS, self._of(schedule)
        if since is not None:
            query, values = query + " AND instant >= :since", values | {"since": moment_text(since)}
        if until is not None:
            query, values = query + " AND instant < :until", values | {"until": moment_text(until)}
        rows = await self._database.read(lambda tx: tx.rows(query + " ORDER BY instant", **values))
        return [_slot(row) for row in rows]

    async def last_slot(self, schedule: str, *, until: datetime | None = None) -> Slot | None:
        query, values = SLOTS, self._of(schedule)
        if until is not None:
            query, values = query + " AND instant <= :until", values | {"until": moment_text(until)}
        newest_first = query + " ORDER BY instant DESC LIMIT 1"
        rows = await self._database.read(lambda tx: tx.rows(newest_first, **values))
        return _slot(rows[0]) if rows else None

    async def latest_decision_at(self) -> datetime | None:
        return await self._database.read(self._latest)

    def _latest(self, tx: Transaction) -> datetime | None:
        rows = tx.rows(LATEST_ENTRY, tenant=self._tenant)
        return moment(rows[0][0]) if rows else None

    def _of(self, schedule: str) -> dict[str, Value]:
        kept_text(schedule, what="a schedule's name")
        return {"tenant": self._tenant, "schedule": schedule}

    def _hold(self, tx: Transaction, fence: Lease) -> None:
        held = tx.change(
            HOLD_FENCE,
            tenant=self._tenant,
            name=fence.name,
            owner=fence.owner,
            epoch=fence.epoch,
        )
        if not held:
            raise ConflictError(f"the lease {fence.name} is not ours; nothing was written")


def _lease_values(lease: Lease) -> dict[str, Value]:
    return {
        "name": lease.name,
        "owner": lease.owner,
        "epoch": lease.epoch,
        "beat": lease.beat,
        "until_at": moment_text(lease.until),
        "task": lease.task,
    }


def _lease(row: tuple[Any, ...]) -> Lease:
    name, owner, epoch, beat, until_at, task = row
    return Lease(name=name, owner=owner, epoch=epoch, beat=beat, until=moment(until_at), task=task)


def _slot_values(slot: Slot) -> dict[str, Value]:
    return {
        "schedule": slot.schedule,
        "instant": moment_text(slot.instant),
        "state": slot.state.value,
        "decided_at": moment_text(slot.decided_at),
        "reason": slot.reason,
        "run_at": optional_moment_text(slot.run_at),
    }


def _slot(row: tuple[Any, ...]) -> Slot:
    schedule, instant, state, decided_at, reason, run_at = row
    return Slot(
        schedule=schedule,
        instant=moment(instant),
        state=SlotState(state),
        decided_at=moment(decided_at),
        reason=reason,
        run_at=optional_moment(run_at),
    )
