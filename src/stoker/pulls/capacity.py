"""Choose which offers fit under a cap: best first, with a share for the longest waiting.

An offer costs whole units and belongs to one group; every group has a cap. Offers larger than the
cap are dropped first. Those that waited too long then go in order of waiting until they have used
their share of the cap. The rest go by score, up to the first that does not fit. So a smaller offer
never passes a better one, and the smallest cap under which an offer fits is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]

Flags = NDArray[np.bool_]

Ints = NDArray[np.int64]

Keys = NDArray[np.uint64]

NO_CAP = 10**15  # units; what has no cap is capped by this

_THOUSANDTHS = 1000

_DIGIT_MASK = 0xFFFF

_LOW_BITS = np.uint64(0xFFFFFFFF)

_WORD_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferQueue:
    """Offers, best first within each group, groups one after the other."""

    group: Ints  # whose cap it falls under; a place in the column of caps
    cost: Ints
    size: Ints  # what has to fit under the cap at all: the whole lookup an offer is a part of
    waited: Floats32 | None = None  # how long, for those who waited too long; 0 for others
    share: int = 0  # thousandths of a cap that these may take out of turn


def build_sort_keys(score: Floats32, ids: Ints) -> Keys:
    """Return numbers that sort the highest score first, equal ones by id. Scores are above 0."""
    falling = ~np.ascontiguousarray(score).view(np.uint32)
    return (falling.astype(np.uint64) << _WORD_BITS) | ids.astype(np.uint64)


def get_ids(sorted_keys: Keys) -> Ints:
    """Return the ids in these sort keys."""
    return (sorted_keys & _LOW_BITS).astype(np.int64)


def get_scores(sorted_keys: Keys) -> Floats32:
    """Return the scores in these sort keys."""
    return (~(sorted_keys >> _WORD_BITS).astype(np.uint32)).view(np.float32)


def sort_by_group(group: Ints) -> Ints:
    """Return positions sorted by group, keeping the order inside each group."""
    order: Ints = np.argsort((group & _DIGIT_MASK).astype(np.uint16), kind="stable")
    digit = 16
    while len(group) and int(group.max()) >> digit:  # digit by digit, as each takes linear time
        higher = (group[order] >> digit & _DIGIT_MASK).astype(np.uint16)
        order = order[np.argsort(higher, kind="stable")]
        digit += 16
    return np.asarray(order, np.int64)


def compute_running_cost(cost: Ints, group: Ints) -> Ints:
    """Return each group's cost up to and including each offer. Groups are contiguous."""
    total: Ints = np.cumsum(cost, dtype=np.int64)
    if not len(total):
        return total
    changes = np.flatnonzero(group[1:] != group[:-1]) + 1
    begins = np.concatenate([[0], changes])
    before = total[begins] - cost[begins]
    found: Ints = total - np.repeat(before, np.diff(begins, append=len(total)))
    return found


def find_full_groups(queue_group: Ints, cost: Ints, size: Ints, cap: Ints) -> Flags:
    """Return for every group whether some of its offers do not fit."""
    wanted = np.bincount(queue_group, weights=cost, minlength=len(cap))
    full = wanted > cap
    full[queue_group[size > cap[queue_group]]] = True
    return full


def fill_caps(queue: OfferQueue, cap: Ints) -> tuple[Flags, Flags]:
    """Return which offers fit, and which of these fit through the share of the longest waiting."""
    allowed = cap[queue.group]
    small = queue.size <= allowed
    early = np.zeros(len(small), np.bool_)
    if queue.share and queue.waited is not None and queue.waited.any():
        places = np.flatnonzero(small & (queue.waited > 0))
        line = places[_sort_by_wait(queue.waited[places], queue.group[places])]
        used = compute_running_cost(queue.cost[line], queue.group[line])
        early[line[used <= _compute_allowance(allowed[line], queue.share)]] = True
        used = np.bincount(queue.group[early], weights=queue.cost[early], minlength=len(cap))
        allowed = allowed - used.astype(np.int64)[queue.group]
        small &= ~early
    used = compute_running_cost(np.where(small, queue.cost, 0), queue.group)
    return early | (small & (used <= allowed)), early


def find_smallest_cap(queue: OfferQueue, place: int, *, least: int = 0) -> int:
    """Return the smallest cap, from `least` on, under which the offer at this position fits."""
    sizes = np.unique(queue.size)
    own = int(queue.size[place])
    begins = [own, *(int(each) for each in sizes if each > own)]
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
    starts, needs = np.array([low]), np.array([ahead])
    if queue.share and queue.waited is not None:
        places = np.flatnonzero(small & (queue.waited > 0))
        line = places[_sort_by_wait(queue.waited[places], queue.group[places])]
        # The share grows with the cap: from each of these on, one more of them counts.
        reached = -(-np.cumsum(queue.cost[line]) * _THOUSANDTHS // queue.share)
        behind = np.cumsum(np.where(line > place, queue.cost[line], 0))
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


def _compute_allowance(cap: Ints, share: int) -> Ints:
    return cap * share // _THOUSANDTHS


def _sort_by_wait(waited: Floats32, group: Ints) -> Ints:
    order = get_ids(np.sort(build_sort_keys(waited, np.arange(len(waited)))))
    return order[sort_by_group(group[order])]
