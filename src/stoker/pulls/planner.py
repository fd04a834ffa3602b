"""Who is looked at today, how deep and when; who is not, and why.

One plan for any number of tenants: what looks are worth (`offers`), which of them the caps have
room for (`choosing`), and for every account one code that says why. Nothing is drawn by chance,
so the same inputs give the same plan. Each plan says how far it can be from the best there is.
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
    Accounts,
    Column,
    Limits,
    Policy,
    PullRule,
    Rows,
    Why,
    checked_together,
    days,
    in_days,
)
from stoker.pulls.offers import Offers, offered, worths
from stoker.pulls.selection import Choice, Line, choose

NOT, SHALLOW, DEEP = range(3)  # how deep, in the column of depths

MINUTES = 24 * 60

NO_SLOT = -1

_PART = 65_536  # accounts at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DayPlan:
    """What becomes of every account, and what that is based on."""

    why: NDArray[np.uint8]  # by account: a `Why`
    depth: NDArray[np.uint8]  # by account: NOT, SHALLOW or DEEP
    withheld: NDArray[np.uint8]  # by account: the `Why` of depth it would have had; FREE: none
    score: Floats32  # by account: worth of a look per unit; 0 where none was offered
    chosen: Ints  # accounts that are looked at: tenant after tenant, the best first
    price: Floats  # by tenant: worth per unit that had no room any more; 0: there was room
    reference: Floats  # by tenant: the price that offers for shared caps were measured by
    spent: Ints  # by tenant: units
    overdue: Ints  # by tenant: accounts that would wait longer than the floor
    unkept: Ints  # accounts that will: the caps have no room for them
    floor_needs: Floats  # by tenant: units that keeping the floor takes in the long run, per plan
    value: float  # what the chosen looks are worth
    bound: float  # no plan under the same caps is worth more

    @property
    def gap(self) -> float:
        """Return the share of the best there can be that this plan misses, at most."""
        return max(1.0 - self.value / self.bound, 0.0) if self.bound > 0 else 0.0


def plan_day(
    accounts: Accounts,
    limits: Limits,
    *,
    now: datetime,
    rule: PullRule,
    price: Floats | None = None,
) -> DayPlan:
    """Choose today's looks within every cap, and say of every account why or why not.

    `price` by tenant, usually an earlier plan's `reference`, is what offers for shared caps are
    measured by; without it, it is worked out first.
    """
    checked_together(accounts, limits)
    if price is not None and (np.shape(price) != (limits.tenants,) or not (price >= 0).all()):
        raise ConfigError(f"prices are one per tenant, 0 or more: {limits.tenants} of them")
    moment = in_days(now)
    offers = offered(accounts, now=moment, rule=rule)
    choice = choose(accounts, limits, offers, share=rule.share, reference=price)
    line, size = choice.line, len(accounts)
    depth = np.zeros(size, np.uint8)
    # Depth comes later in line than the look it deepens, and is in only if that is.
    places = np.flatnonzero(choice.chosen)
    np.add.at(depth, line.account[places], np.uint8(1))
    withheld = np.full(size, Why.FREE, np.uint8)
    short = _short_of_depth(accounts, limits, offers, choice)
    withheld[short] = limits.deep_why[accounts.tenant[short]]
    why = _refusals(accounts, limits, offers, choice, short)
    why[depth > 0] = Why.WORTH
    why[line.account[_out_of_turn(choice)]] = Why.FLOOR
    why[choice.depths.out_of_turn & (depth > 0)] = Why.FLOOR
    _signalled(why, accounts, choice, now=moment, rule=rule)
    late = offers.waited > 0
    value, bound = _certificate(accounts, limits, offers, choice, depth, now=moment, rule=rule)
    return DayPlan(
        why=why,
        depth=depth,
        withheld=withheld,
        score=np.where(choice.depths.offers.look > 0, choice.depths.offers.look, offers.look),
        chosen=line.account[choice.chosen & ~line.deeper],
        price=choice.price,
        reference=choice.reference,
        spent=_by_tenant(line.tenant[places], line.cost[places], limits),
        overdue=_by_tenant(accounts.tenant[late], np.ones(int(late.sum()), np.int64), limits),
        unkept=np.flatnonzero(late & (depth == NOT)),
        floor_needs=_floor_needs(accounts, limits, rule),
        value=value,
        bound=bound,
    )


def in_turn(plan: DayPlan) -> Ints:
    """Return the chosen accounts in the order they are looked at: who waited too long, the best.

    When time runs short the last are left out, and a promise is not to be among them.
    """
    late = plan.why[plan.chosen] == Why.FLOOR
    return np.concatenate([plan.chosen[late], plan.chosen[~late]])


def slots(connector: Column, chosen: Ints, per_minute: Floats) -> Ints:
    """Return the minute of the plan's day at which each chosen account's turn has come.

    The best first, as fast as each connector may be called; NO_SLOT where the day is over first.
    """
    found = np.full(len(chosen), NO_SLOT, np.int64)
    numbers = connector[chosen]
    for each in np.unique(numbers).tolist():
        line = np.flatnonzero(numbers == each)
        pace = float(per_minute[each])
        if pace > 0:
            minute = np.floor(np.arange(len(line)) / pace)
            found[line] = np.where(minute < MINUTES, minute, NO_SLOT).astype(np.int64)
    return found


def _refusals(
    accounts: Accounts, limits: Limits, offers: Offers, choice: Choice, short: Ints
) -> NDArray[np.uint8]:
    """Return why each account is not looked at, as if none was. Asked in this order, last first.

    `offers` are those of before any depth was withheld, `short` those who lack it.
    """
    why = np.full(len(accounts), Why.LOWER_VALUE, np.uint8)
    line = choice.line
    firsts = np.flatnonzero(~line.deeper)
    # Whoever offers less than the price lost to others, whatever else was full as well.
    ahead = firsts[firsts < choice.closed_at[line.tenant[firsts]]]
    why[line.account[ahead[~choice.passed_connector[ahead]]]] = Why.CAP_CONNECTOR_DAY
    why[line.account[ahead[~choice.passed_shared[ahead]]]] = Why.CAP_SHARED_DAY
    short = short[choice.depths.offers.look[short] == 0]
    why[short] = limits.deep_why[accounts.tenant[short]]
    wanted, largest = offers.look > 0, int(accounts.units.max(initial=0))
    # Who is larger than a cap is asked about only where there is a cap so small.
    if (limits.domain_cap < largest).any():
        some = wanted & (accounts.domain >= 0)
        cap = limits.domain_cap[np.where(some, accounts.domain, 0)]
        why[some & (accounts.units > cap)] = Why.CAP_SHARED_DAY
    if (limits.connector_cap < largest).any():
        cap = limits.connector_cap[accounts.tenant, accounts.connector]
        why[wanted & (accounts.units > cap)] = Why.CAP_CONNECTOR_DAY
    if (limits.budget < largest).any():
        why[wanted & (accounts.units > limits.budget[accounts.tenant])] = Why.CAP_TENANT_DAY
    why[offers.resting] = Why.FRESH_ENOUGH
    if (limits.budget == UNREADABLE).any():
        why[(limits.budget == UNREADABLE)[accounts.tenant]] = Why.BUDGET_UNREADABLE
    barred = accounts.barred != Why.FREE
    why[barred] = accounts.barred[barred]
    return why


def _short_of_depth(accounts: Accounts, limits: Limits, offers: Offers, choice: Choice) -> Ints:
    """Return who would be looked at more deeply if more looks might be deep.

    Depth that would have come behind where its tenant's money ended lost to others, as looks do.
    Where no look may be deep, whoever needs depth is short of it whatever it offers.
    """
    rows = np.flatnonzero(choice.depths.withheld)
    tenant, deeper = accounts.tenant[rows], offers.deeper[rows]
    price, closed_at = choice.price[tenant], choice.closed_at[tenant]
    closing = np.append(choice.line.account, len(accounts))[closed_at]
    ahead = (deeper > price) | ((deeper == price) & (rows < closing))
    none = (limits.deep_cap[tenant] == 0) & (choice.depths.offers.look[rows] == 0)
    found: Ints = rows[ahead | none]
    return found


def _out_of_turn(choice: Choice) -> Ints:
    """Return the places of those who are in but stand behind where their tenant's money ended."""
    places = np.flatnonzero(choice.early)
    return places[places >= choice.closed_at[choice.line.tenant[places]]]


