"""Find the price of a call at which a group's lookups cost exactly what the group may spend.

All groups at once, by Newton's method on the logarithms inside a bracket, over chunks that fit a
processor's cache; groups that have converged leave. A price is represented by its square root,
which rates are proportional to. The result never costs more than the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.heat.beliefs import Flags, Floats
from stoker.pulls.spacing import LookupSpacing

GroupIds = NDArray[np.int32]

MAX_ROOT, MIN_ROOT = 1e100, 1e-100  # roots of prices: nothing above the least; everything there is

ROOT_TOLERANCE = 1e-7  # of a budget: so little may stay unspent

_CHUNK_ROWS = 32_768

_MAX_STEPS = 200

_NEWTON_STEPS = 8  # turns; Newton alone settles nearly all groups by then

_SUM_TOLERANCE = 1e-12  # of a budget: more than sums differ by when their order does

_TRIM = 1e-11  # of a least: so much is left where it was cut to fit

_ROOT_EPSILON = 4e-16  # roots this close have no float to speak of between them

_MAX_LOG_STEP = 4.0  # of a root's logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRows:
    """Columns of accounts: what is spent on them at which price, and the group they belong to.

    `pace` is sqrt(cost x changes / value) and `scale` sqrt(cost x changes x value). An account
    costs its group's price, or that of its leaf if it is higher, and one beside it.
    """

    pace: Floats
    scale: Floats
    least: Floats  # spent a day, whatever the price; one number, or one for each account
    most: Floats
    group: GroupIds
    leaf: GroupIds | None = None
    at_least: Floats | None = None  # roots, by `leaf`
    other: GroupIds | None = None
    beside: Floats | None = None  # prices, by `other`

    def select(self, mask: Flags) -> PriceRows:
        """Return the rows of some accounts."""
        return PriceRows(
            pace=self.pace[mask],
            scale=self.scale[mask],
            least=self.least[mask] if self.least.ndim else self.least,
            most=self.most[mask],
            group=self.group[mask],
            other=None if self.other is None else self.other[mask],
            beside=self.beside,
            leaf=None if self.leaf is None else self.leaf[mask],
            at_least=self.at_least,
        )

    def compute_roots(self, own: Floats, part: slice) -> tuple[Floats, Floats | float]:
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

    def compute_minimum(self, part: slice) -> Floats:
        """Return what is spent on each account whatever the price."""
        return self.least[part] if self.least.ndim else np.full(len(self.pace[part]), self.least)

    def compute_spending(
        self, own: Floats, spacing: LookupSpacing, part: slice
    ) -> tuple[Floats, Floats, Floats]:
        """Return roots, what is spent above the least, and how fast that falls with log root."""
        root, share = self.compute_roots(own, part)
        scale, pace = self.scale[part], self.pace[part]
        looks, slope = spacing.compute_frequency(pace * root)
        least = self.least[part] if self.least.ndim else self.least
        above = scale * (looks / root) - least
        room = self.most[part] - least
        inner = (above > 0.0) & (above < room)
        falls = (above + least - scale * (pace * slope)) * inner * share
        return root, np.minimum(np.maximum(above, 0.0), room), falls


def iterate_chunks(number: int) -> Iterator[slice]:
    """Yield the parts that columns of this length are worked through in."""
    for start in range(0, number, _CHUNK_ROWS):
        yield slice(start, start + _CHUNK_ROWS)


def add_to_groups(total: Floats, group: GroupIds, amounts: Floats) -> None:
    """Add amounts to their groups' totals."""
    first = int(group.min())
    sums = np.bincount(group - first, amounts)
    total[first : first + len(sums)] += sums


def find_price_roots(
    rows: PriceRows, budget: Floats, *, spacing: LookupSpacing, start: Floats | None
) -> Floats:
    """Return the root of each group's price: what it may spend, to a ten-millionth, never more.

    Where nothing may be spent above the least the price is CLOSED; where everything fits, FREE.
    """
    count = len(budget)
    least, room, guess = (np.zeros(count) for _ in range(3))
    alone = rows.other is None and rows.leaf is None
    free = np.full(count, MIN_ROOT)
    for part in iterate_chunks(len(rows.pace)):
        group, scale = rows.group[part], rows.scale[part]
        if rows.least.ndim:
            add_to_groups(least, group, rows.least[part])
        add_to_groups(guess, group, scale)
        if alone:
            above = (rows.most[part] - rows.compute_minimum(part)) * (scale > 0.0)
        else:
            _, above, _ = rows.compute_spending(free, spacing, part)
        add_to_groups(room, group, above)
    left = budget - least
    closed = left <= _TRIM * least
    search = ~closed & (left < room)
    root = np.where(closed, MAX_ROOT, MIN_ROOT)
    # If changes were rare, lookups would cost sqrt(1/2) of the scale over the root.
    root[search] = np.sqrt(0.5) * guess[search] / left[search]
    if start is not None:
        root = np.where(search & (start > MIN_ROOT) & (start < MAX_ROOT), start, root)
    return _search_roots(rows, left, np.clip(root, MIN_ROOT, MAX_ROOT), search, spacing)


def _search_roots(
    rows: PriceRows, budget: Floats, root: Floats, search: Flags, spacing: LookupSpacing
) -> Floats:
    low, high = np.full(len(root), MIN_ROOT), np.full(len(root), MAX_ROOT)
    for turn in range(_MAX_STEPS):
        if not search.any():
            break
        searching = search[rows.group]
        if np.count_nonzero(searching) < 0.6 * len(rows.pace):
            rows = rows.select(searching)
        spent, falls = np.zeros(len(root)), np.zeros(len(root))
        for part in iterate_chunks(len(rows.pace)):
            _, amounts, slopes = rows.compute_spending(root, spacing, part)
            add_to_groups(spent, rows.group[part], amounts)
            add_to_groups(falls, rows.group[part], slopes)
        fits = spent <= (1.0 - _SUM_TOLERANCE) * budget
        high = np.where(search & fits, root, high)
        low = np.where(search & ~fits, root, low)
        near = fits & (spent >= (1.0 - ROOT_TOLERANCE) * budget)
        done = near | (high <= low * (1.0 + _ROOT_EPSILON)) | (turn + 1 == _MAX_STEPS)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A hair under the budget, so that the last step ends on the side that fits.
            step = np.log(spent / ((1.0 - 0.5 * ROOT_TOLERANCE) * budget)) * (spent / falls)
            newton = root * np.exp(np.clip(step, -_MAX_LOG_STEP, _MAX_LOG_STEP))
        bounded = (low > MIN_ROOT) & (high < MAX_ROOT)
        stride = np.exp(np.where(fits, -1.0, 1.0) * 2.0 ** min(turn, 6))
        slow = np.where(
            bounded, np.sqrt(low) * np.sqrt(high), np.clip(root * stride, MIN_ROOT, MAX_ROOT)
        )
        # Where one account's lookups end all at once, Newton would creep: halving does not.
        follows = (newton > low) & (newton < high) & ((turn < _NEWTON_STEPS) | (turn % 2 == 0))
        moved = np.where(done, high, np.where(follows, newton, slow))
        root = np.where(search, moved, root)
        search = search & ~done
    return root
