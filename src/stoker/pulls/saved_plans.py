"""Plans as they were kept: what a run decided about every account, and all it was decided by.

Whatever is read back is held against the digests it was kept with, so that nobody explains or
repeats a plan that was damaged. Nothing here decides or writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import get_count
from stoker.context import TenantStores
from stoker.heat.model import PlanRecord
from stoker.ledger.query import LedgerFilter, get_data_text
from stoker.ledger.read import list_latest
from stoker.pulls.plan_record import (
    PlanDecisions,
    PlanSnapshot,
    compute_columns_digest,
    decode_columns,
    decode_decisions,
    parse_inputs,
    to_decision_columns,
    to_input_columns,
)
from stoker.pulls.service import PLAN_ENTRY

LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedPlan:
    """One run's plan: what it was made of, and what was decided."""

    record: PlanRecord
    inputs: PlanSnapshot
    decisions: PlanDecisions


async def load_plan(store: TenantStores, run: str) -> SavedPlan:
    """Return a run's plan, or the newest there is for `latest`.

    Raises ConfigError when there is none, PermanentError when it is not as it was kept.
    """
    if run == LATEST:
        found = await store.attention.list_plans(limit=1)
        record = found[0] if found else None
    else:
        record = await store.attention.find_plan(run)
    if record is None:
        which = "any run" if run == LATEST else f"run {run[:60]!r}"
        raise ConfigError(
            f"no plan of {which} is kept for {store.tenant}; make one with: stoker pulls plan"
        )
    return await _read_plan(store, record)


async def find_newest_plan(store: TenantStores) -> SavedPlan | None:
    """Return the plan that was kept last, if any was."""
    found = await store.attention.list_plans(limit=1)
    return await _read_plan(store, found[0]) if found else None


async def find_ledger_digest(store: TenantStores, run: str) -> str | None:
    """Return the digest of a run's decisions that the ledger tells; None where it tells of none."""
    found = await list_latest(store.ledger, LedgerFilter(kind=PLAN_ENTRY, run=run), limit=1)
    return get_data_text(found[0], "digest") if found else None


async def _read_plan(store: TenantStores, record: PlanRecord) -> SavedPlan:
    header = record.header
    decided, made_of = get_count(header, "decision_parts"), get_count(header, "input_parts")
    if not decided or not made_of:
        raise PermanentError(f"the plan of run {record.run} does not say how it is kept")
    parts = []
    for number in range(decided + made_of):
        part = await store.attention.find_plan_part(record.run, number)
        if part is None:
            raise PermanentError(f"part {number} of the plan of run {record.run} is missing")
        parts.append(part)
    decisions = decode_decisions(parts[:decided])
    inputs = parse_inputs(decode_columns(parts[decided:]), header)
    as_kept = (header.get("digest"), header.get("inputs_digest"))
    if as_kept != (
        compute_columns_digest(to_decision_columns(decisions)),
        compute_columns_digest(to_input_columns(inputs)),
    ):
        raise PermanentError(
            f"the plan of run {record.run} is not as it was kept; it is damaged, and explains "
            "nothing"
        )
    return SavedPlan(record=record, inputs=inputs, decisions=decisions)
