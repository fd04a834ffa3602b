"""What a look is worth, by the age of the copy it would replace.

The worth of a look grows while the copy ages: it is the integral of t times the growth of the
penalty of a copy of age t. Under the best plan every account is looked at when that worth, times
the account's value, has grown to the price of its calls. The penalty is one of two: `freshness`
counts an outdated copy as 1, however outdated; `harmonic` counts the first missed change as 1, the
second as 1/2, the third as 1/3, and so never gives up on accounts that change a lot. All of it is
per unit of an account's value and in days; over columns, by a belief or by a known rate.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from stoker.core.beliefs import LONGEST, Beliefs, Floats, aged, checked
from stoker.errors import ConfigError

_SMALL = 0.02  # below this the closed forms lose digits, and the first few terms of a series do not
_TERMS = 8
_SHORTEST = 1e-15  # days
_CLOSE = 1e-12  # of an interval
_TURNS = 100


class Objective(StrEnum):
    """What an outdated copy costs."""

    HARMONIC = "harmonic"
    FRESHNESS = "freshness"


def worth(beliefs: Beliefs, age: ArrayLike, *, objective: Objective) -> Floats:
    """Return what a look at this age is worth, by what is believed of each account's changes."""
    return beliefs.days * _by_belief(beliefs.changes, aged(age) / beliefs.days, objective)


def worth_known(rate: ArrayLike, age: ArrayLike, *, objective: Objective) -> Floats:
    """Return what a look at this age is worth where the rate of changes, per day, is known."""
    days = aged(age)
    return days * _by_rate(checked(rate, what="a rate of changes") * days, objective)


def interval(beliefs: Beliefs, worth_at: ArrayLike, *, objective: Objective) -> Floats:
    """Return the age in days at which a look is worth this much; infinite where it never is.

    Given the price of a look over the account's value, this is how often it is looked at.
    """

    def grown(days: Floats) -> tuple[Floats, Floats]:
        s = days / beliefs.days
        z = np.log1p(s)
        if objective is Objective.HARMONIC:
            slope = -np.expm1(-beliefs.changes * z)
        else:
            slope = beliefs.changes * (s / (1.0 + s)) * np.exp(-beliefs.changes * z)
        return beliefs.days * _by_belief(beliefs.changes, s, objective), slope

    return _age_at(worth_at, grown, shape=beliefs.days.shape)


def interval_known(rate: ArrayLike, worth_at: ArrayLike, *, objective: Objective) -> Floats:
    """Return the same where the rate of changes is known."""
    rates = checked(rate, what="a rate of changes")

    def grown(days: Floats) -> tuple[Floats, Floats]:
        x = rates * days
        # The slope by x itself: x e^-x has underflowed long after the worth stopped growing.
        slope = -np.expm1(-x) if objective is Objective.HARMONIC else x * np.exp(-x)
        return days * _by_rate(x, objective), slope

    return _age_at(worth_at, grown, shape=rates.shape)


def value_of(every: ArrayLike, prior: Beliefs, *, objective: Objective) -> Floats:
    """Return the value at which an account without history is worth 1 after this many days.

    So at a price of 1 a tier's accounts are looked at as often as the tier says, until looks have
    shown that they change more or less than was believed.
    """
    days = aged(every)
    if days.size and days.min() < _SHORTEST:
        raise ConfigError("looks are more than 0 days apart")
    return 1.0 / worth(prior, days, objective=objective)


def _by_belief(a: Floats, s: Floats, objective: Objective) -> Floats:
    # In units of the belief's days, with s = t/b. The time the copy is expected to have been fresh
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
    if objective is Objective.HARMONIC:
        found = np.where(rare, lost, s - fresh_time)
    else:
        found = np.where(rare, s * stale - lost, fresh_time - s * np.exp(-a * z))
    small = (a + 1.0) * s < _SMALL
    if small.any():
        few, short = a[small], s[small]
        found[small] = few * short * short * _series(lambda k: (few + k) * short, objective)
    return np.maximum(found, 0.0)


def _by_rate(x: Floats, objective: Objective) -> Floats:
    # In units of the age: harmonic (x - 1 + e^-x) / x, freshness (1 - e^-x (1+x)) / x.
    safe = np.maximum(x, _SMALL)
    gone = -np.expm1(-safe)
    if objective is Objective.HARMONIC:
        found = (safe - gone) / safe
    else:
        found = (gone - safe * np.exp(-safe)) / safe
    small = x < _SMALL
    if small.any():
        short = x[small]
        found[small] = short * _series(lambda _: short, objective)
    return found


def _series(step: Callable[[int], Floats], objective: Objective) -> Floats:
    """Return 1/2 - … , the first terms of either worth over its leading power."""
    total = np.asarray(1.0)
    for k in range(_TERMS, 0, -1):
        share = 1 / (k + 2) if objective is Objective.HARMONIC else (k + 1) / (k * (k + 2))
        total = 1.0 - share * step(k) * total
    return 0.5 * total


def _age_at(
    worth_at: ArrayLike,
    grown: Callable[[Floats], tuple[Floats, Floats]],
    *,
    shape: tuple[int, ...],
) -> Floats:
    # Newton on log worth by log age, where both penalties bend one way only, inside a bracket
    # that every turn makes smaller; a step that leaves the bracket halves it instead.
    target = checked(worth_at, what="the worth of a look")
    shape = np.broadcast_shapes(target.shape, shape)
    target = np.broadcast_to(target, shape)
    low, high = np.full(shape, np.log(_SHORTEST)), np.full(shape, np.log(LONGEST))
    most, _ = grown(np.full(shape, LONGEST))
    never, at = target > most, 0.5 * (low + high)
    settled = never | (target == 0.0)
    for _ in range(_TURNS):
        if settled.all():
            break
        days = np.exp(at)
        reached, slope = grown(days)
        below = reached < target
        low, high = np.where(below, at, low), np.where(below, high, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.log(target / reached) * reached / (slope * days)
        close = np.abs(step) <= _CLOSE
        inside = (at + step > low) & (at + step < high)
        following = np.where(inside | close, at + step, 0.5 * (low + high))
        at = np.where(settled, at, following)
        settled = settled | close | (high - low <= _CLOSE)
    found = np.where(never, np.inf, np.exp(at))
    return np.where(target == 0.0, 0.0, found)
