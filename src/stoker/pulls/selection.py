"""Choose which offers fit: under the number of deep lookups, the connector's cap and the budget.

Under every cap the best offers come first. Offers larger than the cap are dropped. Those that
waited too long then go in order of waiting until they have used their share of the cap. The rest go
by score, up to the first that does not fit. So a smaller offer never passes a better one, and the
smallest cap under which an offer fits is exact. An offer that one cap accepted is never put back by
the next, so no cap is exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stoker.pulls.columns import NO_CAP, Flags, Floats32, Ints, PlanAccounts, PullLimits
from stoker.pulls.offers import LookupOffers

Keys = NDArray[np.uint64]

_THOUSANDTHS = 1000
_LOW_BITS = np.uint64(0xFFFFFFFF)
_WORD_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OfferQueue:
    """Offers under one cap, best first."""

    cost: Ints
    size: Ints  # what has to fit under the cap at all: the whole lookup an offer is a part of
    waited: Floats32 | None = None  # days, of those who waited too long; 0 for others
    share: int = 0  # thousandths of a cap that these may take out of turn

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
        early[line[used <= cap * queue.share // _THOUSANDTHS]] = True
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
        reached = -(-np.cumsum(queue.cost[line], dtype=np.int64) * _THOUSANDTHS // queue.share)
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
        cost=np.where(deeper, whole - units, units), size=whole, waited=waited, share=share
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
