"""Store a tenant's pull plans: what a run decided about every account, and its inputs.

For every account the decision, the depth, the offer and the age of our data, in parts of so many
accounts in the order of their ids. With its inputs a plan can be replayed years later and must give
the same decisions, or be replayed with one number changed. Everything read is checked against the
digests it was saved with, so a damaged plan is never explained or replayed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.base.errors import ConfigError, ConflictError, PermanentError
from stoker.base.jsontools import get_count, get_object
from stoker.base.types import Json
from stoker.context import TenantStores
from stoker.db.database import Database, Transaction
from stoker.files.columns import Columns, compute_columns_digest, decode_columns, encode_columns
from stoker.heat.beliefs import ChangeRates
from stoker.heat.settings import TierRule
from stoker.ledger.chain import NewEntry
from stoker.ledger.query import LedgerFilter, get_data_text
from stoker.ledger.read import list_latest
from stoker.ledger.store import append_entries
from stoker.pulls.columns import (
    NO_CAP,
    Decision,
    Floats32,
    PlanAccounts,
    PullLimits,
    to_epoch_days,
    validate_accounts,
)
from stoker.pulls.constraints import Constraint, list_binding, parse_constraints
from stoker.pulls.planner import DEEP, SHALLOW, PullPlan, plan_pulls
from stoker.pulls.schema import PLAN_PARTS, PLANS, PlanRecord
from stoker.pulls.settings import Objective, Policy, PullRule

MAX_PART_BYTES = 64 * 2**20

NEWEST_PLANS = "TRUE ORDER BY run DESC LIMIT :limit"

SELECT_PLAN_PARTS = """
SELECT part FROM pull_plan_parts WHERE tenant_id = :tenant AND run = :run ORDER BY number
"""

SELECT_PLAN_PART = """
SELECT part FROM pull_plan_parts WHERE tenant_id = :tenant AND run = :run AND number = :number
"""

DELETE_PLAN_PARTS = "DELETE FROM pull_plan_parts WHERE tenant_id = ? AND run = ?"

DELETE_PLAN = "DELETE FROM pull_plans WHERE tenant_id = ? AND run = ?"


class PlanStore:
    """One tenant's pull plans. Every verb is atomic."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert_plan(
        self, plan: PlanRecord, parts: Sequence[bytes], *, entry: NewEntry | None = None
    ) -> bool:
        """Insert a run's plan, its parts in order and its ledger entry; False if it exists.

        The plan and the entry are both written or neither is. Raises ConflictError, and changes
        nothing, when the run has another plan.
        """
        if any(len(part) > MAX_PART_BYTES for part in parts):
            raise PermanentError(
                f"a part of a plan has at most {MAX_PART_BYTES} bytes; make it smaller"
            )
        record, parts = PLANS.store(plan), list(map(bytes, parts))

        def insert(tx: Transaction) -> bool:
            if PLANS.insert_new(tx, [record]):
                rows = [(tx.tenant, record.run, number, part) for number, part in enumerate(parts)]
                tx.execute_many(PLAN_PARTS.insert, rows)
                append_entries(tx, [entry] if entry else [])
                return True
            known = PLANS.find(tx, "run = :run", run=record.run)
            known_parts = [part for (part,) in tx.query(SELECT_PLAN_PARTS, run=record.run)]
            if known != [record] or known_parts != parts:
                raise ConflictError(
                    f"another plan of run {record.run} is saved already; nothing was written"
                )
            return False

        return await self._database.write(insert)

    async def find_plan(self, run: str) -> PlanRecord | None:
        """Return a run's plan, or None."""
        key = PLANS.encode(run=run)
        plans = await self._database.read(lambda tx: PLANS.find(tx, "run = :run", **key))
        return plans[0] if plans else None

    async def find_plan_part(self, run: str, number: int) -> bytes | None:
        """Return one part of a run's plan, counted from 0, or None."""
        key = PLAN_PARTS.encode(run=run, number=number)
        rows = await self._database.read(lambda tx: tx.query(SELECT_PLAN_PART, **key))
        return rows[0][0] if rows else None

    async def list_plans(self, *, limit: int = 100) -> list[PlanRecord]:
        """Return the newest plans, by their runs' names."""
        return await self._database.read(lambda tx: PLANS.find(tx, NEWEST_PLANS, limit=limit))

    async def delete_plans(self, runs: Sequence[str]) -> int:
        """Delete the plans of these runs with their parts; return how many there were."""
        keys = sorted({PLANS.encode(run=run)["run"] for run in runs}, key=str)

        def delete(tx: Transaction) -> int:
            rows = [(tx.tenant, run) for run in keys]
            tx.execute_many(DELETE_PLAN_PARTS, rows)
            return tx.execute_many(DELETE_PLAN, rows)

        return await self._database.write(delete) if keys else 0


