"""Who gets the money: offers held against four kinds of caps, one after the other.

First how many looks may be deep. Then what tenants share, each offer measured by its own tenant's
price, so that nobody gains by counting in larger numbers. Of what is left, each tenant's
connectors; of what is left then, each tenant's budget. Nothing that fits once is put back, so no
cap is ever exceeded. Worth and due dates are `offers`' business, and what people are told about it
is `pulls`'.
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
    Queue,
    by_group,
    crowded,
    fitting,
    ids_of,
    keys,
    scores_of,
)
from stoker.pulls.columns import Accounts, Limits
from stoker.pulls.offers import Depths, Offers, within_depth

_LEAST, _MOST = np.finfo(np.float32).tiny, np.finfo(np.float32).max

_FRONT, _FRONT_LEAST = 3, 64  # budgets, and units, that a line's front is long


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """Every offer of a plan: tenants one after the other, best first; two per account at most."""

    account: Ints
    deeper: Flags  # more depth for an account that stands further ahead
    score: Floats32
    cost: Ints
    size: Ints  # the units of the whole look
    waited: Floats32 | None  # days, of looks at those who waited too long; 0, None: nobody has
    tenant: Ints
    ends: Ints  # by tenant: where it begins; and where the last one ends

    def __len__(self) -> int:
        return len(self.account)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """Which offers fit everywhere, and where the others failed."""

    line: Line
    depths: Depths  # who may be looked at deeply, and the offers as they stood in line
    passed_shared: Flags  # by place in line
    passed_connector: Flags
    chosen: Flags
    early: Flags  # chosen out of turn, as it had waited too long
    closed_at: Ints  # by tenant: the first place its budget had no room for, or the line's length
    price: Floats  # by tenant: what that place offered per unit; 0 where there was room for all
    reference: Floats  # by tenant: the price that offers for shared caps were measured by


def lined_up(accounts: Accounts, limits: Limits, offers: Offers) -> Line:
    """Return the offers of all who may spend at all, in the order in which they are considered."""
    able = (offers.look > 0) & may_spend(accounts, limits)
    wanted = np.empty((len(able), 2), np.bool_)
    wanted[:, 0] = able
    wanted[:, 1] = able & (offers.deeper > 0)
    scores = np.stack([offers.look, offers.deeper], axis=1)
    ids = np.flatnonzero(wanted)
    line = keys(scores.ravel()[ids], ids)
    ends = np.searchsorted(accounts.tenant[ids >> 1], np.arange(limits.tenants + 1))
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        line[begin:end].sort()
    ids = ids_of(line)
    account, deeper = ids >> 1, (ids & 1).astype(np.bool_)
    units = accounts.units[account]
    whole = np.where(deeper, accounts.deep_units[account], units)
    late = offers.waited.any()
    return Line(
        account=account,
        deeper=deeper,
        score=scores_of(line),
        cost=np.where(deeper, whole - units, units),
        size=whole,
        waited=np.where(deeper, np.float32(0), offers.waited[account]) if late else None,
        tenant=np.repeat(np.arange(limits.tenants), np.diff(ends)),
        ends=ends,
    )


def may_spend(accounts: Accounts, limits: Limits) -> Flags:
    """Say of every account whether its tenant, and its connector there, has any units at all."""
    may = np.ones(len(accounts), np.bool_)
    if (limits.budget <= 0).any():
        may = limits.budget[accounts.tenant] > 0
    if (limits.connector_cap <= 0).any():
        may &= limits.connector_cap[accounts.tenant, accounts.connector] > 0
    return may


def choose(
    accounts: Accounts,
    limits: Limits,
    offers: Offers,
    *,
    share: int,
    reference: Floats | None = None,
) -> Choice:
    """Return which offers fit; the floor takes at most so many thousandths of a tenant's caps.

    `reference` are tenants' prices for measuring offers for shared caps; without them, the prices
    they would pay if nothing were shared.
    """
    depths = within_depth(accounts, limits, offers, share=share)
    line = lined_up(accounts, limits, depths.offers)
    everybody = np.ones(len(line), np.bool_)
    if reference is None:
        free = _for_tenants(line, everybody, accounts, limits, share, depths)
        if not len(limits.domain_cap):
            return free
        reference = free.reference
    shared = passed_shared(line, accounts, limits, reference)
    found = _for_tenants(line, shared, accounts, limits, share, depths)
    return replace(found, reference=reference)


def passed_shared(line: Line, accounts: Accounts, limits: Limits, reference: Floats) -> Flags:
    """Say of every place in line whether what tenants share has room for it."""
    passed = np.ones(len(line), np.bool_)
    if not len(limits.domain_cap):
        return passed
    domain = accounts.domain[line.account].astype(np.int64)
    places = np.flatnonzero(domain >= 0)
    full = crowded(domain[places], line.cost[places], line.size[places], limits.domain_cap)
    places = places[full[domain[places]]]
    order, queue = shared_queue(line, places, accounts, reference)
    passed[order] = fitting(queue, limits.domain_cap)[0]
    return passed


def shared_queue(
    line: Line, places: Ints, accounts: Accounts, reference: Floats
) -> tuple[Ints, Queue]:
    """Return these places of the line in the order shared caps consider them, as a queue."""
    prices = np.maximum(reference, _LEAST).astype(np.float32)
    with np.errstate(over="ignore"):
        measured = line.score[places] / prices[line.tenant[places]]
    np.clip(measured, _LEAST, _MOST, out=measured)
    if line.waited is not None:  # whoever waited too long is worth the price, whatever its worth
        late = line.waited[places] > 0
        measured[late] = np.maximum(measured[late], np.float32(1))
    order = ids_of(np.sort(keys(measured, places)))
    group = accounts.domain[line.account[order]].astype(np.int64)
    again = by_group(group)
    order = order[again]
    return order, Queue(group=group[again], cost=line.cost[order], size=line.size[order])


def connector_queue(
    line: Line, places: Ints, accounts: Accounts, limits: Limits, share: int
) -> tuple[Ints, Queue]:
    """Return these places of the line connector by connector, as a queue."""
    group = _connectors(line, places, accounts, limits)
    again = by_group(group)
    order = places[again]
    return order, Queue(
        group=group[again],
        cost=line.cost[order],
        size=line.size[order],
        waited=None if line.waited is None else line.waited[order],
        share=share,
    )


def tenant_queue(line: Line, places: Ints, granted: Flags, share: int) -> Queue:
    """Return these places of the line, as they stand, as a queue.

    Out of turn come only those whom their connectors granted that, by place in line.
    """
    waited = None
    if line.waited is not None:
        waited = np.where(granted[places], line.waited[places], np.float32(0))
    return Queue(
        group=line.tenant[places],
        cost=line.cost[places],
        size=line.size[places],
        waited=waited,
        share=share,
    )


def _for_tenants(
    line: Line,
    shared: Flags,
    accounts: Accounts,
    limits: Limits,
    share: int,
    depths: Depths,
) -> Choice:
    stages = Stages(size=len(line), tenants=limits.tenants)
    budget = np.maximum(limits.budget, 0)
    # Money ends long before most lines do: at first only their fronts are considered, and whoever
    # waited. A tenant whose money does not end there is considered again, whole.
    front = _front(line, shared, _FRONT * budget + _FRONT_LEAST)
    first = front if line.waited is None or not share else front | (shared & (line.waited > 0))
    stages.run(np.flatnonzero(first), line, accounts, limits, share, front)
    behind = np.zeros(limits.tenants, np.bool_)
    behind[line.tenant[shared & ~front]] = True
    again = behind & (stages.closed_at == len(line))
    if again.any():
        places = np.flatnonzero(shared & again[line.tenant])
        stages.run(places, line, accounts, limits, share, shared)
    price = _offered_at(line, stages.closed_at)
    return Choice(
        line=line,
        depths=depths,
        passed_shared=shared,
        passed_connector=stages.connector,
        chosen=stages.chosen,
        early=stages.early,
        closed_at=stages.closed_at,
        price=price,
        reference=np.where(price > 0, price, _least(line, stages.chosen, limits.tenants)),
    )


def _front(line: Line, shared: Flags, units: Ints) -> Flags:
    """Return those of each tenant's line that its first so many units reach."""
    total = np.cumsum(np.where(shared, line.cost, 0), dtype=np.int64)
    before = np.concatenate([[0], total])[line.ends[:-1]]
    stops = np.minimum(np.searchsorted(total, before + units, side="right"), line.ends[1:])
    front = np.zeros(len(line), np.bool_)
    for begin, stop in zip(line.ends[:-1].tolist(), stops.tolist(), strict=True):
        front[begin:stop] = True
    return front & shared