def _signalled(
    why: NDArray[np.uint8], accounts: Accounts, choice: Choice, *, now: float, rule: PullRule
) -> None:
    """Say SIGNAL of those chosen for their worth that would not be without their signals."""
    rows = np.flatnonzero((why == Why.WORTH) & (accounts.signals > 0))
    if len(rows):
        some = accounts.rows(rows)
        silent = replace(some, signals=np.zeros(len(rows), np.float32))
        found = offered(silent, now=now, rule=rule)
        without = np.where(choice.depths.withheld[rows], found.alone, found.look)
        why[rows[without < choice.price[some.tenant]]] = Why.SIGNAL


def _certificate(
    accounts: Accounts,
    limits: Limits,
    offers: Offers,
    choice: Choice,
    depth: NDArray[np.uint8],
    *,
    now: float,
    rule: PullRule,
) -> tuple[float, float]:
    """Return what the plan is worth, and a bound on what any plan under these caps is worth.

    Whatever prices are put on caps: what every offer is worth above the price of its units, added
    to what all units together cost, is never less than any plan is worth. Offers larger than a cap
    are in no plan. The prices at which caps closed make that bound a close one.
    """
    rows = np.flatnonzero(depth)
    some = accounts.rows(rows)
    surface, deep = worths(some, np.maximum(now - some.looked, 0.0), now=now, rule=rule)
    value = float(surface.sum() + deep[depth[rows] == DEEP].sum())
    if rule.policy is not Policy.OPTIMAL:
        best = replace(rule, policy=Policy.OPTIMAL)
        offers = offered(accounts, now=now, rule=best)
        choice = choose(accounts, limits, offers, share=rule.share)
    line, wide = choice.line, limits.connector_cap.shape[1]
    bound = float((choice.price * np.maximum(limits.budget, 0)).sum())
    by_connector, by_domain = np.zeros(0), np.zeros(0)
    if wide:
        refused = np.flatnonzero(choice.passed_shared & ~choice.passed_connector)
        refused = refused[line.size[refused] <= _room(accounts, limits, line.account[refused])]
        group = line.tenant[refused] * wide + accounts.connector[line.account[refused]]
        by_connector = _closing(line, refused, group, choice, limits.connector_cap.size)
        bound += float((by_connector * limits.connector_cap.ravel())[by_connector > 0].sum())
    if len(limits.domain_cap):
        refused = np.flatnonzero(~choice.passed_shared)
        refused = refused[line.size[refused] <= _room(accounts, limits, line.account[refused])]
        group = accounts.domain[line.account[refused]].astype(np.int64)
        by_domain = _closing(line, refused, group, choice, len(limits.domain_cap))
        bound += float((by_domain * limits.domain_cap)[by_domain > 0].sum())
    by_domain = np.append(by_domain, 0.0)  # the last is what NO_DOMAIN finds

    def above(rows: Rows) -> tuple[Floats, Floats]:
        """Return what shallow looks are worth above the price of their units, and deep ones."""
        tenant, units = accounts.tenant[rows], accounts.units[rows]
        price = choice.price[tenant]
        if wide:
            price = price + by_connector[tenant * np.int64(wide) + accounts.connector[rows]]
        if len(limits.domain_cap):
            price = price + by_domain[accounts.domain[rows]]
        room, deep_units = _room(accounts, limits, rows), accounts.deep_units[rows]
        look, deeper, alone = offers.look[rows], offers.deeper[rows], offers.alone[rows]
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
    if choice.depths.withheld.any():
        refused = np.flatnonzero(choice.depths.withheld)
        shallow, deep = above(refused)
        np.maximum.at(by_depth, accounts.tenant[refused], deep - shallow)
        bound += float((by_depth * limits.deep_cap)[by_depth > 0].sum())
    for begin in range(0, len(accounts), _PART):
        part = slice(begin, begin + _PART)
        shallow, deep = above(part)
        bound += float(np.maximum(shallow, deep - by_depth[accounts.tenant[part]]).sum())
    return value, max(bound * (1 + 1e-6), value)  # scores are short floats