LATEST = "latest"
PLAN_ENTRY = "PLAN"  # the ledger's kind of entries about plans

_ENTRY_FIELDS = (  # of a plan's header, repeated in its ledger entry
    "policy",
    "budget",
    "spent",
    "price",
    "gap",
    "accounts",
    "counts",
    "unkept",
    "digest",
    "inputs_digest",
)
# What a stored plan says about its rule, by the names it was first stored under.
_RULE_NAMES = (
    "policy",
    "objective",
    "tick",
    "floor",
    "floor_share",
    "signal_changes",
    "value_spread",
    "deep_again",
)
# What plans did that were stored before their rule said so.
_EARLIER_RULE: Mapping[str, Json] = {"by_age": False, "floor_for_seen": False}
# Columns that earlier plans lack; left out where they say nothing, so that digests stay.
_LATER_COLUMNS = ("known", "chance")
_RATE_COLUMNS = ("surface", "deep")
# Columns of plans for several connectors and shared domains, which digests of all plans cover.
_CONSTANT_COLUMNS = {"connector": 0, "domain": -1}
_UNCAPPED = -1  # in JSON: there is no cap


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanSnapshot:
    """The inputs of a plan."""

    ids: Sequence[str]
    accounts: PlanAccounts
    limits: PullLimits
    rule: PullRule
    constraints: Sequence[Constraint] = ()  # what the limits on deep lookups, and bars, come from


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanningResult:
    """A plan, and its inputs."""

    at: datetime
    inputs: PlanSnapshot
    plan: PullPlan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanDecisions:
    """The decisions about a plan's accounts, by rising account id."""

    account: Sequence[str]
    why: NDArray[np.uint8]
    depth: NDArray[np.uint8]
    score: Floats32  # worth of a lookup per unit; over the price it is worth it
    age: Floats32  # days since the last lookup; infinite for never

    def __post_init__(self) -> None:
        if any(one >= other for one, other in pairwise(self.account)):
            raise PermanentError("decisions stand in the order of their accounts, each there once")

    def find_row(self, account: str) -> int | None:
        """Return an account's row, or None if nothing was decided about it."""
        place = bisect_left(self.account, account)
        there = place < len(self.account) and self.account[place] == account
        return place if there else None

    def to_columns(self) -> Columns:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedPlan:
    """One run's plan: its inputs and its decisions."""

    record: PlanRecord
    inputs: PlanSnapshot
    decisions: PlanDecisions


async def save_plan(store: TenantStores, run: str, pulls: PlanningResult) -> None:
    """Save a run's plan: every decision, all its inputs, and an entry in the ledger. Atomic.

    Saving the same plan again changes nothing. Raises ConflictError for another plan of the run.
    """
    inputs, decisions = to_input_columns(pulls.inputs), to_decisions(pulls).to_columns()
    parts, input_parts = encode_columns(decisions), encode_columns(inputs)
    header: dict[str, Json] = {
        **summarize_plan(pulls),
        "counts": dict(count_decisions(pulls.plan)),
        "digest": compute_columns_digest(decisions),
        "inputs_digest": compute_columns_digest(inputs),
        "decision_parts": len(parts),
        "input_parts": len(input_parts),
        "limits": to_limits_json(pulls.inputs.limits),
        "rule": to_rule_json(pulls.inputs.rule),
        "hindrances": [each.as_json() for each in pulls.inputs.constraints],
    }
    policy = pulls.inputs.rule.policy.value
    record = PlanRecord(run=run, at=pulls.at, policy=policy, header=header)
    active: list[Json] = [each.as_json() for each in list_active_constraints(pulls)]
    repeated = {name: header[name] for name in _ENTRY_FIELDS}
    entry = NewEntry(
        at=pulls.at,
        kind=PLAN_ENTRY,
        subject=run,
        reason="",
        data={"run": run, "hindrances": active, **repeated},
    )
    await store.plans.insert_plan(record, [*parts, *input_parts], entry=entry)


