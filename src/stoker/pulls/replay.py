"""Replay a saved plan: unchanged, or with a cap or the policy changed, and compare.

The same inputs must give the same decisions; every account that differs is named. Freshness here is
the share of all value expected to be up to date after the chosen lookups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from stoker.base.errors import ConfigError
from stoker.enrichment.forecast import VendorNeed
from stoker.heat.beliefs import compute_stale_chance
from stoker.pulls.columns import Column, Decision, PlanAccounts, to_epoch_days
from stoker.pulls.constraints import limit_deep_lookups, replace_call_caps
from stoker.pulls.planner import DEEP, NOT, plan_pulls
from stoker.pulls.saved_plans import PlanDecisions, PlanningResult, PlanSnapshot
from stoker.pulls.settings import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What to change in a plan's inputs; None changes nothing."""

    units: int | None = None  # the tenant's, for the day
    connector_units: int | None = None  # of the connector that lookups go through
    policy: Policy | None = None
    calls: Mapping[str, int] = field(default_factory=dict)  # by vendor, in place of its caps


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTotals:
    """The totals of a plan."""

    looks: int
    deep: int  # of them
    units: int
    price: float
    freshness: float  # 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDiff:
    """An account about which two plans decide differently."""

    account: str
    before: Decision
    after: Decision
    depth_before: int
    depth_after: int


def replay_plan(inputs: PlanSnapshot, *, now: datetime) -> PlanningResult:
    """Return the plan of these inputs at this moment."""
    plan = plan_pulls(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
    return PlanningResult(at=now, inputs=inputs, plan=plan)


def apply_what_if(
    inputs: PlanSnapshot, what_if: WhatIf, *, needs: Sequence[VendorNeed] = ()
) -> PlanSnapshot:
    """Return the inputs of a plan with other caps, or another policy."""
    limits, rule, hindrances = inputs.limits, inputs.rule, inputs.constraints
    for units in (what_if.units, what_if.connector_units):
        if units is not None and units < 0:
            raise ConfigError(f"a cap is a whole number from 0 up, not {units}")
    if what_if.units is not None:
        limits = replace(limits, budget=what_if.units)
    if what_if.connector_units is not None:
        limits = replace(limits, connector_cap=what_if.connector_units)
    if what_if.policy is not None:
        rule = replace(rule, policy=what_if.policy)
    if what_if.calls:
        hindrances = replace_call_caps(hindrances, what_if.calls, needs)
        limits = limit_deep_lookups(limits, hindrances)
    return replace(inputs, limits=limits, rule=rule, constraints=hindrances)


def compute_totals(pulls: PlanningResult) -> PlanTotals:
    """Return a plan's totals."""
    plan = pulls.plan
    return PlanTotals(
        looks=len(plan.chosen),
        deep=int((plan.depth == DEEP).sum()),
        units=plan.spent,
        price=plan.price,
        freshness=compute_fresh_share(
            pulls.inputs.accounts, plan.depth, now=to_epoch_days(pulls.at)
        ),
    )


def compute_fresh_share(accounts: PlanAccounts, depth: Column, *, now: float) -> float:
    """Return the share of all value expected to be up to date after lookups this deep."""
    fresh = total = 0.0
    facets = (
        (accounts.surface, accounts.looked, accounts.value, depth != NOT),
        (accounts.deep, accounts.deep_looked, accounts.deep_value, depth == DEEP),
    )
    for beliefs, looked, value, renewed in facets:
        age = np.maximum(now - looked, 0.0)
        fresh_chance = np.where(renewed, 1.0, 1.0 - compute_stale_chance(beliefs, age))
        fresh += float((value * fresh_chance).sum())
        total += float(value.sum())
    return fresh / total if total > 0 else 0.0


def iterate_differences(before: PlanDecisions, after: PlanDecisions) -> Iterator[DecisionDiff]:
    """Yield every account that two plans of the same accounts decide differently."""
    if list(before.account) != list(after.account):
        raise ConfigError("these are plans of other accounts; they cannot be compared one by one")
    same = (before.why == after.why) & (before.depth == after.depth)
    same &= before.score.view(np.uint32) == after.score.view(np.uint32)
    same &= before.age.view(np.uint32) == after.age.view(np.uint32)
    for row in np.flatnonzero(~same).tolist():
        yield DecisionDiff(
            account=before.account[row],
            before=Decision(int(before.why[row])),
            after=Decision(int(after.why[row])),
            depth_before=int(before.depth[row]),
            depth_after=int(after.depth[row]),
        )


def find_gained_and_lost(
    before: PlanDecisions, after: PlanDecisions
) -> tuple[list[str], list[str]]:
    """Return the accounts only the later plan looks up, and those only the earlier does."""
    gained, lost = [], []
    for each in iterate_differences(before, after):
        if each.depth_before == NOT < each.depth_after:
            gained.append(each.account)
        elif each.depth_after == NOT < each.depth_before:
            lost.append(each.account)
    return gained, lost
