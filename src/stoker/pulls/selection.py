"""Allocate the budget: check offers against four kinds of caps, one after the other.

First the number of deep lookups. Then what tenants share, each offer measured by its own tenant's
price, so that no tenant gains by counting in larger numbers. Then each tenant's connectors, and
last each tenant's budget. An offer that passed is never put back, so no cap is exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stoker.heat.beliefs import Floats
from stoker.pulls.capacity import (
    NO_CAP,
    Flags,
    Floats32,
    Ints,
    OfferQueue,
    build_sort_keys,
    fill_caps,
    find_full_groups,
    get_ids,
    get_scores,
    sort_by_group,
)
from stoker.pulls.columns import PlanAccounts, PullLimits
from stoker.pulls.offers import DeepQuota, LookupOffers, apply_deep_quota

_MIN_FLOAT, _MAX_FLOAT = np.finfo(np.float32).tiny, np.finfo(np.float32).max

_FRONT_BUDGETS, _FRONT_MIN_UNITS = 3, 64  # budgets, and units, that a line's front is long


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """Every offer of a plan: tenants one after the other, best first; at most two per account."""

    account: Ints
    deeper: Flags  # more depth for an account that stands further ahead
    score: Floats32
    cost: Ints
    size: Ints  # the units of the whole lookup
    waited: Floats32 | None  # days, of offers that waited too long; 0 or None: not too long
    tenant: Ints
    ends: Ints  # by tenant: where it begins; and where the last one ends

    def __len__(self) -> int:
        return len(self.account)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """Which offers fit everywhere, and where the others failed."""

    ranking: Ranking
    depths: DeepQuota  # who may be looked up deeply, and the offers as they stood in line
    passed_shared: Flags  # by place in line
    passed_connector: Flags
    chosen: Flags
    early: Flags  # chosen out of turn, as it had waited too long
    closed_at: Ints  # by tenant: the first place its budget had no room for, or the line's length
    price: Floats  # by tenant: what that place offered per unit; 0 where there was room for all
    reference: Floats  # by tenant: the price that offers for shared caps were measured by


def rank_candidates(accounts: PlanAccounts, limits: PullLimits, offers: LookupOffers) -> Ranking:
    """Return the offers of all accounts that may spend, in the order they are considered."""
    able = (offers.look > 0) & find_spendable(accounts, limits)
    wanted = np.empty((len(able), 2), np.bool_)
    wanted[:, 0] = able
    wanted[:, 1] = able & (offers.deeper > 0)
    scores = np.stack([offers.look, offers.deeper], axis=1)
    ids = np.flatnonzero(wanted)
    line = build_sort_keys(scores.ravel()[ids], ids)
    ends = np.searchsorted(accounts.tenant[ids >> 1], np.arange(limits.tenants + 1))
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        line[begin:end].sort()
    ids = get_ids(line)
    account, deeper = ids >> 1, (ids & 1).astype(np.bool_)
    units = accounts.units[account]
    whole = np.where(deeper, accounts.deep_units[account], units)
    late = offers.waited.any()
    return Ranking(
        account=account,
        deeper=deeper,
        score=get_scores(line),
        cost=np.where(deeper, whole - units, units),
        size=whole,
        waited=np.where(deeper, np.float32(0), offers.waited[account]) if late else None,
        tenant=np.repeat(np.arange(limits.tenants), np.diff(ends)),
        ends=ends,
    )


def find_spendable(accounts: PlanAccounts, limits: PullLimits) -> Flags:
    """Return for every account whether its tenant and connector have any units."""
    may = np.ones(len(accounts), np.bool_)
    if (limits.budget <= 0).any():
        may = limits.budget[accounts.tenant] > 0
    if (limits.connector_cap <= 0).any():
        may &= limits.connector_cap[accounts.tenant, accounts.connector] > 0
    return may


def allocate_budget(
    accounts: PlanAccounts,
    limits: PullLimits,
    offers: LookupOffers,
    *,
    share: int,
    reference: Floats | None = None,
) -> Allocation:
    """Return which offers fit; the floor takes at most so many thousandths of a tenant's caps.

    `reference` are tenants' prices for measuring offers for shared caps; without them, the prices
    they would pay if nothing were shared.
    """
    depths = apply_deep_quota(accounts, limits, offers, share=share)
    line = rank_candidates(accounts, limits, depths.offers)
    all_ranks = np.ones(len(line), np.bool_)
    if reference is None:
        free = _allocate_by_tenant(line, all_ranks, accounts, limits, share, depths)
        if not len(limits.domain_cap):
            return free
        reference = free.reference
    shared = find_shared_fit(line, accounts, limits, reference)
    allocation = _allocate_by_tenant(line, shared, accounts, limits, share, depths)
    return replace(allocation, reference=reference)


def find_shared_fit(
    line: Ranking, accounts: PlanAccounts, limits: PullLimits, reference: Floats
) -> Flags:
    """Return for every rank whether the shared caps have room for it."""
    passed = np.ones(len(line), np.bool_)
    if not len(limits.domain_cap):
        return passed
    domain = accounts.domain[line.account].astype(np.int64)
    places = np.flatnonzero(domain >= 0)
    full = find_full_groups(domain[places], line.cost[places], line.size[places], limits.domain_cap)
    places = places[full[domain[places]]]
    order, queue = build_shared_queue(line, places, accounts, reference)
    passed[order] = fill_caps(queue, limits.domain_cap)[0]
    return passed


def build_shared_queue(
    line: Ranking, places: Ints, accounts: PlanAccounts, reference: Floats
) -> tuple[Ints, OfferQueue]:
    """Return these ranks in the order in which shared caps consider them, as a queue."""
    prices = np.maximum(reference, _MIN_FLOAT).astype(np.float32)
    with np.errstate(over="ignore"):
        measured = line.score[places] / prices[line.tenant[places]]
    np.clip(measured, _MIN_FLOAT, _MAX_FLOAT, out=measured)
    if line.waited is not None:  # what waited too long is worth the price, at least
        late = line.waited[places] > 0
        measured[late] = np.maximum(measured[late], np.float32(1))
    order = get_ids(np.sort(build_sort_keys(measured, places)))
    group = accounts.domain[line.account[order]].astype(np.int64)
    again = sort_by_group(group)
    order = order[again]
    return order, OfferQueue(group=group[again], cost=line.cost[order], size=line.size[order])


def build_connector_queue(
    line: Ranking, places: Ints, accounts: PlanAccounts, limits: PullLimits, share: int
) -> tuple[Ints, OfferQueue]:
    """Return these ranks connector by connector, as a queue."""
    group = _to_connector_groups(line, places, accounts, limits)
    again = sort_by_group(group)
    order = places[again]
    return order, OfferQueue(
        group=group[again],
        cost=line.cost[order],
        size=line.size[order],
        waited=None if line.waited is None else line.waited[order],
        share=share,
    )


def build_tenant_queue(line: Ranking, places: Ints, granted: Flags, share: int) -> OfferQueue:
    """Return these ranks in their order, as a queue.

    Only offers that their connectors accepted early may come early here.
    """
    waited = None
    if line.waited is not None:
        waited = np.where(granted[places], line.waited[places], np.float32(0))
    return OfferQueue(
        group=line.tenant[places],
        cost=line.cost[places],
        size=line.size[places],
        waited=waited,
        share=share,
    )


def _allocate_by_tenant(
    line: Ranking,
    shared: Flags,
    accounts: PlanAccounts,
    limits: PullLimits,
    share: int,
    depths: DeepQuota,
) -> Allocation:
    stages = AllocationStages(size=len(line), tenants=limits.tenants)
    budget = np.maximum(limits.budget, 0)
    # Money ends long before most lines do: at first only their fronts are considered, and what
    # waited too long. A tenant whose money does not end there is considered again, whole.
    front = _find_front(line, shared, _FRONT_BUDGETS * budget + _FRONT_MIN_UNITS)
    first = front if line.waited is None or not share else front | (shared & (line.waited > 0))
    stages.run(np.flatnonzero(first), line, accounts, limits, share, front)
    behind = np.zeros(limits.tenants, np.bool_)
    behind[line.tenant[shared & ~front]] = True
    again = behind & (stages.closed_at == len(line))
    if again.any():
        places = np.flatnonzero(shared & again[line.tenant])
        stages.run(places, line, accounts, limits, share, shared)
    price = _get_offer_at(line, stages.closed_at)
    return Allocation(
        ranking=line,
        depths=depths,
        passed_shared=shared,
        passed_connector=stages.connector,
        chosen=stages.chosen,
        early=stages.early,
        closed_at=stages.closed_at,
        price=price,
        reference=np.where(
            price > 0, price, _find_lowest_chosen(line, stages.chosen, limits.tenants)
        ),
    )


def _find_front(line: Ranking, shared: Flags, units: Ints) -> Flags:
    """Return the part of each tenant's ranking that its first so many units reach."""
    total = np.cumsum(np.where(shared, line.cost, 0), dtype=np.int64)
    before = np.concatenate([[0], total])[line.ends[:-1]]
    stops = np.minimum(np.searchsorted(total, before + units, side="right"), line.ends[1:])
    front = np.zeros(len(line), np.bool_)
    for begin, stop in zip(line.ends[:-1].tolist(), stops.tolist(), strict=True):
        front[begin:stop] = True
    return front & shared


