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

from stoker.heat.beliefs import Floats
from stoker.pulls.columns import (
    NO_CAP,
    UNREADABLE,
    Decision,
    Floats32,
    Ints,
    PlanAccounts,
    PullLimits,
    Rows,
    to_days,
    to_epoch_days,
)
from stoker.pulls.offers import LookupOffers, compute_values, make_offers
from stoker.pulls.selection import Allocation, allocate_budget
from stoker.pulls.settings import Policy, PullRule

NOT, SHALLOW, DEEP = range(3)  # how deep, in the column of depths

_PLAN_CHUNK = 65_536  # accounts at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PullPlan:
    """The decision about every account, and what it is based on."""

    why: NDArray[np.uint8]  # by account: a `Decision`
    depth: NDArray[np.uint8]  # by account: NOT, SHALLOW or DEEP
    depth_refusal: NDArray[np.uint8]  # the `Decision` of depth it would have had; FREE: none
    score: Floats32  # by account: worth of a lookup per unit; 0 where none was offered
    chosen: Ints  # accounts that are looked up, the best first
    price: float  # worth per unit that had no room any more; 0: there was room
    reference: float  # the price, or where there was room for all the lowest chosen offer
    spent: int  # units
    overdue: int  # accounts that would wait longer than the floor
    floor_missed: Ints  # accounts that will: the caps have no room for them
    floor_needs: float  # units that keeping the floor takes in the long run, per plan
    value: float  # what the chosen lookups are worth
    bound: float  # no plan under the same caps is worth more

    @property
    def gap(self) -> float:
        """Return the share of the best possible value that this plan misses, at most."""
        return max(1.0 - self.value / self.bound, 0.0) if self.bound > 0 else 0.0


