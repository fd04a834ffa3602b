"""Which looks may be deep, where those whom only deep looks ask have room for some of them.

The best offers of depth come first, and those who waited too long in their share, as under every
cap. Whoever gets no depth offers a shallow look, for what that alone is worth; or none at all,
where a shallow look would cost as much as a deep one. Why there is room for only so many is told
by whoever counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stoker.core.fitting import Flags, Ints, Queue, by_group, crowded, fitting, ids_of, keys
from stoker.core.offers import Offers
from stoker.core.pull_columns import Accounts, Limits


def needs_depth(accounts: Accounts, offers: Offers) -> Flags:
    """Say whose look is deep or none: for the price of a deep one nobody takes a shallow one."""
    found: Flags = (accounts.units == accounts.deep_units) & (offers.deeper > 0)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Depths:
    """What is offered once only so many looks may be deep. Flags are by account."""

    offers: Offers
    withheld: Flags  # it wanted depth, and gets none
    out_of_turn: Flags  # it gets depth before better ones, as it had waited too long


def within_depth(accounts: Accounts, limits: Limits, offers: Offers, *, share: int) -> Depths:
    """Return who may be looked at deeply, and what is offered then.

    Those who waited too long take at most so many thousandths of the deep looks out of turn.
    """
    size = len(accounts)
    withheld, out_of_turn = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    if not len(limits.deep_cap):
        return Depths(offers=offers, withheld=withheld, out_of_turn=out_of_turn)
    rows = np.flatnonzero(offers.deeper > 0)
    one = np.ones(len(rows), np.int64)
    full = crowded(accounts.tenant[rows], one, one, limits.deep_cap)
    order, queue = depth_queue(rows[full[accounts.tenant[rows]]], accounts, offers, share)
    if not len(order):
        return Depths(offers=offers, withheld=withheld, out_of_turn=out_of_turn)
    inside, early = fitting(queue, limits.deep_cap)
    refused, ahead = np.flatnonzero(~inside), np.flatnonzero(early)
    first = np.full(limits.tenants, len(order))
    first[queue.group[refused[::-1]]] = refused[::-1]  # from behind: the first is written last
    withheld[order[refused]] = True
    out_of_turn[order[ahead[ahead > first[queue.group[ahead]]]]] = True
    without = np.where(needs_depth(accounts, offers), np.float32(0), offers.alone)
    look = np.where(withheld, without, offers.look)
    left = replace(
        offers,
        look=look,
        deeper=np.where(withheld, np.float32(0), offers.deeper),
        waited=np.where(look > 0, offers.waited, np.float32(0)),
    )
    return Depths(offers=left, withheld=withheld, out_of_turn=out_of_turn)


def depth_queue(rows: Ints, accounts: Accounts, offers: Offers, share: int) -> tuple[Ints, Queue]:
    """Return these accounts in the order in which they are given depth, tenant by tenant."""
    order = ids_of(np.sort(keys(offers.deeper[rows], rows)))
    order = order[by_group(accounts.tenant[order].astype(np.int64))]
    one = np.ones(len(order), np.int64)
    # A look that can do without depth is made in its turn anyway, however long it waited.
    needed = needs_depth(accounts, offers)[order]
    return order, Queue(
        group=accounts.tenant[order].astype(np.int64),
        cost=one,
        size=one,
        waited=np.where(needed, offers.waited[order], np.float32(0)),
        share=share,
    )