class Stages:
    """How far offers came under the caps of their own tenants, by place in line."""

    def __init__(self, *, size: int, tenants: int) -> None:
        self.connector = np.ones(size, np.bool_)
        self.chosen = np.zeros(size, np.bool_)
        self.early = np.zeros(size, np.bool_)
        self.closed_at = np.full(tenants, size)

    def run(
        self,
        places: Ints,
        line: Line,
        accounts: Accounts,
        limits: Limits,
        share: int,
        front: Flags,
    ) -> None:
        """Hold these places against their caps; a tenant's money ends at a place of the front."""
        granted = np.ones(len(line), np.bool_)
        if limits.connector_cap.shape[1]:
            caps = limits.connector_cap.ravel()
            capped = places[caps[_connectors(line, places, accounts, limits)] < NO_CAP]
            order, queue = connector_queue(line, capped, accounts, limits, share)
            self.connector[order], granted[order] = fitting(queue, caps)
        passed = places[self.connector[places]]
        queue = tenant_queue(line, passed, granted, share)
        budget = np.maximum(limits.budget, 0)
        self.chosen[passed], early = fitting(queue, budget)
        self.early[passed] = early
        refused = passed[~self.chosen[passed] & (queue.size <= budget[queue.group])]
        refused = refused[front[refused]]
        # From behind, so that the first place of each tenant is written last.
        self.closed_at[line.tenant[refused[::-1]]] = refused[::-1]


def _connectors(line: Line, places: Ints, accounts: Accounts, limits: Limits) -> Ints:
    connectors = limits.connector_cap.shape[1]
    found: Ints = line.tenant[places] * connectors + accounts.connector[line.account[places]]
    return found


def _offered_at(line: Line, places: Ints) -> Floats:
    """Return what these places offer; 0 behind the end of the line."""
    found = np.zeros(len(places))
    there = places < len(line)
    found[there] = line.score[places[there]]
    return found


def _least(line: Line, chosen: Flags, tenants: int) -> Floats:
    """Return the least that anybody chosen offers, where all could be: the last in line."""
    places = np.flatnonzero(chosen)
    last = np.full(tenants, len(line))
    last[line.tenant[places]] = places
    return _offered_at(line, last)
