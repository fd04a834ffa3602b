"""Plan today's lookups: which accounts, how deep, in which order; and why not the others.

`offers` computes what lookups are worth, `selection` which of them fit the caps; every account gets
one decision code. Nothing is random, so the same inputs give the same plan. Each plan carries a
bound on how far it can be from the best one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import Floats
from stoker.pulls.capacity import Floats32, Ints
from stoker.pulls.columns import (
    UNREADABLE,
    Column,
    Decision,
    PlanAccounts,
    Policy,
    PullLimits,
    PullRule,
    Rows,
    check_limits_cover,
    to_days,
    to_epoch_days,
)
from stoker.pulls.offers import LookupOffers, compute_values, make_offers
from stoker.pulls.selection import Allocation, Ranking, allocate_budget

NOT, SHALLOW, DEEP = range(3)  # how deep, in the column of depths

_PLAN_CHUNK = 65_536  # accounts at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PullPlan:
    """The decision about every account, and what it is based on."""

    why: NDArray[np.uint8]  # by account: a `Decision`
    depth: NDArray[np.uint8]  # by account: NOT, SHALLOW or DEEP
    depth_refusal: NDArray[
        np.uint8
    ]  # by account: the `Decision` of depth it would have had; FREE: none
    score: Floats32  # by account: worth of a lookup per unit; 0 where none was offered
    chosen: Ints  # accounts that are looked up: tenant after tenant, the best first
    price: Floats  # by tenant: worth per unit that had no room any more; 0: there was room
    reference: Floats  # by tenant: the price that offers for shared caps were measured by
    spent: Ints  # by tenant: units
    overdue: Ints  # by tenant: accounts that would wait longer than the floor
    floor_missed: Ints  # accounts that will: the caps have no room for them
    floor_needs: Floats  # by tenant: units that keeping the floor takes in the long run, per plan
    value: float  # what the chosen lookups are worth
    bound: float  # no plan under the same caps is worth more

    @property
    def gap(self) -> float:
        """Return the share of the best possible value that this plan misses, at most."""
        return max(1.0 - self.value / self.bound, 0.0) if self.bound > 0 else 0.0


def plan_pulls(
    accounts: PlanAccounts,
    limits: PullLimits,
    *,
    now: datetime,
    rule: PullRule,
    price: Floats | None = None,
) -> PullPlan:
    """Choose today's lookups within every cap, and the decision about every account."""
    check_limits_cover(accounts, limits)
    if price is not None and (np.shape(price) != (limits.tenants,) or not (price >= 0).all()):
        raise ConfigError(f"prices are one per tenant, 0 or more: {limits.tenants} of them")
    moment = to_epoch_days(now)
    offers = make_offers(accounts, now=moment, rule=rule)
    choice = allocate_budget(accounts, limits, offers, share=rule.share, reference=price)
    line, size = choice.ranking, len(accounts)
    depth = np.zeros(size, np.uint8)
    # Depth comes later in line than the lookup it deepens, and is in only if that is.
    places = np.flatnonzero(choice.chosen)
    np.add.at(depth, line.account[places], np.uint8(1))
    withheld = np.full(size, Decision.FREE, np.uint8)
    short = _find_depth_short(accounts, limits, offers, choice)
    withheld[short] = limits.deep_why[accounts.tenant[short]]
    why = _find_refusals(accounts, limits, offers, choice, short)
    why[depth > 0] = Decision.WORTH
    why[line.account[_find_early(choice)]] = Decision.FLOOR
    why[choice.depths.granted_early & (depth > 0)] = Decision.FLOOR
    _mark_signal_chosen(why, accounts, choice, now=moment, rule=rule)
    late = offers.waited > 0
    value, bound = _compute_bound(accounts, limits, offers, choice, depth, now=moment, rule=rule)
    return PullPlan(
        why=why,
        depth=depth,
        depth_refusal=withheld,
        score=np.where(choice.depths.offers.look > 0, choice.depths.offers.look, offers.look),
        chosen=line.account[choice.chosen & ~line.deeper],
        price=choice.price,
        reference=choice.reference,
        spent=_sum_by_tenant(line.tenant[places], line.cost[places], limits),
        overdue=_sum_by_tenant(accounts.tenant[late], np.ones(int(late.sum()), np.int64), limits),
        floor_missed=np.flatnonzero(late & (depth == NOT)),
        floor_needs=_compute_floor_needs(accounts, limits, rule),
        value=value,
        bound=bound,
    )


def list_in_order(plan: PullPlan) -> Ints:
    """Return the chosen accounts in lookup order: overdue ones first, then by score."""
    late = plan.why[plan.chosen] == Decision.FLOOR
    return np.concatenate([plan.chosen[late], plan.chosen[~late]])


