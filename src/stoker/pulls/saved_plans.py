"""Plans as they were kept: what a run decided about every account, and all it was decided by.

Whatever is read back is held against the digests it was kept with, so that nobody explains or
repeats a plan that was damaged. Nothing here decides or writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import whole_in
from stoker.context import Store
from stoker.heat.model import PlanRecord
from stoker.ledger.query import Selection, said
from stoker.ledger.read import newest
from stoker.pulls.plan_record import (
    Decisions,
    PlanInputs,
    decision_columns,
    digest,
    input_columns,
    inputs_from,
    recalled,
    unpacked,
)
from stoker.pulls.service import PLANNED

LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptPlan:
    """One run's plan: what it was made of, and what was decided."""

    record: PlanRecord
    inputs: PlanInputs
    decisions: Decisions


async def kept_plan(store: Store, run: str) -> KeptPlan:
    """Return a run's plan, or the newest there is for `latest`.

    Raises ConfigError when there is none, PermanentError when it is not as it was kept.
    """
    if run == LATEST:
        found = await store.attention.plans(limit=1)
        record = found[0] if found else None
    else:
        record = await store.attention.plan(run)
    if record is None:
        which = "any run" if run == LATEST else f"run {run[:60]!r}"
        raise ConfigError(
            f"no plan of {which} is kept for {store.tenant}; make one with: stoker pulls plan"
        )
    return await _read(store, record)


async def newest_plan(store: Store) -> KeptPlan | None:
    """Return the plan that was kept last, if any was."""
    found = await store.attention.plans(limit=1)
    return await _read(store, found[0]) if found else None


async def told_by_ledger(store: Store, run: str) -> str | None:
    """Return the digest of a run's decisions that the ledger tells; None where it tells of none."""
    found = await newest(store.ledger, Selection(kind=PLANNED, run=run), limit=1)
    return said(found[0], "digest") if found else None


async def _read(store: Store, record: PlanRecord) -> KeptPlan:
    header = record.header
    decided, made_of = whole_in(header, "decision_parts"), whole_in(header, "input_parts")
    if not decided or not made_of:
        raise PermanentError(f"the plan of run {record.run} does not say how it is kept")
    parts = []
    for number in range(decided + made_of):
        part = await store.attention.plan_part(record.run, number)
        if part is None:
            raise PermanentError(f"part {number} of the plan of run {record.run} is missing")
        parts.append(part)
    decisions = recalled(parts[:decided])
    inputs = inputs_from(unpacked(parts[decided:]), header)
    as_kept = (header.get("digest"), header.get("inputs_digest"))
    if as_kept != (digest(decision_columns(decisions)), digest(input_columns(inputs))):
        raise PermanentError(
            f"the plan of run {record.run} is not as it was kept; it is damaged, and explains "
            "nothing"
        )
    return KeptPlan(record=record, inputs=inputs, decisions=decisions)