async def load_plan(store: TenantStores, run: str) -> SavedPlan:
    """Return a run's plan, or the newest one for `latest`.

    Raises ConfigError when there is none, PermanentError when it is damaged.
    """
    if run == LATEST:
        saved = await find_newest_plan(store)
    else:
        record = await store.plans.find_plan(run)
        saved = await _read_plan(store, record) if record else None
    if saved is None:
        which = "any run" if run == LATEST else f"run {run[:60]!r}"
        raise ConfigError(
            f"no plan of {which} is saved for {store.tenant}; make one with: stoker pulls plan"
        )
    return saved


async def find_owed(store: TenantStores) -> int:
    """Return what the newest plan left to overdue accounts, in thousandths of a unit."""
    newest = await store.plans.list_plans(limit=1)
    return (get_count(newest[0].header, "owed") or 0) if newest else 0


async def find_newest_plan(store: TenantStores) -> SavedPlan | None:
    newest = await store.plans.list_plans(limit=1)
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
        part = await store.plans.find_plan_part(record.run, number)
        if part is None:
            raise PermanentError(f"part {number} of the plan of run {record.run} is missing")
        parts.append(part)
    decisions = decode_decisions(parts[:decided])
    inputs = parse_inputs(decode_columns(parts[decided:]), header)
    if (header.get("digest"), header.get("inputs_digest")) != (
        compute_columns_digest(decisions.to_columns()),
        compute_columns_digest(to_input_columns(inputs)),
    ):
        raise PermanentError(
            f"the plan of run {record.run} is damaged: it does not match its digests"
        )
    return SavedPlan(record=record, inputs=inputs, decisions=decisions)


def to_decisions(pulls: PlanningResult) -> PlanDecisions:
    """Return a plan's decisions. Raises PermanentError if ids are missing or unsorted."""
    plan, inputs = pulls.plan, pulls.inputs
    if len(inputs.ids) != len(plan.why):
        raise PermanentError(f"{len(plan.why)} accounts are in the plan, not {len(inputs.ids)}")
    age = np.maximum(to_epoch_days(pulls.at) - inputs.accounts.looked, 0.0)
    return PlanDecisions(
        account=inputs.ids,
        why=plan.why,
        depth=plan.depth,
        score=plan.score,
        age=age.astype(np.float32),
    )


def decode_decisions(parts: Sequence[bytes]) -> PlanDecisions:
    """Return the decisions in these parts. Raises PermanentError if they are damaged."""
    columns = decode_columns(parts)
    try:
        return PlanDecisions(**columns)
    except TypeError:
        raise PermanentError(f"these parts keep {sorted(columns)}, and no decisions") from None


def summarize_plan(pulls: PlanningResult) -> dict[str, Json]:
    """Return a plan's totals, without naming accounts."""
    plan, limits, rule = pulls.plan, pulls.inputs.limits, pulls.inputs.rule
    return {
        "budget": limits.budget,
        "spent": plan.spent,
        "price": plan.price,
        "reference": plan.reference,
        "gap": plan.gap,
        "policy": rule.policy.value,
        "objective": rule.objective.value,
        "overdue": plan.overdue,
        "floor_needs": round(plan.floor_needs, 3),
        "floor_allows": (max(limits.budget, 0) * rule.share + limits.owed) // 1000,
        "accounts": len(pulls.inputs.ids),
        "unkept": len(plan.floor_missed),
        **({"owed": plan.owed} if rule.floor_for_seen else {}),
    }


def count_decisions(plan: PullPlan) -> dict[str, int]:
    """Return the number of accounts by decision, and of lookups by depth."""
    by_code = enumerate(np.bincount(plan.why, minlength=1).tolist())
    return {
        **{Decision(code).name: number for code, number in by_code if number},
        "shallow": int((plan.depth == SHALLOW).sum()),
        "deep": int((plan.depth == DEEP).sum()),
    }


def list_active_constraints(pulls: PlanningResult) -> list[Constraint]:
    """Return the constraints that refused lookups of a plan."""
    refused = {Decision(each) for each in np.unique(pulls.plan.why).tolist()}
    withheld = bool((pulls.plan.depth_refusal != Decision.FREE).any())
    return list_binding(pulls.inputs.constraints, refused, withheld=withheld)


def to_input_columns(inputs: PlanSnapshot) -> Columns:
    """Return the accounts of a plan as columns for the store, in the order that they are saved."""
    columns: dict[str, Any] = {"account": list(inputs.ids)}
    for each in fields(PlanAccounts):
        column = getattr(inputs.accounts, each.name)
        if each.name in _LATER_COLUMNS and (column == each.metadata["default"]).all():
            continue
        if each.name in _RATE_COLUMNS:
            columns[f"{each.name}_changes"] = np.asarray(column.changes, np.float64)
            columns[f"{each.name}_days"] = np.asarray(column.days, np.float64)
        else:
            columns[each.name] = np.ascontiguousarray(column)
        if each.name == "signals":
            for name, value in _CONSTANT_COLUMNS.items():
                columns[name] = np.full(len(inputs.ids), value, np.int32)
    return columns


