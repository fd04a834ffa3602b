"""Compute how often each account should be looked up, given its change rate and the budget.

At the best rates the last call spent on every account buys the same: one price per tenant, higher
where a tenant's cap with a connector is tight, plus a price for what tenants share. Every plan
carries Lagrange's bound: what the given prices make the best of, less what is left unspent at its
price. It holds for any prices, so a plan proves its own gap, however its prices were found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stoker.heat.beliefs import Floats, validate_column
from stoker.pulls.rate_problem import RateDemand, RateLimits, RateProblem, validate_problem
from stoker.pulls.shadow_prices import (
    MAX_ROOT,
    MIN_ROOT,
    GroupIds,
    PriceRows,
    add_to_groups,
    find_price_roots,
    iterate_chunks,
)
from stoker.pulls.spacing import LookupSpacing, get_spacing
from stoker.pulls.worth import Objective

_FIT_ROUNDING = 1e-8  # of penalties, and of spending at its price: tables are off by less

_PLAN_SUM_TOLERANCE = 1e-12  # of a cap: more than sums differ by when their order does

_MIN_LOOKUP_RATE = 1e-200  # lookups a day


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePlan:
    """How often to look up each account, the cost, the penalty left, and the bound.

    A price is how much less penalty one more call a day would leave: 0 where the budget exceeds all
    useful lookups, infinite where nothing may be spent.
    """

    rate: Floats  # lookups a day, by account
    price: Floats  # by tenant
    connector_price: Floats | None  # by tenant and connector, on top of the tenant's
    shared_price: Floats | None  # by what is shared, on top of both
    spend: Floats  # calls a day, by tenant
    penalty: Floats  # by tenant: value times the penalty of its copies, averaged over time
    bound: Floats  # by tenant: no rates within its limits leave less, what is shared aside
    unused: float  # of shared caps, at their prices; it counts against the bound of all together
    met_share: Floats  # by tenant: which share of its least rates there is room for

    @property
    def least_penalty(self) -> float:
        """Return the penalty that no plan within these limits can go below."""
        return float(self.bound.sum()) - self.unused

    @property
    def gap(self) -> float:
        """Return the share of the penalty that a better plan could avoid, at most."""
        penalty = float(self.penalty.sum())
        return max(penalty - self.least_penalty, 0.0) / penalty if penalty > 0.0 else 0.0

    @property
    def tenant_gap(self) -> Floats:
        """Return the same by tenant, what is shared aside."""
        some = self.penalty > 0.0
        more = np.maximum(self.penalty - self.bound, 0.0)
        return np.where(some, more / np.where(some, self.penalty, 1.0), 0.0)


def build_rate_plan(
    asked: RateProblem, rows: PriceRows, own: Floats, *, spacing: LookupSpacing
) -> RatePlan:
    """Return the plan at these prices (roots, by tenant), cut where it would not fit."""
    fits = None
    if rows.other is not None:
        fits = _compute_fitting_share(rows.other, asked.shared_cap, rows, own, spacing)
    wanted, spend, penalty, bound = (np.zeros(len(own)) for _ in range(4))
    by_leaf, by_shared = (np.zeros(_count_groups(each)) for each in (rows.at_least, rows.beside))
    rate = np.empty(len(asked.value))
    for part in iterate_chunks(len(rate)):
        root, above, _ = rows.compute_spending(own, spacing, part)
        above[root >= 0.5 * MAX_ROOT] = 0.0
        group, least, cost = rows.group[part], rows.compute_minimum(part), asked.cost[part]
        amounts = least + above
        rate[part] = amounts / cost
        best = left = _compute_penalty(asked, rate, part, spacing)
        add_to_groups(wanted, group, amounts)
        if rows.leaf is not None:
            add_to_groups(by_leaf, rows.leaf[part], amounts)
        if rows.other is not None and fits is not None:
            add_to_groups(by_shared, rows.other[part], amounts)
            amounts = least + above * fits[rows.other[part]]
            rate[part] = amounts / cost
            left = _compute_penalty(asked, rate, part, spacing)
        add_to_groups(spend, group, amounts)
        add_to_groups(penalty, group, left)
        add_to_groups(bound, group, best - _FIT_ROUNDING * (best + (root * root) * above))
    price = _to_price(own)
    bound += _compute_unused(price, wanted, asked.budget)
    connector_price = shared_price = None
    unused = 0.0
    if asked.connector_groups is not None and rows.at_least is not None:
        owner = asked.connector_groups.owner
        held = rows.at_least > own[owner]
        extra = np.zeros(len(owner))
        extra[held] = _to_price(rows.at_least[held]) - price[owner[held]]
        np.add.at(bound, owner, _compute_unused(extra, by_leaf, asked.connector_groups.cap))
        connector_price = extra.reshape(len(own), -1)
    if rows.beside is not None:
        shared_price = _to_price(np.sqrt(rows.beside))
        unused = -float(_compute_unused(shared_price, by_shared, asked.shared_cap).sum())
    return RatePlan(
        rate=rate,
        price=price,
        connector_price=connector_price,
        shared_price=shared_price,
        spend=spend,
        penalty=penalty,
        bound=bound,
        unused=unused,
        met_share=asked.met_share,
    )


def _compute_penalty(
    asked: RateProblem, rate: Floats, part: slice, spacing: LookupSpacing
) -> Floats:
    between = asked.changes[part] / np.maximum(rate[part], _MIN_LOOKUP_RATE)
    return asked.value[part] * spacing.compute_penalty(between)


def _compute_fitting_share(
    shared: GroupIds, cap: Floats, rows: PriceRows, own: Floats, spacing: LookupSpacing
) -> Floats:
    """Return which share of what is asked above the least what is shared has room for.

    With prices that add up, shared caps are met only about, until the last of many turns.
    """
    above, least = np.zeros(len(cap)), np.zeros(len(cap))
    for part in iterate_chunks(len(shared)):
        add_to_groups(above, shared[part], rows.compute_spending(own, spacing, part)[1])
        add_to_groups(least, shared[part], rows.compute_minimum(part))
    left = np.maximum(cap - least, 0.0) * (1.0 - _PLAN_SUM_TOLERANCE)
    share = np.ones(len(cap))
    over = above > left
    share[over] = left[over] / above[over]
    return share


def _to_price(root: Floats) -> Floats:
    price = np.where(root <= MIN_ROOT, 0.0, root * root)
    return np.where(root >= 0.5 * MAX_ROOT, np.inf, price)


def _compute_unused(price: Floats, spent: Floats, limit: Floats) -> Floats:
    """Return the price of what is over or, below 0, left; nothing where no price is set or paid."""
    counts = (price > 0.0) & (price < np.inf)
    unused = np.zeros(len(price))
    unused[counts] = price[counts] * (spent[counts] - limit[counts])
    return unused


def _count_groups(columns: Floats | None) -> int:
    return 0 if columns is None else len(columns)


_MAX_SWEEPS = 60  # between tenants' prices and those of what they share

_TARGET_GAP, _ACCEPTED_GAP = (
    1e-6,
    2e-5,
)  # gaps: one to stop at, one to stop at when turns bring no more

_MIN_PROGRESS = 0.95  # of the gap before


def compute_rate_plan(
    demand: RateDemand,
    limits: RateLimits,
    *,
    objective: Objective = Objective.HARMONIC,
    price0: Floats | None = None,
) -> RatePlan:
    """Return the rates that leave the least penalty within the limits, none of them exceeded.

    `price0` are prices by tenant from an earlier plan: they save time and move nothing by more
    than the plan's gap. Least rates that a limit has no room for are cut, all under that limit by
    the same share.
    """
    asked, spaced = validate_problem(demand, limits), get_spacing(objective)
    start = None
    if price0 is not None:
        start = np.sqrt(
            np.minimum(validate_column(price0, what="a price", most=np.inf), MAX_ROOT**2)
        )
    if asked.shared is None:
        rows, own = _find_tenant_roots(asked, asked.rows, start, spaced)
        return build_rate_plan(asked, rows, own, spacing=spaced)
    return _plan_shared(asked, asked.shared, start, spaced)


def _find_tenant_roots(
    asked: RateProblem, rows: PriceRows, start: Floats | None, spaced: LookupSpacing
) -> tuple[PriceRows, Floats]:
    """Return the roots of tenants' prices, and rows that know those of their leaves."""
    if asked.connector_groups is not None:
        # What a connector's accounts cost when its cap is just met: they never cost less.
        leaf = asked.connector_groups.leaf
        alone = replace(rows, group=leaf, leaf=None, at_least=None)
        roots = find_price_roots(
            alone, asked.connector_groups.cap, spacing=spaced, start=rows.at_least
        )
        rows = replace(rows, leaf=leaf, at_least=roots)
    return rows, find_price_roots(rows, asked.budget, spacing=spaced, start=start)


