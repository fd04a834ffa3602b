"""Plan today's lookups: which accounts, how deep, in which order; and why not the others.

Under every cap (deep lookups, the connector's units, the budget) the best offers come first. Offers
larger than the cap are dropped. Those that waited too long then go in order of waiting until they
have used their share of the cap. The rest go by score, up to the first that does not fit. So a
smaller offer never passes a better one, and the smallest cap under which an offer fits is exact. An
offer that one cap accepted is never put back by the next, so no cap is exceeded.

Every account gets one decision code. Nothing is random, so the same inputs give the same plan. Each
plan carries a bound on how far it can be from the best one.
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
    Flags,
    Floats32,
    Ints,
    PlanAccounts,
    PullLimits,
    Rows,
    to_days,
    to_epoch_days,
)
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.worth import LookupOffers, compute_worth, make_offers

Keys = NDArray[np.uint64]

_THOUSANDTHS = 1000
_LOW_BITS = np.uint64(0xFFFFFFFF)
_WORD_BITS = np.uint64(32)

NOT, SHALLOW, DEEP = range(3)  # how deep, in the column of depths

_PLAN_CHUNK = 65_536  # accounts at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OfferQueue:
    """Offers under one cap, best first."""

    cost: Ints
    size: Ints  # what has to fit under the cap at all: the whole lookup an offer is a part of
    waited: Floats32 | None = None  # days, of those who waited too long; 0 for others
    share: int = 0  # thousandths of a cap that these may take out of turn
    owed: int = 0  # thousandths of a unit that they may take besides

    def list_by_wait(self, small: Flags) -> Ints:
        """Return the positions of small offers that waited too long, the longest first."""
        if not self.share or self.waited is None:
            return np.zeros(0, np.int64)
        places = np.flatnonzero(small & (self.waited > 0))
        return get_ids(np.sort(build_sort_keys(self.waited[places], places)))


def build_sort_keys(score: Floats32, ids: Ints) -> Keys:
    """Return numbers that sort the highest score first, equal ones by id. Scores are above 0."""
    falling = ~np.ascontiguousarray(score).view(np.uint32)
    return (falling.astype(np.uint64) << _WORD_BITS) | ids.astype(np.uint64)


def get_ids(sorted_keys: Keys) -> Ints:
    return (sorted_keys & _LOW_BITS).astype(np.int64)


def get_scores(sorted_keys: Keys) -> Floats32:
    return (~(sorted_keys >> _WORD_BITS).astype(np.uint32)).view(np.float32)


def fill_cap(queue: OfferQueue, cap: int) -> tuple[Flags, Flags]:
    """Return which offers fit, and which of these fit through the share of the longest waiting."""
    small = queue.size <= cap
    early = np.zeros(len(small), np.bool_)
    line = queue.list_by_wait(small)
    if len(line):
        used = np.cumsum(queue.cost[line], dtype=np.int64)
        early[line[(used * _THOUSANDTHS <= cap * queue.share + queue.owed) & (used <= cap)]] = True
        cap -= int(queue.cost[early].sum())
        small &= ~early
    used = np.cumsum(np.where(small, queue.cost, 0), dtype=np.int64)
    return early | (small & (used <= cap)), early


def find_smallest_cap(queue: OfferQueue, place: int, *, least: int = 0) -> int:
    """Return the smallest cap, from `least` on, under which the offer at this position fits."""
    own = int(queue.size[place])
    begins = [own, *(int(each) for each in np.unique(queue.size) if each > own)]
    ends = [*begins[1:], NO_CAP + 1]
    for low, high in zip(begins, ends, strict=True):
        smallest = _find_cap_between(queue, place, max(low, least), high) if high > least else None
        if smallest is not None:
            return smallest
    return NO_CAP


def _find_cap_between(queue: OfferQueue, place: int, low: int, high: int) -> int | None:
    """Return the smallest cap from low to high that works; the same offers count in this range."""
    small = queue.size <= low
    ahead = int(queue.cost[: place + 1][small[: place + 1]].sum())
    line = queue.list_by_wait(small)
    starts, needs = np.array([low]), np.array([ahead])
    if len(line):
        # The share grows with the cap: from each of these on, one more of them counts.
        used = np.cumsum(queue.cost[line], dtype=np.int64)
        reached = np.maximum(-((queue.owed - used * _THOUSANDTHS) // queue.share), used)
        behind = np.cumsum(np.where(line > place, queue.cost[line], 0), dtype=np.int64)
        own = np.flatnonzero(line == place)
        if len(own):
            reached, behind = reached[: own[0] + 1], behind[: own[0] + 1]
            behind[-1] = -ahead  # from here on it is in, whatever it costs
        starts = np.concatenate([starts, np.maximum(reached, low)])
        needs = np.concatenate([needs, ahead + behind])
    ends = np.append(starts[1:], high)
    caps = np.maximum(starts, needs)
    good = (caps < ends) & (caps < high)
    return int(caps[good].min()) if good.any() else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeepQuota:
    """The offers once only so many lookups may be deep. Flags are by account."""

    offers: LookupOffers
    refused: Flags  # it wanted depth, and gets none
    granted_early: Flags  # it gets depth before better ones, as it had waited too long


def apply_deep_quota(
    accounts: PlanAccounts, limits: PullLimits, offers: LookupOffers, *, share: int
) -> DeepQuota:
    """Return which accounts may be looked up deeply, and the offers then.

    An account that gets no depth offers a shallow lookup, or none where that costs as much.
    """
    refused, early = np.zeros(len(accounts), np.bool_), np.zeros(len(accounts), np.bool_)
    if limits.deep_cap is None or np.count_nonzero(offers.deeper > 0) <= limits.deep_cap:
        return DeepQuota(offers=offers, refused=refused, granted_early=early)
    order, queue = build_depth_queue(accounts, offers, share)
    fits, out_of_turn = fill_cap(queue, limits.deep_cap)
    refused[order[~fits]] = True
    out_of_turn[: int(np.argmin(fits))] = False  # ahead of the first refusal it was their turn
    early[order[out_of_turn]] = True
    shallow = np.where(find_deep_only(accounts, offers), np.float32(0), offers.shallow_only)
    look = np.where(refused, shallow, offers.look)
    left = replace(
        offers,
        look=look,
        deeper=np.where(refused, np.float32(0), offers.deeper),
        waited=np.where(look > 0, offers.waited, np.float32(0)),
    )
    return DeepQuota(offers=left, refused=refused, granted_early=early)


def build_depth_queue(
    accounts: PlanAccounts, offers: LookupOffers, share: int
) -> tuple[Ints, OfferQueue]:
    """Return the accounts that offer depth, in the order in which they are given it."""
    rows = np.flatnonzero(offers.deeper > 0)
    order = get_ids(np.sort(build_sort_keys(offers.deeper[rows], rows)))
    one = np.ones(len(order), np.int64)
    # A lookup that can do without depth is made in its turn anyway, however long it waited.
    needed = find_deep_only(accounts, offers)[order]
    waited = np.where(needed, offers.waited[order], np.float32(0))
    return order, OfferQueue(cost=one, size=one, waited=waited, share=share)


def find_deep_only(accounts: PlanAccounts, offers: LookupOffers) -> Flags:
    """Return which accounts take a deep lookup or none, because a shallow one costs as much."""
    found: Flags = (accounts.units == accounts.deep_units) & (offers.deeper > 0)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """Every offer of a plan, best first; at most two per account."""

    account: Ints
    deeper: Flags  # more depth for an account that stands further ahead
    score: Floats32
    queue: OfferQueue  # the same offers, as caps consider them

    def __len__(self) -> int:
        return len(self.account)


def rank_offers(
    accounts: PlanAccounts, limits: PullLimits, offers: LookupOffers, *, share: int
) -> Ranking:
    """Return all offers in the order they are considered; none where nothing may be spent."""
    may_spend = limits.budget > 0 and limits.connector_cap > 0
    wanted = np.zeros((len(accounts), 2), np.bool_)
    if may_spend:
        wanted[:, 0] = offers.look > 0
        wanted[:, 1] = wanted[:, 0] & (offers.deeper > 0)
    scores = np.stack([offers.look, offers.deeper], axis=1)
    ids = np.flatnonzero(wanted)
    keys = build_sort_keys(scores.ravel()[ids], ids)
    keys.sort()
    ids = get_ids(keys)
    account, deeper = ids >> 1, (ids & 1).astype(np.bool_)
    units = accounts.units[account]
    whole = np.where(deeper, accounts.deep_units[account], units)
    waited = None
    if offers.waited.any():
        waited = np.where(deeper, np.float32(0), offers.waited[account])
    queue = OfferQueue(
        cost=np.where(deeper, whole - units, units),
        size=whole,
        waited=waited,
        share=share,
        owed=limits.owed,
    )
    return Ranking(account=account, deeper=deeper, score=get_scores(keys), queue=queue)


def build_budget_queue(ranking: Ranking, places: Ints, granted: Flags) -> OfferQueue:
    """Return these ranks as the budget considers them.

    Only offers that the connector's cap accepted early may come early here.
    """
    queue, waited = ranking.queue, ranking.queue.waited
    if waited is not None:
        waited = np.where(granted[places], waited[places], np.float32(0))
    return replace(queue, cost=queue.cost[places], size=queue.size[places], waited=waited)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """Which offers fit everywhere, and where the others failed."""

    ranking: Ranking
    depths: DeepQuota  # who may be looked up deeply, and the offers as they were ranked
    passed_connector: Flags  # by rank
    chosen: Flags
    early: Flags  # chosen out of turn, as it had waited too long
    closed_at: int  # the first rank the budget had no room for, or how many there are
    price: float  # what that rank offered per unit; 0 where there was room for all


def allocate_budget(
    accounts: PlanAccounts, limits: PullLimits, offers: LookupOffers, *, share: int
) -> Allocation:
    """Return which offers fit; the floor takes at most so many thousandths of each cap."""
    depths = apply_deep_quota(accounts, limits, offers, share=share)
    ranking = rank_offers(accounts, limits, depths.offers, share=share)
    passed, granted = fill_connector_cap(ranking, limits.connector_cap)
    places = np.flatnonzero(passed)
    queue, budget = build_budget_queue(ranking, places, granted), max(limits.budget, 0)
    fits, out_of_turn = fill_cap(queue, budget)
    chosen, early = np.zeros(len(ranking), np.bool_), np.zeros(len(ranking), np.bool_)
    chosen[places], early[places] = fits, out_of_turn
    refused = places[~fits & (queue.size <= budget)]
    return Allocation(
        ranking=ranking,
        depths=depths,
        passed_connector=passed,
        chosen=chosen,
        early=early,
        closed_at=int(refused[0]) if len(refused) else len(ranking),
        price=float(ranking.score[refused[0]]) if len(refused) else 0.0,
    )


def fill_connector_cap(ranking: Ranking, cap: int) -> tuple[Flags, Flags]:
    """Return which ranks pass the connector's cap, and which of them may come early later on."""
    if cap >= NO_CAP:
        everyone = np.ones(len(ranking), np.bool_)
        return everyone, everyone
    return fill_cap(ranking.queue, cap)


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
    owed: int  # thousandths of a unit that overdue accounts are owed after it
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
        owed=_compute_owed(accounts, limits, choice, late, share=rule.share),
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
    surface, deep = compute_worth(some, *some.compute_ages(now), rule=rule)
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


def _compute_owed(
    accounts: PlanAccounts, limits: PullLimits, choice: Allocation, late: Flags, *, share: int
) -> int:
    """Return what the floor's share leaves for later plans, at most what all overdue ones cost."""
    owed = limits.owed + share * max(limits.budget, 0)
    taken = int(choice.ranking.queue.cost[choice.early].sum())
    return max(min(owed, int(accounts.units[late].sum()) * _THOUSANDTHS) - taken * _THOUSANDTHS, 0)


def _compute_floor_needs(accounts: PlanAccounts, rule: PullRule) -> float:
    if rule.floor is None:
        return 0.0
    units = int(accounts.units[accounts.barred == Decision.FREE].sum())
    return units * (to_days(rule.tick) / to_days(rule.floor))
