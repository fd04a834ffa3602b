"""Compute what being up to date about accounts is worth: by fit, by what lookups brought.

An account is first worth what its place among the tenant's accounts by posture makes likely. What
lookups that found a change brought (a contact, a better score) is learned, as far as it says more
than chance does (Bühlmann's credibility). A value stated by a person replaces the
guess. Nothing here knows tiers, heat, intervals or costs: a signal, a sweep or a change of tier
leaves every value as it is. Functions take whole columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoker.pulls.settings import PullRule

Floats = NDArray[np.float64]

_MIN_REPEATED = 30  # accounts of two yields or more, below which nothing is learned from them
_MIN_BETWEEN = 0.001  # of the spread within accounts; less says that accounts do not differ


def compute_guess(posture: NDArray[np.float32], *, spread: float) -> Floats:
    """Return what accounts are worth by their place among these postures, the middle one being 1.

    The place of an account is the share of those with less posture, and half of those with as much.
    `spread` is what the 84th of 100 is worth.
    """
    _, which, counts = np.unique(posture, return_inverse=True, return_counts=True)
    places = (np.cumsum(counts) - counts / 2.0) / max(len(posture), 1)
    return np.asarray(np.power(spread, compute_normal_quantile(places))[which])


def compute_values(
    posture: NDArray[np.float32],
    *,
    rule: PullRule,
    stated: Floats | None = None,
    yields: tuple[Floats, Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Return the values of accounts: of the surface, and of what only deep lookups refresh.

    `stated` values have nan where there is none. `yields` are by account: lookups that found a
    change, what they brought together, and the sum of its squares.
    """
    value = compute_guess(posture, spread=rule.value_spread)
    if stated is not None:
        value = replace_by_stated(value, stated)
    if yields is not None and rule.learn_yields:
        value = add_yields(value, *yields)
    return (1.0 - rule.deep_share) * value, rule.deep_share * value


def replace_by_stated(guess: Floats, stated: Floats) -> Floats:
    """Return stated values where there are any, scaled so that their median is the guess's."""
    there = np.isfinite(stated) & (stated > 0)
    if not there.any():
        return guess
    scale = float(np.median(guess[there]) / np.median(stated[there]))
    return np.where(there, stated * scale, guess)


def add_yields(guess: Floats, looks: Floats, total: Floats, squares: Floats) -> Floats:
    """Return values between the guess and what lookups brought, by how much that tells.

    One yield counts as much as `1 / k` of the guess, where k is the spread of yields within
    accounts over that between accounts.
    """
    expected = float(guess @ looks)
    scale = float(total.sum()) / expected if expected > 0 else 0.0
    k = estimate_credibility(guess * scale, looks, total, squares)
    if not np.isfinite(k):
        return guess
    # In units of the guess again, so that values do not jump when the first yields come in.
    return np.asarray((k * guess + total / scale) / (k + looks))


def estimate_credibility(expected: Floats, looks: Floats, total: Floats, squares: Floats) -> float:
    """Return Bühlmann's k of yields over what was expected; infinite where they tell nothing."""
    rows = np.flatnonzero((looks >= 2) & (expected > 0))
    if len(rows) < _MIN_REPEATED:
        return float("inf")
    m, each = looks[rows], expected[rows]
    mean, of_squares = total[rows] / each, squares[rows] / each**2
    within = float((of_squares - mean**2 / m).sum() / (m - 1).sum())
    average = mean / m
    overall = float(mean.sum() / m.sum())
    whole = float(m.sum())
    spread = float((m * (average - overall) ** 2).sum()) - (len(rows) - 1) * within
    between = spread / (whole - float((m**2).sum()) / whole)
    if within <= 0:
        return 0.0 if between > 0 else float("inf")
    return within / between if between > _MIN_BETWEEN * within else float("inf")


# Acklam's rational approximation, exact to nine digits.
_A = np.array(
    [
        *(-39.69683028665376, 220.9460984245205, -275.9285104469687),
        *(138.3577518672690, -30.66479806614716, 2.506628277459239),
    ]
)
_B = np.array(
    [
        *(-54.47609879822406, 161.5858368580409, -155.6989798598866),
        *(66.80131188771972, -13.28068155288572, 1.0),
    ]
)
_C = np.array(
    [
        *(-0.007784894002430293, -0.3223964580411365, -2.400758277161838),
        *(-2.549732539343734, 4.374664141464968, 2.938163982698783),
    ]
)
_D = np.array([0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0])
_LOW = 0.02425


def compute_normal_quantile(share: Floats) -> Floats:
    """Return the standard normal distribution's quantiles; shares are above 0 and below 1."""
    q = share - 0.5
    r = q * q
    quantile = np.polyval(_A, r) * q / np.polyval(_B, r)
    tail = np.minimum(share, 1.0 - share)
    far = np.flatnonzero(tail < _LOW)
    s = np.sqrt(-2.0 * np.log(tail[far]))
    quantile[far] = -np.sign(q[far]) * np.polyval(_C, s) / np.polyval(_D, s)
    return np.asarray(quantile)
