"""The penalty of a copy from its definition, slowly, in as many digits as it takes."""

from decimal import Decimal, localcontext

import numpy as np

from stoker.pulls.settings import Objective

EULER = Decimal("0.57721566490153286060651209008240243104215933593992")


def exact_penalty(x, objective):
    """The mean penalty with x changes between looks, from its series, in enough digits."""
    with localcontext() as context:
        context.prec = 120
        x = Decimal(x)
        stale = 1 - (1 - (-x).exp()) / x if x else Decimal(0)
        if objective is Objective.FRESHNESS:
            return float(stale)
        if x > 100:
            return float(x.ln() + EULER - stale)
        ein, term = Decimal(0), Decimal(1)
        for k in range(1, 500):
            term *= -x / k
            ein -= term / k
        return float(ein - stale)


def worth_at_rate(rate, age, objective):
    """The worth of a look at this age where the rate of changes is known."""
    x = np.asarray(rate * age, np.float64)
    small, sure = np.minimum(x, 1e-3), np.maximum(x, 1e-3)
    if objective is Objective.HARMONIC:
        series = small / 2 * (1 - small / 3 + small**2 / 12)
        closed = 1 + np.expm1(-sure) / sure
    else:
        series = small / 2 * (1 - 2 * small / 3 + small**2 / 4)
        closed = -np.expm1(-sure) / sure - np.exp(-sure)
    return age * np.where(x < 1e-3, series, closed)


def interval_at_rate(rate, need, objective):
    """The age at which a look is worth so much where the rate is known, by halving; or infinite."""
    low, high = np.full(np.shape(need), -15.0), np.full(np.shape(need), 9.0)
    never = worth_at_rate(rate, 10**high, objective) < need
    for _ in range(80):
        middle = (low + high) / 2
        enough = worth_at_rate(rate, 10**middle, objective) >= need
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(never, np.inf, 10**high)
