"""How often accounts would be looked at in the long run, if today's beliefs were the truth.

A day's plan says who is next; this says where days like it lead: rates, prices, and what no plan
within the same caps can beat. What only deep looks refresh is an account of its own here, at the
cost of the depth, so what is bounded is a little more than can be done.
"""

from __future__ import annotations

import numpy as np

from stoker.core.beliefs import Floats
from stoker.core.demand import Demand
from stoker.core.demand import Limits as RateLimits
from stoker.core.fitting import NO_CAP, Ints
from stoker.core.pull_columns import Accounts, Limits, PullRule, Why, days
from stoker.core.rate_plans import RatePlan
from stoker.core.rates import plan_rates


def long_run(
    accounts: Accounts, limits: Limits, *, rule: PullRule, price0: Floats | None = None
) -> RatePlan:
    """Return the best rates of looks, shallow ones of everybody free first, then of depth."""
    demand, caps = asked_of(accounts, limits, rule=rule)
    return plan_rates(demand, caps, objective=rule.objective, price0=price0)


def asked_of(accounts: Accounts, limits: Limits, *, rule: PullRule) -> tuple[Demand, RateLimits]:
    """Return what a plan of rates is asked for, with caps in units a day."""
    free = np.flatnonzero(accounts.barred == Why.FREE)
    more = accounts.deep_units - accounts.units
    deep = free[(accounts.deep_value[free] > 0) & (more[free] > 0)]
    both: Ints = np.concatenate([free, deep])
    between = np.concatenate(
        [accounts.surface.days_between[free], accounts.deep.days_between[deep]]
    )
    tick = days(rule.tick)
    # Whoever shares nothing shares a last cap that is none.
    domain = accounts.domain[both]
    shared = np.append(limits.domain_cap, NO_CAP)
    demand = Demand(
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
        connector_cap=_per_day(limits.connector_cap, tick),
        shared_cap=_per_day(shared, tick) if len(limits.domain_cap) else None,
    )


def _per_day(cap: Ints, tick: float) -> Floats | None:
    if not cap.size:
        return None
    return np.where(cap >= NO_CAP, np.inf, cap / tick)
