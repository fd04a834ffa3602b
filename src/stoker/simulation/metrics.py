"""Measure how fresh copies of accounts are, by four exact metrics.

The share of time a copy is up to date; the changes it has missed, the k-th counting 1/k; the value
left of a change when a lookup finds it; and how long that takes. Each is weighted by the account's
value. Changes at steady rates are integrated in closed form; nothing is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from stoker.heat.beliefs import Floats, Ints

VALUE_HALF_LIFE_DAYS = 14.0  # days in which an unfound change loses all but 37 % of its value

_EULER = 0.5772156649015329

_SERIES_LIMIT, _TERMS = 3.0, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpan:
    """The time from `since` until `now` that each account's copy of one lookup was in use."""

    accounts: Ints
    value: Floats
    looked_at: Floats  # when the copy was made, at or before `since`
    since: Floats
    now: float
    ends_in_lookup: bool  # otherwise the simulation ends, and what is not found stays unfound


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessTally:
    """What became of copies, each account weighed by its value. Tallies add up."""

    days: float = 0.0
    fresh: float = 0.0  # days with nothing missed
    missed: float = 0.0  # days times changes missed, the k-th counting 1/k
    changes: float = 0.0
    captured: float = 0.0  # changes found, each by what is left of its worth by then
    waited: float = 0.0  # days times changes that wait to be found

    def __add__(self, other: FreshnessTally) -> FreshnessTally:
        return FreshnessTally(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(self)
            }
        )

    @property
    def freshness(self) -> float:
        """Return the share of time that copies are up to date; of no time, all of it."""
        return self.fresh / self.days if self.days else 1.0

    @property
    def harmonic(self) -> float:
        """Return the changes that copies miss at a time, the k-th counting 1/k."""
        return self.missed / self.days if self.days else 0.0

    @property
    def capture(self) -> float:
        """Return the value that lookups find, as a share of all changes' value in the same time."""
        return self.captured / self.changes if self.changes else 1.0

    @property
    def delay(self) -> float:
        """Return the days from a change until it is found, on average."""
        # By how many wait at a time, which counts those that are never found as well.
        return self.waited / self.changes if self.changes else 0.0


def compute_steady_tally(rates: Floats, stretch: CopySpan) -> FreshnessTally:
    """Return what is expected of copies of accounts that change by chance at these rates."""
    value, days, whole = stretch.value, stretch.now - stretch.since, stretch.now - stretch.looked_at
    begin, end = rates * (stretch.since - stretch.looked_at), rates * whole
    # By the time's length rather than as a difference, which loses all digits at small rates.
    fresh = np.exp(-begin) * _compute_mean_decay(rates * days) * days
    missed = np.divide(
        integrate_ein(end) - integrate_ein(begin), rates, out=np.zeros_like(rates), where=rates > 0
    )
    rate = value * rates
    captured = (
        rate @ (VALUE_HALF_LIFE_DAYS * -np.expm1(-whole / VALUE_HALF_LIFE_DAYS))
        if stretch.ends_in_lookup
        else 0.0
    )
    return FreshnessTally(
        days=float(value @ days),
        fresh=float(value @ fresh),
        missed=float(value @ missed),
        changes=float(rate @ days),
        captured=float(captured),
        waited=float(rate @ (days * (whole - days / 2))),
    )


def integrate_ein(x: Floats) -> Floats:
    """Return the integral of `compute_ein` from 0 to x."""
    return x * compute_ein(x) - (x + np.expm1(-x))


def compute_ein(x: Floats) -> Floats:
    """Return the expected 1 + 1/2 + … + 1/N of a Poisson number N with this mean."""
    near, far = np.minimum(x, _SERIES_LIMIT), np.maximum(x, _SERIES_LIMIT)
    series = np.zeros_like(near)
    for k in range(_TERMS, 0, -1):  # x - x²/(2·2!) + x³/(3·3!) - …, innermost first
        series = near / k * (1.0 / k - series)
    fraction = far.copy()  # the rest of the logarithm, as a continued fraction
    for k in range(_TERMS, 0, -1):
        fraction = far + k / (1.0 + k / fraction)
    return np.where(x < _SERIES_LIMIT, series, np.log(far) + _EULER + np.exp(-far) / fraction)


def _compute_mean_decay(x: Floats) -> Floats:
    """Return the mean of e^-s for s from 0 to x."""
    return np.divide(-np.expm1(-x), x, out=np.ones_like(x), where=x > 0)
