"""Compute what more or less budget would buy: price, lookups, and freshness.

Lookups are those of one plan now. Freshness, prices and intervals are the steady state of the best
plan, if today's estimates are right. The deep level of an account is a row of its own there, at the
cost of the depth, so the bound allows slightly more than is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from stoker.heat.beliefs import Floats
from stoker.pulls.capacity import NO_CAP, Ints
from stoker.pulls.columns import Decision, PlanAccounts, PullLimits, PullRule, to_days
from stoker.pulls.plan_record import PlanSnapshot
from stoker.pulls.planner import plan_pulls
from stoker.pulls.rate_problem import RateDemand, RateLimits
from stoker.pulls.rates import compute_rate_plan
from stoker.pulls.worth import compute_stale_share


def to_rate_problem(
    accounts: PlanAccounts, limits: PullLimits, *, rule: PullRule
) -> tuple[RateDemand, RateLimits]:
    """Return the rate problem of these accounts, with caps in units a day."""
    free = np.flatnonzero(accounts.barred == Decision.FREE)
    more = accounts.deep_units - accounts.units
    deep = free[(accounts.deep_value[free] > 0) & (more[free] > 0)]
    both: Ints = np.concatenate([free, deep])
    between = np.concatenate(
        [accounts.surface.days_between[free], accounts.deep.days_between[deep]]
    )
    tick = to_days(rule.tick)
    # Accounts without a shared domain get a last, unlimited cap.
    domain = accounts.domain[both]
    shared = np.append(limits.domain_cap, NO_CAP)
    demand = RateDemand(
        value=np.concatenate([accounts.value[free], accounts.deep_value[deep]]),
        changes=1.0 / between,
        cost=np.concatenate([accounts.units[free], more[deep]]).astype(np.float64),
        tenant=accounts.tenant[both],
        connector=accounts.connector[both] if limits.connector_cap.shape[1] else None,
        shared=np.where(domain < 0, len(shared) - 1, domain) if len(limits.domain_cap) else None,
        rate_max=1.0 / tick,
    )
    return demand, RateLimits(
        budget=np.maximum(limits.budget, 0) / tick,
        connector_cap=_to_daily_cap(limits.connector_cap, tick),
        shared_cap=_to_daily_cap(shared, tick) if len(limits.domain_cap) else None,
    )


def _to_daily_cap(cap: Ints, tick: float) -> Floats | None:
    if not cap.size:
        return None
    return np.where(cap >= NO_CAP, np.inf, cap / tick)


TIMES = (0.25, 0.5, 0.75, 1.0, 1.1, 1.5, 2.0, 3.0, 4.0)

_MIN_RATE = 1e-9  # lookups a day; whatever is rarer is as good as never


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """What so many times the budget buys."""

    times: float
    units: int  # a day
    looks: int  # of one plan now that may spend them all
    price: float  # of a unit, in the long run; 0: there is more money than lookups
    freshness: float  # share of time up to date, by value
    every: float  # days between lookups of half of all accounts, or fewer; infinite for never
    gap: float  # no rates of lookups leave this share less


def iterate_budget_points(
    inputs: PlanSnapshot, *, now: datetime, times: Sequence[float] = TIMES
) -> Iterator[BudgetPoint]:
    """Yield what each multiple of one tenant's daily budget buys."""
    accounts, rule = inputs.accounts, inputs.rule
    free = int((accounts.barred == Decision.FREE).sum())
    price0 = None
    for each in times:
        units = min(int(max(int(inputs.limits.budget[0]), 0) * each), NO_CAP)
        limits = replace(inputs.limits, budget=np.array([units], np.int64))
        today = plan_pulls(accounts, limits, now=now, rule=rule)
        demand, caps = to_rate_problem(accounts, limits, rule=rule)
        caps = replace(caps, budget=np.array([units], np.float64))  # a day, however many plans
        steady = compute_rate_plan(demand, caps, objective=rule.objective, price0=price0)
        price0 = steady.price if np.isfinite(steady.price).all() and steady.price.all() else None
        value = demand.value.sum()
        stale = compute_stale_share(demand.changes / np.maximum(steady.rate, _MIN_RATE))
        fresh = float((demand.value * (1.0 - stale)).sum() / value) if value > 0 else 0.0
        looks = steady.rate[:free]
        middle = float(np.median(looks)) if free else 0.0
        yield BudgetPoint(
            times=each,
            units=units,
            looks=len(today.chosen),
            price=float(steady.price[0]),
            freshness=fresh,
            every=1.0 / middle if middle > _MIN_RATE else np.inf,
            gap=steady.gap,
        )