def _plan_shared(
    asked: RateProblem, shared: GroupIds, start: Floats | None, spaced: LookupSpacing
) -> RatePlan:
    # Tenants' prices and those of what they share, in turn, each exact given the others. That
    # only ever raises the bound, and it is over when the bound says so.
    rows = replace(asked.rows, other=shared, beside=np.zeros(len(asked.shared_cap)))
    roots: Floats | None = None
    rows, start = _find_tenant_roots(asked, rows, start, spaced)
    best = build_rate_plan(asked, rows, start, spacing=spaced)
    for _ in range(_MAX_SWEEPS):
        if best.gap <= _TARGET_GAP:
            break
        other, ground = rows.group, start
        if asked.connector_groups is not None and rows.at_least is not None:
            other = asked.connector_groups.leaf
            ground = np.maximum(start[asked.connector_groups.owner], rows.at_least)
        theirs = replace(asked.rows, group=shared, other=other, beside=_to_prices(ground))
        roots = find_price_roots(theirs, asked.shared_cap, spacing=spaced, start=roots)
        # Tenants last: with few accounts each, they are the ones that rates are hard to fit to.
        rows, start = _find_tenant_roots(
            asked, replace(rows, beside=_to_prices(roots)), start, spaced
        )
        plan = build_rate_plan(asked, rows, start, spacing=spaced)
        stuck = plan.gap > _MIN_PROGRESS * best.gap and best.gap <= _ACCEPTED_GAP
        best = min(best, plan, key=lambda each: each.gap)
        if stuck:
            break
    return best


def _to_prices(roots: Floats) -> Floats:
    return np.where(roots <= MIN_ROOT, 0.0, roots * roots)