def _find_refusals(
    accounts: PlanAccounts,
    limits: PullLimits,
    offers: LookupOffers,
    choice: Allocation,
    short: Ints,
) -> NDArray[np.uint8]:
    """Return why each account is refused, as if none was chosen. The first cause wins."""
    why = np.full(len(accounts), Decision.LOWER_VALUE, np.uint8)
    line = choice.ranking
    firsts = np.flatnonzero(~line.deeper)
    # An offer below the price lost to others, whatever else was full as well.
    ahead = firsts[firsts < choice.closed_at[line.tenant[firsts]]]
    why[line.account[ahead[~choice.passed_connector[ahead]]]] = Decision.CAP_CONNECTOR_DAY
    why[line.account[ahead[~choice.passed_shared[ahead]]]] = Decision.CAP_SHARED_DAY
    short = short[choice.depths.offers.look[short] == 0]
    why[short] = limits.deep_why[accounts.tenant[short]]
    wanted, largest = offers.look > 0, int(accounts.units.max(initial=0))
    # Who is larger than a cap is asked about only where there is a cap so small.
    if (limits.domain_cap < largest).any():
        some = wanted & (accounts.domain >= 0)
        cap = limits.domain_cap[np.where(some, accounts.domain, 0)]
        why[some & (accounts.units > cap)] = Decision.CAP_SHARED_DAY
    if (limits.connector_cap < largest).any():
        cap = limits.connector_cap[accounts.tenant, accounts.connector]
        why[wanted & (accounts.units > cap)] = Decision.CAP_CONNECTOR_DAY
    if (limits.budget < largest).any():
        why[wanted & (accounts.units > limits.budget[accounts.tenant])] = Decision.CAP_TENANT_DAY
    why[offers.recent] = Decision.FRESH_ENOUGH
    if (limits.budget == UNREADABLE).any():
        why[(limits.budget == UNREADABLE)[accounts.tenant]] = Decision.BUDGET_UNREADABLE
    barred = accounts.barred != Decision.FREE
    why[barred] = accounts.barred[barred]
    return why


def _find_depth_short(
    accounts: PlanAccounts, limits: PullLimits, offers: LookupOffers, choice: Allocation
) -> Ints:
    """Return which accounts would be looked up deeper if more lookups might be deep.

    Depth that would have come after its tenant's budget ended lost to better offers. Where no
    lookup may be deep, an account that needs depth is short of it whatever it offers.
    """
    rows = np.flatnonzero(choice.depths.refused)
    tenant, deeper = accounts.tenant[rows], offers.deeper[rows]
    price, closed_at = choice.price[tenant], choice.closed_at[tenant]
    closing = np.append(choice.ranking.account, len(accounts))[closed_at]
    ahead = (deeper > price) | ((deeper == price) & (rows < closing))
    none = (limits.deep_cap[tenant] == 0) & (choice.depths.offers.look[rows] == 0)
    found: Ints = rows[ahead | none]
    return found


def _find_early(choice: Allocation) -> Ints:
    """Return the positions of chosen offers behind the end of their tenant's budget."""
    places = np.flatnonzero(choice.early)
    return places[places >= choice.closed_at[choice.ranking.tenant[places]]]


def _mark_signal_chosen(
    why: NDArray[np.uint8],
    accounts: PlanAccounts,
    choice: Allocation,
    *,
    now: float,
    rule: PullRule,
) -> None:
    """Mark with SIGNAL the accounts that would not be chosen without their signals."""
    rows = np.flatnonzero((why == Decision.WORTH) & (accounts.signals > 0))
    if len(rows):
        some = accounts.select_rows(rows)
        silent = replace(some, signals=np.zeros(len(rows), np.float32))
        offers = make_offers(silent, now=now, rule=rule)
        without = np.where(choice.depths.refused[rows], offers.shallow_only, offers.look)
        why[rows[without < choice.price[some.tenant]]] = Decision.SIGNAL