def _room(accounts: Accounts, limits: Limits, rows: Rows) -> Ints:
    """Return the units of the largest look that each account's caps could ever let through."""
    tenant, domain = accounts.tenant[rows], accounts.domain[rows]
    largest = np.maximum(limits.budget, 0)[tenant]
    if limits.connector_cap.shape[1]:
        capped = limits.connector_cap[tenant, accounts.connector[rows]]
        largest = np.minimum(largest, capped)
    if len(limits.domain_cap):
        capped = limits.domain_cap[np.maximum(domain, 0)]
        largest = np.where(domain >= 0, np.minimum(largest, capped), largest)
    return largest


def _closing(line: Line, refused: Ints, group: Ints, choice: Choice, groups: int) -> Floats:
    """Return the worth per unit, above its tenant's price, of the best each cap had no room for."""
    extra = np.zeros(groups)
    above = line.score[refused] - choice.price[line.tenant[refused]]
    dear = above > 0
    np.maximum.at(extra, group[dear], above[dear])
    return extra


def _floor_needs(accounts: Accounts, limits: Limits, rule: PullRule) -> Floats:
    if rule.floor is None:
        return np.zeros(limits.tenants)
    free = accounts.barred == Why.FREE
    units = _by_tenant(accounts.tenant[free], accounts.units[free], limits)
    return units.astype(np.float64) * (days(rule.tick) / days(rule.floor))


def _by_tenant(tenant: Column, number: Column, limits: Limits) -> Ints:
    found = np.bincount(tenant, weights=number, minlength=limits.tenants)
    return found.astype(np.int64)
