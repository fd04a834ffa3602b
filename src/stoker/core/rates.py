"""How often each account deserves a look, given how often it changes and what may be spent.

Rates at which the last call spent on every account buys the same: one price per tenant, higher
where a tenant's cap with a connector is tight, and a price on top for what tenants share. Every
plan carries the bound that no plan within the same limits can beat. Which account is looked at
today is `pulls`' business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stoker.core.beliefs import Floats, checked
from stoker.core.demand import Asked, Demand, Limits, asked_for
from stoker.core.prices import CLOSED, FREE, Places, Rows, price_roots
from stoker.core.rate_plans import RatePlan, certified
from stoker.core.spacing import Spacing, spacing
from stoker.core.worth import Objective

_SWEEPS = 60  # between tenants' prices and those of what they share
_AGREED, _GOOD = 1e-6, 2e-5  # gaps: one to stop at, one to stop at when turns bring no more
_WORTHWHILE = 0.95  # of the gap before


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """What so many times the budget would buy."""

    times: float
    spend: float  # calls a day
    penalty: float
    least_penalty: float  # no plan at this budget goes below
    price: Floats  # by tenant


def plan_rates(
    demand: Demand,
    limits: Limits,
    *,
    objective: Objective = Objective.HARMONIC,
    price0: Floats | None = None,
) -> RatePlan:
    """Return the rates that leave the least penalty within the limits, none of them exceeded.

    `price0` are prices by tenant from an earlier plan: they save time and move nothing by more
    than the plan's gap. Least rates that a limit has no room for are cut, all under that limit by
    the same share.
    """
    asked, spaced = asked_for(demand, limits), spacing(objective)
    start = None
    if price0 is not None:
        start = np.sqrt(np.minimum(checked(price0, what="a price", most=np.inf), CLOSED**2))
    if asked.shared is None:
        rows, own = _priced(asked, asked.rows, start, spaced)
        return certified(asked, rows, own, spacing=spaced)
    return _shared_out(asked, asked.shared, start, spaced)


def curve(
    demand: Demand,
    limits: Limits,
    times: Sequence[float],
    *,
    objective: Objective = Objective.HARMONIC,
) -> list[CurvePoint]:
    """Return what so many times every tenant's budget would buy, with all caps as they are."""
    points: list[CurvePoint] = []
    for each in times:
        more = replace(limits, budget=np.asarray(limits.budget, np.float64) * each)
        price0 = points[-1].price if points else None
        plan = plan_rates(demand, more, objective=objective, price0=price0)
        points.append(
            CurvePoint(
                times=each,
                spend=float(plan.spend.sum()),
                penalty=float(plan.penalty.sum()),
                least_penalty=plan.least_penalty,
                price=plan.price,
            )
        )
    return points


def _priced(asked: Asked, rows: Rows, start: Floats | None, spaced: Spacing) -> tuple[Rows, Floats]:
    """Return the roots of tenants' prices, and rows that know those of their leaves."""
    if asked.leaves is not None:
        # What a connector's accounts cost when its cap is just met: they never cost less.
        leaf = asked.leaves.leaf
        alone = replace(rows, group=leaf, leaf=None, at_least=None)
        roots = price_roots(alone, asked.leaves.cap, spacing=spaced, start=rows.at_least)
        rows = replace(rows, leaf=leaf, at_least=roots)
    return rows, price_roots(rows, asked.budget, spacing=spaced, start=start)


def _shared_out(asked: Asked, shared: Places, start: Floats | None, spaced: Spacing) -> RatePlan:
    # Tenants' prices and those of what they share, in turn, each exact given the others. That
    # only ever raises the bound, and it is over when the bound says so.
    rows = replace(asked.rows, other=shared, beside=np.zeros(len(asked.shared_cap)))
    roots: Floats | None = None
    rows, start = _priced(asked, rows, start, spaced)
    best = certified(asked, rows, start, spacing=spaced)
    for _ in range(_SWEEPS):
        if best.gap <= _AGREED:
            break
        other, ground = rows.group, start
        if asked.leaves is not None and rows.at_least is not None:
            other = asked.leaves.leaf
            ground = np.maximum(start[asked.leaves.owner], rows.at_least)
        theirs = replace(asked.rows, group=shared, other=other, beside=_squared(ground))
        roots = price_roots(theirs, asked.shared_cap, spacing=spaced, start=roots)
        # Tenants last: with few accounts each, they are the ones that rates are hard to fit to.
        rows, start = _priced(asked, replace(rows, beside=_squared(roots)), start, spaced)
        plan = certified(asked, rows, start, spacing=spaced)
        stuck = plan.gap > _WORTHWHILE * best.gap and best.gap <= _GOOD
        best = min(best, plan, key=lambda each: each.gap)
        if stuck:
            break
    return best


def _squared(roots: Floats) -> Floats:
    return np.where(roots <= FREE, 0.0, roots * roots)