def _compute_bound(
    accounts: PlanAccounts,
    limits: PullLimits,
    offers: LookupOffers,
    choice: Allocation,
    depth: NDArray[np.uint8],
    *,
    now: float,
    rule: PullRule,
) -> tuple[float, float]:
    """Return the plan's value, and a bound on the value of any plan under these caps."""
    rows = np.flatnonzero(depth)
    some = accounts.select_rows(rows)
    surface, deep = compute_values(some, np.maximum(now - some.looked, 0.0), now=now, rule=rule)
    value = float(surface.sum() + deep[depth[rows] == DEEP].sum())
    if rule.policy is not Policy.OPTIMAL:
        best = replace(rule, policy=Policy.OPTIMAL)
        offers = make_offers(accounts, now=now, rule=best)
        choice = allocate_budget(accounts, limits, offers, share=rule.share)
    line, wide = choice.ranking, limits.connector_cap.shape[1]
    bound = float((choice.price * np.maximum(limits.budget, 0)).sum())
    by_connector, by_domain = np.zeros(0), np.zeros(0)
    if wide:
        refused = np.flatnonzero(choice.passed_shared & ~choice.passed_connector)
        refused = refused[
            line.size[refused] <= _compute_max_units(accounts, limits, line.account[refused])
        ]
        group = line.tenant[refused] * wide + accounts.connector[line.account[refused]]
        by_connector = _compute_closing_values(
            line, refused, group, choice, limits.connector_cap.size
        )
        bound += float((by_connector * limits.connector_cap.ravel())[by_connector > 0].sum())
    if len(limits.domain_cap):
        refused = np.flatnonzero(~choice.passed_shared)
        refused = refused[
            line.size[refused] <= _compute_max_units(accounts, limits, line.account[refused])
        ]
        group = accounts.domain[line.account[refused]].astype(np.int64)
        by_domain = _compute_closing_values(line, refused, group, choice, len(limits.domain_cap))
        bound += float((by_domain * limits.domain_cap)[by_domain > 0].sum())
    by_domain = np.append(by_domain, 0.0)  # the last is what NO_DOMAIN finds

    def above(rows: Rows) -> tuple[Floats, Floats]:
        """Return the value of shallow and of deep lookups above the price of their units."""
        tenant, units = accounts.tenant[rows], accounts.units[rows]
        price = choice.price[tenant]
        if wide:
            price = price + by_connector[tenant * np.int64(wide) + accounts.connector[rows]]
        if len(limits.domain_cap):
            price = price + by_domain[accounts.domain[rows]]
        room, deep_units = _compute_max_units(accounts, limits, rows), accounts.deep_units[rows]
        look, deeper, alone = offers.look[rows], offers.deeper[rows], offers.shallow_only[rows]
        lone = units <= room
        if (
            rule.policy is Policy.OPTIMAL
        ):  # the table makes shallow looks for the price of deep ones
            lone &= (units < deep_units) | (deeper == 0)
        shallow = np.where(lone, np.maximum(alone - price, 0.0) * units, 0.0)
        both = (look - price) * units + (deeper - price) * (deep_units - units)
        return shallow, np.where((deeper > 0) & (deep_units <= room), np.maximum(both, 0.0), 0.0)

    # Depth has a price of its own where it was withheld: what the best of those would have gained.
    by_depth = np.zeros(limits.tenants)
    if choice.depths.refused.any():
        refused = np.flatnonzero(choice.depths.refused)
        shallow, deep = above(refused)
        np.maximum.at(by_depth, accounts.tenant[refused], deep - shallow)
        bound += float((by_depth * limits.deep_cap)[by_depth > 0].sum())
    for begin in range(0, len(accounts), _PLAN_CHUNK):
        part = slice(begin, begin + _PLAN_CHUNK)
        shallow, deep = above(part)
        bound += float(np.maximum(shallow, deep - by_depth[accounts.tenant[part]]).sum())
    return value, max(bound * (1 + 1e-6), value)  # scores are short floats


def _compute_max_units(accounts: PlanAccounts, limits: PullLimits, rows: Rows) -> Ints:
    """Return the units of the largest lookup that each account's caps could ever allow."""
    tenant, domain = accounts.tenant[rows], accounts.domain[rows]
    largest = np.maximum(limits.budget, 0)[tenant]
    if limits.connector_cap.shape[1]:
        capped = limits.connector_cap[tenant, accounts.connector[rows]]
        largest = np.minimum(largest, capped)
    if len(limits.domain_cap):
        capped = limits.domain_cap[np.maximum(domain, 0)]
        largest = np.where(domain >= 0, np.minimum(largest, capped), largest)
    return largest


def _compute_closing_values(
    line: Ranking, refused: Ints, group: Ints, choice: Allocation, groups: int
) -> Floats:
    """Return the value per unit, above its tenant's price, of the best offer each cap refused."""
    extra = np.zeros(groups)
    above = line.score[refused] - choice.price[line.tenant[refused]]
    dear = above > 0
    np.maximum.at(extra, group[dear], above[dear])
    return extra


def _compute_floor_needs(accounts: PlanAccounts, limits: PullLimits, rule: PullRule) -> Floats:
    if rule.floor is None:
        return np.zeros(limits.tenants)
    free = accounts.barred == Decision.FREE
    units = _sum_by_tenant(accounts.tenant[free], accounts.units[free], limits)
    return units.astype(np.float64) * (to_days(rule.tick) / to_days(rule.floor))


def _sum_by_tenant(tenant: Column, number: Column, limits: PullLimits) -> Ints:
    sums = np.bincount(tenant, weights=number, minlength=limits.tenants)
    return sums.astype(np.int64)
