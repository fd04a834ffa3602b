"""The penalty of a copy from its definition, slowly, in as many digits as it takes."""

from decimal import Decimal, localcontext

from stoker.pulls.worth import Objective

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
