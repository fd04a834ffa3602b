"""What rates of looks cost and leave, and the bound that no other rates can beat.

The bound is Lagrange's: what given prices make the best of, less what is left unspent at its
price. It holds for any prices, the better they are the closer it is; so a plan's gap is proven by
the plan itself, however its prices were found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stoker.core.beliefs import Floats
from stoker.core.demand import Asked
from stoker.core.prices import CLOSED, FREE, Places, Rows, add_up, chunks
from stoker.core.spacing import Spacing

_ROUNDING = 1e-8  # of penalties, and of spending at its price: tables are off by less
_SUMS = 1e-12  # of a cap: more than sums differ by when their order does
_NEVER = 1e-200  # looks a day


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePlan:
    """How often to look at each account, what that costs and leaves, and what nobody could beat.

    A price is how much less penalty one more call a day would leave: 0 where there is more to
    spend than looks to spend it on, infinite where nothing may be spent.
    """

    rate: Floats  # looks a day, by account
    price: Floats  # by tenant
    connector_price: Floats | None  # by tenant and connector, on top of the tenant's
    shared_price: Floats | None  # by what is shared, on top of both
    spend: Floats  # calls a day, by tenant
    penalty: Floats  # by tenant: value times the penalty of its copies, averaged over time
    bound: Floats  # by tenant: no rates within its limits leave less, what is shared aside
    unused: float  # of shared caps, at their prices; it counts against the bound of all together
    kept: Floats  # by tenant: which share of its least rates there is room for

    @property
    def least_penalty(self) -> float:
        """Return the penalty that no plan within these limits goes below."""
        return float(self.bound.sum()) - self.unused

    @property
    def gap(self) -> float:
        """Return which share of the penalty a better plan could do without, at most."""
        penalty = float(self.penalty.sum())
        return max(penalty - self.least_penalty, 0.0) / penalty if penalty > 0.0 else 0.0

    @property
    def tenant_gap(self) -> Floats:
        """Return the same by tenant, what is shared aside."""
        some = self.penalty > 0.0
        more = np.maximum(self.penalty - self.bound, 0.0)
        return np.where(some, more / np.where(some, self.penalty, 1.0), 0.0)


def certified(asked: Asked, rows: Rows, own: Floats, *, spacing: Spacing) -> RatePlan:
    """Return the plan at these prices (roots, by tenant), cut where it would not fit."""
    fits = None
    if rows.other is not None:
        fits = _fitting(rows.other, asked.shared_cap, rows, own, spacing)
    wanted, spend, penalty, bound = (np.zeros(len(own)) for _ in range(4))
    by_leaf, by_shared = (np.zeros(_count(each)) for each in (rows.at_least, rows.beside))
    rate = np.empty(len(asked.value))
    for part in chunks(len(rate)):
        root, above, _ = rows.spent(own, spacing, part)
        above[root >= 0.5 * CLOSED] = 0.0
        group, least, cost = rows.group[part], rows.least_of(part), asked.cost[part]
        amounts = least + above
        rate[part] = amounts / cost
        best = left = _penalty(asked, rate, part, spacing)
        add_up(wanted, group, amounts)
        if rows.leaf is not None:
            add_up(by_leaf, rows.leaf[part], amounts)
        if rows.other is not None and fits is not None:
            add_up(by_shared, rows.other[part], amounts)
            amounts = least + above * fits[rows.other[part]]
            rate[part] = amounts / cost
            left = _penalty(asked, rate, part, spacing)
        add_up(spend, group, amounts)
        add_up(penalty, group, left)
        add_up(bound, group, best - _ROUNDING * (best + (root * root) * above))
    price = _price(own)
    bound += _unused(price, wanted, asked.budget)
    connector_price = shared_price = None
    unused = 0.0
    if asked.leaves is not None and rows.at_least is not None:
        owner = asked.leaves.owner
        held = rows.at_least > own[owner]
        extra = np.zeros(len(owner))
        extra[held] = _price(rows.at_least[held]) - price[owner[held]]
        np.add.at(bound, owner, _unused(extra, by_leaf, asked.leaves.cap))
        connector_price = extra.reshape(len(own), -1)
    if rows.beside is not None:
        shared_price = _price(np.sqrt(rows.beside))
        unused = -float(_unused(shared_price, by_shared, asked.shared_cap).sum())
    return RatePlan(
        rate=rate,
        price=price,
        connector_price=connector_price,
        shared_price=shared_price,
        spend=spend,
        penalty=penalty,
        bound=bound,
        unused=unused,
        kept=asked.kept,
    )


def _penalty(asked: Asked, rate: Floats, part: slice, spacing: Spacing) -> Floats:
    between = asked.changes[part] / np.maximum(rate[part], _NEVER)
    return asked.value[part] * spacing.penalty(between)


def _fitting(shared: Places, cap: Floats, rows: Rows, own: Floats, spacing: Spacing) -> Floats:
    """Return which share of what is asked above the least what is shared has room for.

    With prices that add up, shared caps are met only about, until the last of many turns.
    """
    above, least = np.zeros(len(cap)), np.zeros(len(cap))
    for part in chunks(len(shared)):
        add_up(above, shared[part], rows.spent(own, spacing, part)[1])
        add_up(least, shared[part], rows.least_of(part))
    left = np.maximum(cap - least, 0.0) * (1.0 - _SUMS)
    share = np.ones(len(cap))
    over = above > left
    share[over] = left[over] / above[over]
    return share


def _price(root: Floats) -> Floats:
    price = np.where(root <= FREE, 0.0, root * root)
    return np.where(root >= 0.5 * CLOSED, np.inf, price)


def _unused(price: Floats, spent: Floats, limit: Floats) -> Floats:
    """Return the price of what is over or, below 0, left; nothing where no price is set or paid."""
    counts = (price > 0.0) & (price < np.inf)
    found = np.zeros(len(price))
    found[counts] = price[counts] * (spent[counts] - limit[counts])
    return found


def _count(columns: Floats | None) -> int:
    return 0 if columns is None else len(columns)
