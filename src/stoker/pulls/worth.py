"""Compute the value of a lookup by the age of the copy it would replace.

The value grows while the copy ages: it is the integral of t times the growth of the penalty of a
copy of age t. Under the best plan every account is looked up when that value, times the account's
value, has grown to the price of its calls. The penalty is one of two: `freshness` counts an
outdated copy as 1, however outdated; `harmonic` counts the first missed change as 1, the second as
1/2, the third as 1/3, and so never gives up on accounts that change a lot. Results are per unit of
an account's value and in days; over columns.

The best spacing of lookups at a price follows from y = price x cost x changes / value alone, with x
the changes expected between two lookups. It is read from tables, because a plan needs millions of
them several times: of u / x by u = sqrt(y), which is smooth where accounts are. The error is a few
parts in ten million at worst, at an optimum that is flat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import ChangeRates, Floats, to_ages
from stoker.pulls.settings import Objective

_SERIES_BELOW = 0.02  # where closed forms lose digits, and the first terms of a series do not
_TERMS = 8
_MIN_DAYS = 1e-15

_CELLS = 16_384
_SERIES_LIMIT = 6.0  # for u, and for sqrt(x): from here on e^-x is nothing
_EDGE = 0.995  # from here to 1 freshness bends too much for a table
_MAX_LOST = 1.0 - 5e-10  # from here to 1 no float tells the best rates apart: they fall in a line
_EULER = 0.5772156649015329


def compute_refresh_value(beliefs: ChangeRates, age: ArrayLike, *, objective: Objective) -> Floats:
    """Return the value of a lookup at this age, by the estimated change rates."""
    return beliefs.days * _compute_by_estimate(
        beliefs.changes, to_ages(age) / beliefs.days, objective
    )


def compute_stale_share(x: Floats) -> Floats:
    """Return the share of time a copy is out of date with x changes between two lookups."""
    safe = np.maximum(x, _SERIES_BELOW)
    share = (safe + np.expm1(-safe)) / safe
    small = x < _SERIES_BELOW
    if small.any():
        short = x[small]
        share[small] = short * _compute_series(lambda _: short, Objective.HARMONIC)
    return share


def compute_account_value(every: ArrayLike, prior: ChangeRates, *, objective: Objective) -> Floats:
    """Return the value at which an account without history is worth 1 after this many days.

    So at a price of 1 a tier's accounts are looked up as often as the tier says, until lookups have
    shown that they change more or less than estimated.
    """
    days = to_ages(every)
    if days.size and days.min() < _MIN_DAYS:
        raise ConfigError("looks are more than 0 days apart")
    return 1.0 / compute_refresh_value(prior, days, objective=objective)


def _compute_by_estimate(a: Floats, s: Floats, objective: Objective) -> Floats:
    # In units of the estimate's days, with s = t/b. The expected time the copy was fresh
    # is J = (1 - (1+s)^(1-a)) / (a-1); harmonic is s - J, freshness J - s (1+s)^-a.
    a, s = np.broadcast_arrays(a, s)
    z = np.log1p(s)
    stale = -np.expm1(-a * z)
    # Two forms of the same: one cannot be used at a = 1, the other loses digits near a = 0.
    rare = np.maximum(a, a * z) < 0.5
    grown = (1.0 - a) * z
    over = np.where(grown == 0.0, 1.0, grown)
    fresh_time = z * np.where(grown == 0.0, 1.0, np.expm1(over) / over)
    lost = ((1.0 + s) * stale - a * s) / np.where(rare, 1.0 - a, 1.0)
    if objective == Objective.HARMONIC:
        worth = np.where(rare, lost, s - fresh_time)
    else:
        worth = np.where(rare, s * stale - lost, fresh_time - s * np.exp(-a * z))
    small = (a + 1.0) * s < _SERIES_BELOW
    if small.any():
        few, short = a[small], s[small]
        worth[small] = few * short * short * _compute_series(lambda k: (few + k) * short, objective)
    return np.maximum(worth, 0.0)


def _compute_series(step: Callable[[int], Floats], objective: Objective) -> Floats:
    """Return 1/2 - … , the first terms of either worth over its leading power."""
    total = np.asarray(1.0)
    for k in range(_TERMS, 0, -1):
        share = 1 / (k + 2) if objective == Objective.HARMONIC else (k + 1) / (k * (k + 2))
        total = 1.0 - share * step(k) * total
    return 0.5 * total


@dataclass(frozen=True, slots=True)
class LookupSpacing:
    """Best spacings for one objective."""

    objective: Objective
    start: Floats  # of each cell
    rise: Floats
    per_unit: float  # cells

    def compute_frequency(self, u: Floats) -> tuple[Floats, Floats]:
        """Return u / x, and by how much it changes with u.

        An account's lookup rate at a price is sqrt(value x changes / cost / price) times this.
        """
        place = np.minimum(u * self.per_unit, float(_CELLS))
        cell = place.astype(np.intp)
        rise = self.rise[cell]
        share = self.start[cell] + (place - cell) * rise
        slope = rise * self.per_unit
        if self.objective == Objective.HARMONIC:
            far = np.flatnonzero(u >= _SERIES_LIMIT)
            if far.size:
                # x = 1 + u^2 there; divided through by u, as u^2 may be beyond all floats.
                over = 1.0 / u[far]
                share[far] = 1.0 / (u[far] + over)
                slope[far] = -(share[far] ** 2) * (1.0 - over * over)
        else:
            edge = np.flatnonzero((u > _EDGE) & (u < 1.0))
            if edge.size:
                share[edge], slope[edge] = _expand_near_one(u[edge])
        return share, slope

    def compute_penalty(self, x: Floats) -> Floats:
        """Return the penalty of a copy, averaged over time, with x changes between two lookups."""
        stale = compute_stale_share(x)
        if self.objective == Objective.FRESHNESS:
            return stale
        start, rise = _build_ein_table()
        place = np.minimum(np.sqrt(x) * (_CELLS / _SERIES_LIMIT), float(_CELLS))
        cell = place.astype(np.intp)
        ein = x * (start[cell] + (place - cell) * rise[cell])
        far = np.flatnonzero(place == _CELLS)
        ein[far] = np.log(x[far]) + _EULER
        return ein - stale


@lru_cache
def get_spacing(objective: Objective) -> LookupSpacing:
    """Return the best spacings for an objective."""
    end = _SERIES_LIMIT if objective == Objective.HARMONIC else 1.0
    u = np.linspace(0.0, end, _CELLS + 1)
    share = np.full(u.shape, np.sqrt(0.5))
    if objective == Objective.HARMONIC:
        share[1:] = u[1:] / _solve_harmonic(u[1:] * u[1:])
    else:
        share[1:-1] = u[1:-1] / _solve_freshness(-np.log1p(-u[1:-1] * u[1:-1]))
        share[-1] = 0.0
    return LookupSpacing(objective, share, np.append(np.diff(share), 0.0), _CELLS / end)


def _solve_harmonic(y: Floats) -> Floats:
    # x - 1 + e^-x = y. Convex, and from above: Newton only ever comes down to it.
    x = y + np.sqrt(2.0 * y)
    for _ in range(8):
        x = x - (x * compute_stale_share(x) - y) / -np.expm1(-x)
    return x


def _solve_freshness(lost: Floats) -> Floats:
    # e^-x (1 + x) = e^-lost, that is x - log(1 + x) = lost; convex too, and from above.
    x = lost + np.sqrt(2.0 * lost)
    for _ in range(8):
        x = x - (x - np.log1p(x) - lost) * (1.0 + x) / x
    return x


def _expand_near_one(u: Floats) -> tuple[Floats, Floats]:
    short = np.minimum(u, _MAX_LOST)
    left = (1.0 - short) * (1.0 + short)
    x = _solve_freshness(-np.log(left))
    share = short / x
    # -dlog(rate)/dlog(price) is y (1+x) / ((1-y) x^2), and the rate goes with share / sqrt(price).
    slope = 1.0 / x - 2.0 * share * short * (1.0 + x) / (left * x * x)
    line = u > _MAX_LOST
    ramp = share / (1.0 - _MAX_LOST)
    return np.where(line, ramp * (1.0 - u), share), np.where(line, -ramp, slope)


@lru_cache
def _build_ein_table() -> tuple[Floats, Floats]:
    # Ein(x) = integral of (1 - e^-s) / s, by v = sqrt(x): three points of Gauss in each cell.
    edges = np.linspace(0.0, _SERIES_LIMIT, _CELLS + 1)
    half = 0.5 * _SERIES_LIMIT / _CELLS
    total = np.zeros(_CELLS)
    for point, weight in ((-np.sqrt(0.6), 5 / 9), (0.0, 8 / 9), (np.sqrt(0.6), 5 / 9)):
        v = edges[:-1] + half * (1.0 + point)
        total += weight * -np.expm1(-v * v) / v
    ein = np.cumsum(2.0 * half * total)
    share = np.append(1.0, ein / edges[1:] ** 2)
    return share, np.append(np.diff(share), 0.0)
