"""Read saved plans: what a run decided about every account, and the inputs.

Everything read is checked against the digests it was saved with, so a damaged plan is never
explained or replayed.
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
    """One run's plan: its inputs and its decisions."""

    record: PlanRecord
    inputs: PlanSnapshot
    decisions: PlanDecisions


async def load_plan(store: TenantStores, run: str) -> SavedPlan:
    """Return a run's plan, or the newest one for `latest`.

    Raises ConfigError when there is none, PermanentError when it is damaged.
    """
    if run == LATEST:
        newest = await store.attention.list_plans(limit=1)
        record = newest[0] if newest else None
    else:
        record = await store.attention.find_plan(run)
    if record is None:
        which = "any run" if run == LATEST else f"run {run[:60]!r}"
        raise ConfigError(
            f"no plan of {which} is saved for {store.tenant}; make one with: stoker pulls plan"
        )
    return await _read_plan(store, record)


async def find_newest_plan(store: TenantStores) -> SavedPlan | None:
    """Return the newest plan, or None."""
    newest = await store.attention.list_plans(limit=1)
    return await _read_plan(store, newest[0]) if newest else None


async def find_ledger_digest(store: TenantStores, run: str) -> str | None:
    """Return the digest of a run's decisions in the ledger, or None."""
    entries = await list_latest(store.ledger, LedgerFilter(kind=PLAN_ENTRY, run=run), limit=1)
    return get_data_text(entries[0], "digest") if entries else None


async def _read_plan(store: TenantStores, record: PlanRecord) -> SavedPlan:
    header = record.header
    decided, made_of = get_count(header, "decision_parts"), get_count(header, "input_parts")
    if not decided or not made_of:
        raise PermanentError(f"the plan of run {record.run} does not say how many parts it has")
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
            f"the plan of run {record.run} is damaged: it does not match its digests"
        )
    return SavedPlan(record=record, inputs=inputs, decisions=decisions)
