"""What an account is worth to its tenant: a value for what any look refreshes, one for the rest.

Set by the tier and bent by posture. Without history, at a price of one unit of worth per unit of
cost, every account of middling posture is looked at exactly as often, and as deep, as its tier
says; better postures more often, others less. What was learned of its changes is `beliefs`'.
"""

from __future__ import annotations

import numpy as np

from stoker.core.beliefs import BeliefRule, Floats
from stoker.core.pull_columns import Column, PullRule, days
from stoker.core.tiers import Tier, intervals
from stoker.core.worth import value_of

_MIDDLING = 0.5


def account_values(
    *,
    tier: Column,
    heat: Column,
    quiet: Column,
    posture: Column,
    units: Column,
    deep_units: Column,
    rule: PullRule,
    beliefs: BeliefRule,
) -> tuple[Floats, Floats]:
    """Return the values of accounts by their tiers and postures: of the surface, of the deep.

    Tiers are ranks, `quiet` is days in the tier, costs are units of a shallow and a deep look.
    """
    prior = beliefs.prior(tier)
    every = intervals(tier, heat, quiet, rule=rule.tiers)
    deep_every = np.where(tier == Tier.HOT.rank, every, days(rule.deep_again))
    bent = posture_factor(posture, rule=rule)
    surface = units * value_of(every, prior, objective=rule.objective)
    deep = (deep_units - units) * value_of(deep_every, prior, objective=rule.objective)
    return bent * surface, bent * deep


def posture_factor(posture: Column, *, rule: PullRule) -> Floats:
    """Return how many times an account of middling posture one of this posture is worth."""
    return np.power(rule.value_spread, 2.0 * (np.asarray(posture, np.float64) - _MIDDLING))
