"""Compute the value of a lookup by the age of the copy it would replace.

The value grows while the copy ages: it is the integral of t times the growth of the penalty of a
copy of age t. Under the best plan every account is looked up when that value, times the account's
value, has grown to the price of its calls. The penalty is one of two: `freshness` counts an
outdated copy as 1, however outdated; `harmonic` counts the first missed change as 1, the second as
1/2, the third as 1/3, and so never gives up on accounts that change a lot. Results are per unit of
an account's value and in days; over columns, by an estimate or by a known rate.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import MAX_AGE, ChangeRates, Floats, to_ages, validate_column

_SERIES_BELOW = (
    0.02  # below this the closed forms lose digits, and the first few terms of a series do not
)

_TERMS = 8

_MIN_DAYS = 1e-15  # days

_MAX_RATE = 1e30  # changes a day; whatever is faster is as fast as this

_AGE_TOLERANCE = 1e-12  # of an interval

_MAX_AGE_STEPS = 100


class Objective(StrEnum):
    """What an outdated copy costs."""

    HARMONIC = "harmonic"
    FRESHNESS = "freshness"


def compute_refresh_value(beliefs: ChangeRates, age: ArrayLike, *, objective: Objective) -> Floats:
    """Return the value of a lookup at this age, by the estimated change rates."""
    return beliefs.days * _compute_by_estimate(
        beliefs.changes, to_ages(age) / beliefs.days, objective
    )


def compute_value_at_rate(rate: ArrayLike, age: ArrayLike, *, objective: Objective) -> Floats:
    """Return the value of a lookup at this age, by known change rates per day."""
    days = to_ages(age)
    return days * _compute_by_rate(_validate_rates(rate) * days, objective)


def compute_interval(beliefs: ChangeRates, worth_at: ArrayLike, *, objective: Objective) -> Floats:
    """Return the age in days at which a lookup is worth this much; infinite where it never is.

    Given the price of a lookup over the account's value, this is the account's lookup interval.
    """

    def grown(days: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        s = days / b
        z = np.log1p(s)
        if objective == Objective.HARMONIC:
            slope = -np.expm1(-a * z)
        else:
            slope = a * (s / (1.0 + s)) * np.exp(-a * z)
        return b * _compute_by_estimate(a, s, objective), slope

    return _find_age(worth_at, beliefs.days_between, grown, beliefs.changes, beliefs.days)


def compute_interval_at_rate(
    rate: ArrayLike, worth_at: ArrayLike, *, objective: Objective
) -> Floats:
    """Return `compute_interval` by known change rates per day."""
    rates = _validate_rates(rate)

    def grown(days: Floats, rate: Floats) -> tuple[Floats, Floats]:
        x = rate * days
        slope = -np.expm1(-x) if objective == Objective.HARMONIC else x * np.exp(-x)
        return days * _compute_by_rate(x, objective), slope

    between = 1.0 / np.maximum(rates, 1.0 / MAX_AGE)
    return _find_age(worth_at, between, grown, rates)


def compute_stale_share(x: Floats) -> Floats:
    """Return the share of time a copy is out of date with x changes between two lookups."""
    return _compute_by_rate(x, Objective.HARMONIC)


def compute_account_value(every: ArrayLike, prior: ChangeRates, *, objective: Objective) -> Floats:
    """Return the value at which an account without history is worth 1 after this many days.

    So at a price of 1 a tier's accounts are looked up as often as the tier says, until lookups have
    shown that they change more or less than estimated.
    """
    days = to_ages(every)
    if days.size and days.min() < _MIN_DAYS:
        raise ConfigError("looks are more than 0 days apart")
    return 1.0 / compute_refresh_value(prior, days, objective=objective)


def _validate_rates(rate: ArrayLike) -> Floats:
    return np.minimum(validate_column(rate, what="a rate of changes"), _MAX_RATE)


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


def _compute_by_rate(x: Floats, objective: Objective) -> Floats:
    # In units of the age: harmonic (x - 1 + e^-x) / x, freshness (1 - e^-x (1+x)) / x.
    safe = np.maximum(x, _SERIES_BELOW)
    gone = -np.expm1(-safe)
    if objective == Objective.HARMONIC:
        values = (safe - gone) / safe
    else:
        values = (gone - safe * np.exp(-safe)) / safe
    small = x < _SERIES_BELOW
    if small.any():
        short = x[small]
        values[small] = short * _compute_series(lambda _: short, objective)
    return values


def _compute_series(step: Callable[[int], Floats], objective: Objective) -> Floats:
    """Return 1/2 - … , the first terms of either worth over its leading power."""
    total = np.asarray(1.0)
    for k in range(_TERMS, 0, -1):
        share = 1 / (k + 2) if objective == Objective.HARMONIC else (k + 1) / (k * (k + 2))
        total = 1.0 - share * step(k) * total
    return 0.5 * total


def _find_age(
    worth_at: ArrayLike,
    between: Floats,
    grown: Callable[..., tuple[Floats, Floats]],
    *columns: Floats,
) -> Floats:
    # Newton on log worth by log age: both penalties bend one way there, and the age at which a
    # lookup would be worth this much if nothing bent is never too old. Every turn makes the bracket
    # smaller, a step that leaves it halves it instead, and rows that have converged leave.
    wanted = validate_column(worth_at, what="the worth of a look")
    shape = np.broadcast_shapes(wanted.shape, between.shape)
    goal, start, *rest = (
        np.broadcast_to(each, shape).ravel() for each in (wanted, between, *columns)
    )
    most, _ = grown(np.full(goal.shape, MAX_AGE), *rest)
    ages = np.where(goal > most, np.inf, 0.0)
    rows = np.flatnonzero((goal > 0.0) & (goal <= most))
    goal, rest = goal[rows], [column[rows] for column in rest]
    at = np.log(np.clip(np.sqrt(2.0 * goal) * np.sqrt(start[rows]), _MIN_DAYS, MAX_AGE))
    low, high = np.full(at.shape, np.log(_MIN_DAYS)), np.full(at.shape, np.log(MAX_AGE))
    for _ in range(_MAX_AGE_STEPS):
        days = np.exp(at)
        reached, slope = grown(days, *rest)
        below = reached < goal
        low, high = np.where(below, at, low), np.where(below, high, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.log(goal / reached) * reached / (slope * days)
        close = np.abs(step) <= _AGE_TOLERANCE
        inside = (at + step > low) & (at + step < high)
        at = np.where(inside | close, at + step, 0.5 * (low + high))
        ages[rows] = np.exp(at)
        open_ = ~(close | (high - low <= _AGE_TOLERANCE))
        if not open_.any():
            break
        goal, at, low, high = goal[open_], at[open_], low[open_], high[open_]
        rows, rest = rows[open_], [column[open_] for column in rest]
    return ages.reshape(shape)
