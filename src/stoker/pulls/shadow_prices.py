"""The price of a call at which a group's looks cost just what the group may spend.

All groups at once, by Newton on the logarithms inside a bracket, over chunks that fit a
processor's cache; groups that are settled leave. A price is kept as its square root, which is
what rates go with. What is found never costs more than the budget. Whose groups these are, and
which prices add up, is `rates`' business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.heat.beliefs import Flags, Floats
from stoker.pulls.spacing import Spacing

Places = NDArray[np.int32]

CLOSED, FREE = 1e100, 1e-100  # roots of prices: nothing above the least; everything there is

CLOSE = 1e-7  # of a budget: so little may stay unspent

_CHUNK = 32_768

_TURNS = 200

_PATIENCE = 8  # turns; Newton alone settles nearly everybody by then

_SUMS = 1e-12  # of a budget: more than sums differ by when their order does

_CUT = 1e-11  # of a least: so much is left where it was cut to fit

_SAME = 4e-16  # roots this close have no float to speak of between them

_LONGEST_STEP = 4.0  # of a root's logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Columns of accounts: what is spent on them at which price, and the group they belong to.

    `pace` is sqrt(cost x changes / value) and `scale` sqrt(cost x changes x value). An account
    costs its group's price, or that of its leaf if it is higher, and one beside it.
    """

    pace: Floats
    scale: Floats
    least: Floats  # spent a day, whatever the price; one number, or one for each account
    most: Floats
    group: Places
    leaf: Places | None = None
    at_least: Floats | None = None  # roots, by `leaf`
    other: Places | None = None
    beside: Floats | None = None  # prices, by `other`

    def among(self, kept: Flags) -> Rows:
        """Return the rows of some accounts."""
        return Rows(
            pace=self.pace[kept],
            scale=self.scale[kept],
            least=self.least[kept] if self.least.ndim else self.least,
            most=self.most[kept],
            group=self.group[kept],
            other=None if self.other is None else self.other[kept],
            beside=self.beside,
            leaf=None if self.leaf is None else self.leaf[kept],
            at_least=self.at_least,
        )

    def roots(self, own: Floats, part: slice) -> tuple[Floats, Floats | float]:
        """Return the root of each account's price, and which share of the price is its group's."""
        root = own[self.group[part]]
        share: Floats | float = 1.0
        if self.leaf is not None and self.at_least is not None:
            least = self.at_least[self.leaf[part]]
            share = np.where(least > root, 0.0, 1.0)
            root = np.maximum(root, least)
        if self.other is not None and self.beside is not None:
            price = root * root
            total = price + self.beside[self.other[part]]
            root, share = np.sqrt(total), share * (price / total)
        return root, share

    def least_of(self, part: slice) -> Floats:
        """Return what is spent on each account whatever the price."""
        return self.least[part] if self.least.ndim else np.full(len(self.pace[part]), self.least)

    def spent(self, own: Floats, spacing: Spacing, part: slice) -> tuple[Floats, Floats, Floats]:
        """Return roots, what is spent above the least, and how fast that falls with log root."""
        root, share = self.roots(own, part)
        scale, pace = self.scale[part], self.pace[part]
        looks, slope = spacing.looks(pace * root)
        least = self.least[part] if self.least.ndim else self.least
        above = scale * (looks / root) - least
        room = self.most[part] - least
        inner = (above > 0.0) & (above < room)
        falls = (above + least - scale * (pace * slope)) * inner * share
        return root, np.minimum(np.maximum(above, 0.0), room), falls


def chunks(number: int) -> Iterator[slice]:
    """Yield the parts that columns of this length are worked through in."""
    for start in range(0, number, _CHUNK):
        yield slice(start, start + _CHUNK)


def add_up(total: Floats, group: Places, amounts: Floats) -> None:
    """Add amounts to their groups' totals."""
    first = int(group.min())
    sums = np.bincount(group - first, amounts)
    total[first : first + len(sums)] += sums


def price_roots(rows: Rows, budget: Floats, *, spacing: Spacing, start: Floats | None) -> Floats:
    """Return the root of each group's price: what it may spend, to a ten-millionth, never more.

    Where nothing may be spent above the least the price is CLOSED; where everything fits, FREE.
    """
    count = len(budget)
    least, room, guess = (np.zeros(count) for _ in range(3))
    alone = rows.other is None and rows.leaf is None
    free = np.full(count, FREE)
    for part in chunks(len(rows.pace)):
        group, scale = rows.group[part], rows.scale[part]
        if rows.least.ndim:
            add_up(least, group, rows.least[part])
        add_up(guess, group, scale)
        if alone:
            above = (rows.most[part] - rows.least_of(part)) * (scale > 0.0)
        else:
            _, above, _ = rows.spent(free, spacing, part)
        add_up(room, group, above)
    left = budget - least
    closed = left <= _CUT * least
    search = ~closed & (left < room)
    root = np.where(closed, CLOSED, FREE)
    # If changes were rare, looks would cost sqrt(1/2) of the scale over the root.
    root[search] = np.sqrt(0.5) * guess[search] / left[search]
    if start is not None:
        root = np.where(search & (start > FREE) & (start < CLOSED), start, root)
    return _searched(rows, left, np.clip(root, FREE, CLOSED), search, spacing)


def _searched(rows: Rows, budget: Floats, root: Floats, search: Flags, spacing: Spacing) -> Floats:
    low, high = np.full(len(root), FREE), np.full(len(root), CLOSED)
    for turn in range(_TURNS):
        if not search.any():
            break
        kept = search[rows.group]
        if np.count_nonzero(kept) < 0.6 * len(rows.pace):
            rows = rows.among(kept)
        spent, falls = np.zeros(len(root)), np.zeros(len(root))
        for part in chunks(len(rows.pace)):
            _, amounts, slopes = rows.spent(root, spacing, part)
            add_up(spent, rows.group[part], amounts)
            add_up(falls, rows.group[part], slopes)
        fits = spent <= (1.0 - _SUMS) * budget
        high = np.where(search & fits, root, high)
        low = np.where(search & ~fits, root, low)
        near = fits & (spent >= (1.0 - CLOSE) * budget)
        done = near | (high <= low * (1.0 + _SAME)) | (turn + 1 == _TURNS)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A hair under the budget, so that the last step ends on the side that fits.
            step = np.log(spent / ((1.0 - 0.5 * CLOSE) * budget)) * (spent / falls)
            newton = root * np.exp(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP))
        bounded = (low > FREE) & (high < CLOSED)
        stride = np.exp(np.where(fits, -1.0, 1.0) * 2.0 ** min(turn, 6))
        slow = np.where(bounded, np.sqrt(low) * np.sqrt(high), np.clip(root * stride, FREE, CLOSED))
        # Where one account's looks end all at once, Newton would creep: halving does not.
        follows = (newton > low) & (newton < high) & ((turn < _PATIENCE) | (turn % 2 == 0))
        moved = np.where(done, high, np.where(follows, newton, slow))
        root = np.where(search, moved, root)
        search = search & ~done
    return root