def parse_inputs(columns: Mapping[str, Any], header: Mapping[str, Json]) -> PlanSnapshot:
    """Return a plan's inputs from its stored columns and its header.

    Raises PermanentError when they are not those of a plan.
    """
    given = {name: column for name, column in columns.items() if name not in _CONSTANT_COLUMNS}
    try:
        ids = given.pop("account")
        surface, deep = (
            ChangeRates(changes=given.pop(f"{name}_changes"), days=given.pop(f"{name}_days"))
            for name in _RATE_COLUMNS
        )
        return PlanSnapshot(
            ids=ids,
            accounts=validate_accounts(surface, deep=deep, **given),
            limits=parse_limits(get_object(header["limits"])),
            rule=parse_rule(get_object(header["rule"])),
            constraints=parse_constraints(header.get("hindrances")),
        )
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise PermanentError(f"what this plan was made of cannot be read ({error})") from error


def to_limits_json(limits: PullLimits) -> dict[str, Json]:
    """Return caps as JSON, each in a list (plans were once of several tenants); -1 is no cap."""
    caps: dict[str, Json] = {
        "budget": [limits.budget],
        "connector_cap": [[_to_json_cap(limits.connector_cap)]],
    }
    if limits.deep_cap is not None:  # plans of before there were any say nothing of them
        caps["deep_cap"] = [_to_json_cap(limits.deep_cap)]
        caps["deep_why"] = [limits.deep_why.name]
    if limits.owed:
        caps["owed"] = [limits.owed]
    return caps


def parse_limits(caps: Mapping[str, Any]) -> PullLimits:
    """Return caps as `to_limits_json` wrote them."""
    [budget], [connector_caps] = caps["budget"], caps["connector_cap"]
    [connector_cap] = connector_caps or [_UNCAPPED]
    [owed] = caps.get("owed", [0])
    limits = PullLimits(budget=budget, connector_cap=_parse_cap(connector_cap), owed=owed)
    if "deep_cap" not in caps:
        return limits
    [deep_cap], [deep_why] = caps["deep_cap"], caps["deep_why"]
    return replace(limits, deep_cap=_parse_cap(deep_cap), deep_why=Decision[deep_why])


def _to_json_cap(cap: int) -> int:
    return _UNCAPPED if cap == NO_CAP else cap


def _parse_cap(cap: Any) -> int:
    return NO_CAP if cap == _UNCAPPED else cap


def to_rule_json(rule: PullRule) -> dict[str, Json]:
    """Return a rule as JSON: durations are seconds."""
    tiers = _to_rule_values(rule.tiers, [each.name for each in fields(TierRule)])
    later = {
        name: getattr(rule, name)
        for name, earlier in _EARLIER_RULE.items()
        if getattr(rule, name) != earlier
    }
    return {**_to_rule_values(rule, _RULE_NAMES), **later, "tiers": tiers}


def parse_rule(values: Mapping[str, Json]) -> PullRule:
    """Return a rule as `to_rule_json` wrote it."""
    tiers = TierRule(**_parse_rule_values(TierRule(), get_object(values["tiers"])))
    rest = {name: value for name, value in values.items() if name != "tiers"}
    return PullRule(**_parse_rule_values(PullRule(), {**_EARLIER_RULE, **rest}), tiers=tiers)


def _to_rule_values(rule: PullRule | TierRule, names: Iterable[str]) -> dict[str, Json]:
    values = {name: getattr(rule, name) for name in names}
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in values.items()
    }


def _parse_rule_values(model: Any, values: Mapping[str, Json]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        usual = getattr(model, name)
        if isinstance(usual, timedelta) and value is not None:
            parsed[name] = timedelta(seconds=float(str(value)))
        elif isinstance(usual, Policy | Objective):
            parsed[name] = type(usual)(str(value))
        else:
            parsed[name] = value
    return parsed


def replay_plan(inputs: PlanSnapshot, *, now: datetime) -> PlanningResult:
    """Return the plan of these inputs at this moment."""
    plan = plan_pulls(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
    return PlanningResult(at=now, inputs=inputs, plan=plan)