class AllocationStages:
    """How far offers came under the caps of their own tenants, by rank."""

    def __init__(self, *, size: int, tenants: int) -> None:
        self.connector = np.ones(size, np.bool_)
        self.chosen = np.zeros(size, np.bool_)
        self.early = np.zeros(size, np.bool_)
        self.closed_at = np.full(tenants, size)

    def run(
        self,
        places: Ints,
        line: Ranking,
        accounts: PlanAccounts,
        limits: PullLimits,
        share: int,
        front: Flags,
    ) -> None:
        """Hold these places against their caps; a tenant's money ends at a place of the front."""
        granted = np.ones(len(line), np.bool_)
        if limits.connector_cap.shape[1]:
            caps = limits.connector_cap.ravel()
            capped = places[caps[_to_connector_groups(line, places, accounts, limits)] < NO_CAP]
            order, queue = build_connector_queue(line, capped, accounts, limits, share)
            self.connector[order], granted[order] = fill_caps(queue, caps)
        passed = places[self.connector[places]]
        queue = build_tenant_queue(line, passed, granted, share)
        budget = np.maximum(limits.budget, 0)
        self.chosen[passed], early = fill_caps(queue, budget)
        self.early[passed] = early
        refused = passed[~self.chosen[passed] & (queue.size <= budget[queue.group])]
        refused = refused[front[refused]]
        # From behind, so that the first place of each tenant is written last.
        self.closed_at[line.tenant[refused[::-1]]] = refused[::-1]


def _to_connector_groups(
    line: Ranking, places: Ints, accounts: PlanAccounts, limits: PullLimits
) -> Ints:
    connectors = limits.connector_cap.shape[1]
    found: Ints = line.tenant[places] * connectors + accounts.connector[line.account[places]]
    return found


def _get_offer_at(line: Ranking, places: Ints) -> Floats:
    """Return what these places offer; 0 behind the end of the line."""
    offers = np.zeros(len(places))
    inside = places < len(line)
    offers[inside] = line.score[places[inside]]
    return offers


def _find_lowest_chosen(line: Ranking, chosen: Flags, tenants: int) -> Floats:
    """Return the lowest chosen offer of each tenant, where all could be chosen."""
    places = np.flatnonzero(chosen)
    last = np.full(tenants, len(line))
    last[line.tenant[places]] = places
    return _get_offer_at(line, last)
