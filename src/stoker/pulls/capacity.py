"""Which offers fit under a cap: the best first until it is full, the longest waiting in a share.

An offer costs whole units and belongs to one group; every group has a cap. Whoever is larger than
the cap is left out first. Of what is left, those who waited too long come in the order they waited
until they have used their share of the cap; then everybody by score, and from the first that does
not fit on nobody does. So a smaller offer never slips in past a better one, and how much larger a
cap would have to be for somebody to fit has one exact answer. Knows nothing of accounts.
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
    size: Ints  # what has to fit under the cap at all: the whole look an offer is a part of
    waited: Floats32 | None = None  # how long, for those who waited too long; 0 for others
    share: int = 0  # thousandths of a cap that these may take out of turn


def build_sort_keys(score: Floats32, ids: Ints) -> Keys:
    """Return numbers that sort the highest score first, equal ones by id. Scores are above 0."""
    falling = ~np.ascontiguousarray(score).view(np.uint32)
    return (falling.astype(np.uint64) << _WORD_BITS) | ids.astype(np.uint64)


def get_ids(sorted_keys: Keys) -> Ints:
    """Return whose keys these are."""
    return (sorted_keys & _LOW_BITS).astype(np.int64)


def get_scores(sorted_keys: Keys) -> Floats32:
    """Return the scores these keys were made of."""
    return (~(sorted_keys >> _WORD_BITS).astype(np.uint32)).view(np.float32)


def sort_by_group(group: Ints) -> Ints:
    """Return the places of these sorted by group, those of one group as they stood."""
    order: Ints = np.argsort((group & _DIGIT_MASK).astype(np.uint16), kind="stable")
    digit = 16
    while len(group) and int(group.max()) >> digit:  # digit by digit, as each takes linear time
        higher = (group[order] >> digit & _DIGIT_MASK).astype(np.uint16)
        order = order[np.argsort(higher, kind="stable")]
        digit += 16
    return np.asarray(order, np.int64)


def compute_running_cost(cost: Ints, group: Ints) -> Ints:
    """Return what each group has cost so far, itself included. Groups stand together."""
    total: Ints = np.cumsum(cost, dtype=np.int64)
    if not len(total):
        return total
    changes = np.flatnonzero(group[1:] != group[:-1]) + 1
    begins = np.concatenate([[0], changes])
    before = total[begins] - cost[begins]
    found: Ints = total - np.repeat(before, np.diff(begins, append=len(total)))
    return found


def find_full_groups(queue_group: Ints, cost: Ints, size: Ints, cap: Ints) -> Flags:
    """Say of every group whether not all of its offers fit; where they do nothing is decided."""
    wanted = np.bincount(queue_group, weights=cost, minlength=len(cap))
    full = wanted > cap
    full[queue_group[size > cap[queue_group]]] = True
    return full


def fill_caps(queue: OfferQueue, cap: Ints) -> tuple[Flags, Flags]:
    """Return which offers fit, and which of them out of turn, in the share of those who waited."""
    allowed = cap[queue.group]
    small = queue.size <= allowed
    early = np.zeros(len(small), np.bool_)
    if queue.share and queue.waited is not None and queue.waited.any():
        places = np.flatnonzero(small & (queue.waited > 0))
        line = places[_sort_by_wait(queue.waited[places], queue.group[places])]
        used = compute_running_cost(queue.cost[line], queue.group[line])
        early[line[used <= _compute_allowance(allowed[line], queue.share)]] = True
        taken = np.bincount(queue.group[early], weights=queue.cost[early], minlength=len(cap))
        allowed = allowed - taken.astype(np.int64)[queue.group]
        small &= ~early
    used = compute_running_cost(np.where(small, queue.cost, 0), queue.group)
    return early | (small & (used <= allowed)), early


def find_smallest_cap(queue: OfferQueue, place: int, *, least: int = 0) -> int:
    """Return the smallest cap, from `least` on, under which the offer at this place fits.

    The queue is one group. Not every larger cap will do: under a larger one larger offers count
    too, and more of those who waited. But no smaller one does.
    """
    sizes = np.unique(queue.size)
    own = int(queue.size[place])
    begins = [own, *(int(each) for each in sizes if each > own)]
    ends = [*begins[1:], NO_CAP + 1]
    for low, high in zip(begins, ends, strict=True):
        found = _find_cap_between(queue, place, max(low, least), high) if high > least else None
        if found is not None:
            return found
    return NO_CAP


def _find_cap_between(queue: OfferQueue, place: int, low: int, high: int) -> int | None:
    """Return the smallest cap from low up to high that will do: the same offers count there."""
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
    found = np.maximum(starts, needs)
    good = (found < ends) & (found < high)
    return int(found[good].min()) if good.any() else None


def _compute_allowance(cap: Ints, share: int) -> Ints:
    return cap * share // _THOUSANDTHS


def _sort_by_wait(waited: Floats32, group: Ints) -> Ints:
    order = get_ids(np.sort(build_sort_keys(waited, np.arange(len(waited)))))
    return order[sort_by_group(group[order])]
