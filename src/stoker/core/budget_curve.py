"""What more or less money would buy: the price, the looks, and how fresh accounts can be kept.

Looks are those of one plan now; freshness, prices and intervals are where days of the
best plan lead in the long run, if today's beliefs are the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from stoker.core.fitting import NO_CAP
from stoker.core.long_run import asked_of
from stoker.core.plan_inputs import PlanInputs
from stoker.core.pull_columns import Why
from stoker.core.pulls import plan_day
from stoker.core.rates import plan_rates
from stoker.core.worth import stale_share

TIMES = (0.25, 0.5, 0.75, 1.0, 1.1, 1.5, 2.0, 3.0, 4.0)
_NEVER = 1e-9  # looks a day; whatever is rarer is as good as never


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """What so many times the budget buys."""

    times: float
    units: int  # a day
    looks: int  # of one plan now that may spend them all
    price: float  # of a unit, in the long run; 0: there is more money than looks
    freshness: float  # share of time up to date, by value
    every: float  # days between looks at half of all accounts, or fewer; infinite for never
    gap: float  # no rates of looks leave this share less


def points(
    inputs: PlanInputs, *, now: datetime, times: Sequence[float] = TIMES
) -> Iterator[BudgetPoint]:
    """Yield what each multiple of one tenant's budget for a day buys, one after the other."""
    accounts, rule = inputs.accounts, inputs.rule
    free = int((accounts.barred == Why.FREE).sum())
    price0 = None
    for each in times:
        units = min(int(max(int(inputs.limits.budget[0]), 0) * each), NO_CAP)
        limits = replace(inputs.limits, budget=np.array([units], np.int64))
        today = plan_day(accounts, limits, now=now, rule=rule)
        demand, caps = asked_of(accounts, limits, rule=rule)
        caps = replace(caps, budget=np.array([units], np.float64))  # a day, however many plans
        found = plan_rates(demand, caps, objective=rule.objective, price0=price0)
        price0 = found.price if np.isfinite(found.price).all() and found.price.all() else None
        value = demand.value.sum()
        stale = stale_share(demand.changes / np.maximum(found.rate, _NEVER))
        fresh = float((demand.value * (1.0 - stale)).sum() / value) if value > 0 else 0.0
        looks = found.rate[:free]
        middle = float(np.median(looks)) if free else 0.0
        yield BudgetPoint(
            times=each,
            units=units,
            looks=len(today.chosen),
            price=float(found.price[0]),
            freshness=fresh,
            every=1.0 / middle if middle > _NEVER else np.inf,
            gap=found.gap,
        )