def plan_pulls(
    accounts: PlanAccounts, limits: PullLimits, *, now: datetime, rule: PullRule
) -> PullPlan:
    """Choose today's lookups within every cap, and the decision about every account."""
    moment = to_epoch_days(now)
    offers = make_offers(accounts, now=moment, rule=rule)
    choice = allocate_budget(accounts, limits, offers, share=rule.share)
    ranking, size = choice.ranking, len(accounts)
    places = np.flatnonzero(choice.chosen)
    depth = np.zeros(size, np.uint8)
    # Depth ranks behind the lookup it deepens, and is chosen only if that is.
    np.add.at(depth, ranking.account[places], np.uint8(1))
    short = _find_depth_short(accounts, limits, offers, choice)
    withheld = np.full(size, Decision.FREE, np.uint8)
    withheld[short] = limits.deep_why
    why = _find_refusals(accounts, limits, offers, choice, short)
    why[depth > 0] = Decision.WORTH
    early = np.flatnonzero(choice.early)
    why[ranking.account[early[early >= choice.closed_at]]] = Decision.FLOOR
    why[choice.depths.granted_early & (depth > 0)] = Decision.FLOOR
    _mark_signal_chosen(why, accounts, choice, now=moment, rule=rule)
    late = offers.waited > 0
    lowest = float(ranking.score[places[-1]]) if len(places) else 0.0
    value, bound = _compute_bound(accounts, limits, offers, choice, depth, now=moment, rule=rule)
    return PullPlan(
        why=why,
        depth=depth,
        depth_refusal=withheld,
        score=np.where(choice.depths.offers.look > 0, choice.depths.offers.look, offers.look),
        chosen=ranking.account[choice.chosen & ~ranking.deeper],
        price=choice.price,
        reference=choice.price or lowest,
        spent=int(ranking.queue.cost[places].sum()),
        overdue=int(late.sum()),
        floor_missed=np.flatnonzero(late & (depth == NOT)),
        floor_needs=_compute_floor_needs(accounts, rule),
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
    # An offer below the price lost to others, whatever else was full as well.
    ahead = slice(0, choice.closed_at)
    full = ~choice.passed_connector[ahead] & ~choice.ranking.deeper[ahead]
    why[choice.ranking.account[ahead][full]] = Decision.CAP_CONNECTOR_DAY
    why[short[choice.depths.offers.look[short] == 0]] = limits.deep_why
    wanted = offers.look > 0
    why[wanted & (accounts.units > limits.connector_cap)] = Decision.CAP_CONNECTOR_DAY
    why[wanted & (accounts.units > limits.budget)] = Decision.CAP_TENANT_DAY
    why[offers.recent] = Decision.FRESH_ENOUGH
    if limits.budget == UNREADABLE:
        why[:] = Decision.BUDGET_UNREADABLE
    barred = accounts.barred != Decision.FREE
    why[barred] = accounts.barred[barred]
    return why


def _find_depth_short(
    accounts: PlanAccounts, limits: PullLimits, offers: LookupOffers, choice: Allocation
) -> Ints:
    """Return which accounts would be looked up deeper if more lookups might be deep.

    Depth that would have come after the budget ended lost to better offers. Where no lookup may be
    deep, an account that needs depth is short of it whatever it offers.
    """
    rows = np.flatnonzero(choice.depths.refused)
    deeper = offers.deeper[rows]
    short = deeper > choice.price
    if choice.closed_at < len(choice.ranking):
        short |= (deeper == choice.price) & (rows < choice.ranking.account[choice.closed_at])
    else:
        short |= deeper == choice.price
    if limits.deep_cap == 0:
        short |= choice.depths.offers.look[rows] == 0
    return rows[short]


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
        why[rows[without < choice.price]] = Decision.SIGNAL


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
    """Return the plan's value, and a bound on the value of any plan under these caps.

    By Lagrange's duality: what the caps' units and deep lookups are worth at their prices, and what
    each account's best lookup is worth above the price of its units.
    """
    rows = np.flatnonzero(depth)
    some = accounts.select_rows(rows)
    surface, deep = compute_values(some, np.maximum(now - some.looked, 0.0), now=now, rule=rule)
    value = float(surface.sum() + deep[depth[rows] == DEEP].sum())
    if rule.policy is not Policy.OPTIMAL:
        offers = make_offers(accounts, now=now, rule=replace(rule, policy=Policy.OPTIMAL))
        choice = allocate_budget(accounts, limits, offers, share=rule.share)
    largest = min(max(limits.budget, 0), limits.connector_cap)  # lookup that fits at all
    connector_price = _compute_connector_price(choice, limits, largest)
    price = np.float64(choice.price + connector_price)
    bound = choice.price * max(limits.budget, 0)
    if connector_price > 0:
        bound += connector_price * limits.connector_cap

    def compute_surplus(rows: Rows) -> tuple[Floats, Floats]:
        """Return the value of shallow and of deep lookups above the price of their units."""
        units, deep_units = accounts.units[rows], accounts.deep_units[rows]
        look, deeper = offers.look[rows], offers.deeper[rows]
        alone = units <= largest
        if rule.policy is Policy.OPTIMAL:  # tiers make shallow looks for the price of deep ones
            alone &= (units < deep_units) | (deeper == 0)
        shallow = np.maximum(offers.shallow_only[rows] - price, 0.0) * units
        both = (look - price) * units + (deeper - price) * (deep_units - units)
        fits = (deeper > 0) & (deep_units <= largest)
        return np.where(alone, shallow, 0.0), np.where(fits, np.maximum(both, 0.0), 0.0)

    # Depth has a price of its own where it was refused: what the best of those would have gained.
    deep_price = 0.0
    if limits.deep_cap is not None and choice.depths.refused.any():
        shallow, deep = compute_surplus(np.flatnonzero(choice.depths.refused))
        deep_price = max(float((deep - shallow).max()), 0.0)
        bound += deep_price * limits.deep_cap
    for begin in range(0, len(accounts), _PLAN_CHUNK):
        shallow, deep = compute_surplus(slice(begin, begin + _PLAN_CHUNK))
        bound += float(np.maximum(shallow, deep - deep_price).sum())
    return value, max(bound * (1 + 1e-6), value)  # scores are short floats


def _compute_connector_price(choice: Allocation, limits: PullLimits, largest: int) -> float:
    """Return the value per unit, above the price, of the best offer the connector's cap refused."""
    if limits.connector_cap >= NO_CAP:
        return 0.0
    refused = ~choice.passed_connector & (choice.ranking.queue.size <= largest)
    best = float(choice.ranking.score[refused].max(initial=0.0))
    return max(best - choice.price, 0.0)


def _compute_floor_needs(accounts: PlanAccounts, rule: PullRule) -> float:
    if rule.floor is None:
        return 0.0
    units = int(accounts.units[accounts.barred == Decision.FREE].sum())
    return units * (to_days(rule.tick) / to_days(rule.floor))
