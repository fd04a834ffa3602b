"""Policies of looking side by side, on the same accounts at the same budget, beside the bound.

The bound is the product's own certificate, for accounts that change by chance at steady rates: no
policy that is not told of changes does better, whatever it knows. Recorded changes have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from stoker.heat.beliefs import BeliefRule
from stoker.heat.tiers import BY_RANK, Tier, TierRule
from stoker.pulls.columns import PullRule, account_values, accounts_of, in_days, limits_of
from stoker.pulls.planner import plan_day
from stoker.pulls.rate_problem import Demand, Limits
from stoker.pulls.rates import plan_rates
from stoker.pulls.worth import Objective
from stoker.simulation import policies as pull_policies
from stoker.simulation.policies import BEGINNING, EVERY, SHARES, TIERS_NEED, Costs, Planned, Policy
from stoker.simulation.pull_run import Kept, kept_by
from stoker.simulation.world import Steady, World

HARMONIC, FRESHNESS = PullRule(), PullRule(objective=Objective.FRESHNESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What no policy can beat at a budget: at most so fresh, at least so many changes missed."""

    freshness: float
    harmonic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came of every policy, the product's own first."""

    policies: tuple[Kept, ...]
    bounds: Bounds | None  # of recorded changes there are none

    @property
    def tiers(self) -> Kept:
        """Return what came of tiers, which the others are held against."""
        return next(kept for kept in self.policies if kept.policy == pull_policies.tiers().name)


def compared(world: World, *, budget: float, days: int, seed: int = 0) -> Compared:
    """Return how every policy does with so many looks per account and day. Raises ConfigError."""
    policies: tuple[Policy, ...] = (
        Planned(name="optimal", world=world, rule=HARMONIC),
        Planned(name="optimal, for freshness", world=world, rule=FRESHNESS),
        Planned(name="optimal, rates known", world=world, rule=HARMONIC, known=True),
        pull_policies.tiers(),
        pull_policies.hot_first(),
        pull_policies.hottest(),
        pull_policies.uniform(),
        pull_policies.by_value(world),
        pull_policies.by_heat(),
        pull_policies.by_rate(world),
    )
    return Compared(
        policies=tuple(
            kept_by(policy, world, budget=budget, days=days, seed=seed) for policy in policies
        ),
        bounds=bounds(world, budget=budget),
    )


def bounds(world: World, *, budget: float, costs: Costs | None = None) -> Bounds | None:
    """Return what no policy of at most a look a day can beat with so many units per account.

    With a deep facet a deep look is counted as two that can be had apart, so the bound holds and
    is a little further away.
    """
    costs = costs or Costs()
    if not all(isinstance(facet.changes, Steady) for facet in world.facets):
        return None
    number = len(world)
    prices = (costs.shallow, costs.deep - costs.shallow)[: len(world.facets)]
    demand = Demand(
        value=np.concatenate([facet.value for facet in world.facets]),
        changes=np.concatenate([facet.changes.rates for facet in world.facets]),
        cost=np.repeat(np.array(prices, np.float64), number),
        tenant=np.zeros(number * len(prices), np.int32),
    )
    limits = Limits(budget=np.array([budget * number]))
    least = {
        objective: plan_rates(demand, limits, objective=objective).least_penalty
        / float(demand.value.sum())
        for objective in Objective
    }
    return Bounds(freshness=1 - least[Objective.FRESHNESS], harmonic=least[Objective.HARMONIC])


def looks_needed(
    make: Callable[[], Policy],
    world: World,
    *,
    freshness: float,
    budget: float,
    days: int,
    seed: int = 0,
    turns: int = 5,
) -> float:
    """Return which share of a budget a policy needs to reach a freshness, rather too much.

    At least half of it; 1 if all of it is not enough.
    """

    def reached(share: float) -> float:
        return kept_by(make(), world, budget=share * budget, days=days, seed=seed).tally.freshness

    low, high = 0.5, 1.0
    below, above = reached(low), reached(high)
    if above < freshness:
        return 1.0
    for _ in range(turns - 2):
        share = _between(low, high, below, above, freshness)
        at = reached(share)
        if at < freshness:
            low, below = share, at
        else:
            high, above = share, at
    return _between(low, high, below, above, freshness)


def _between(low: float, high: float, below: float, above: float, wanted: float) -> float:
    # Each further look brings a little less, so on a straight line it takes rather more of them.
    return low + (high - low) * min(max((wanted - below) / max(above - below, 1e-12), 0.0), 1.0)


def cadence_without_history(
    *, accounts: int, days: int, times: float = 1.0, rule: PullRule = HARMONIC
) -> dict[Tier, float]:
    """Return the days between looks by tier, of accounts nothing was ever learned about.

    At `times` what the tiers' own looks cost, by the product's values and first beliefs.
    """
    rule = replace(
        rule,
        tiers=TierRule(
            hot_every=timedelta(days=EVERY[2]),
            warm_every=timedelta(days=EVERY[1]),
            cold_every=timedelta(days=EVERY[0]),
            coldest_every=timedelta(days=EVERY[0]),
        ),
    )
    rank = np.repeat(
        np.arange(3), np.diff(np.round(accounts * np.cumsum([0.0, *SHARES])).astype(int))
    )
    believed = BeliefRule()
    one, half, zero = np.ones(len(rank), np.int64), np.full(len(rank), 0.5), np.zeros(len(rank))
    value, _ = account_values(
        tier=rank,
        heat=zero,
        quiet=zero,
        posture=half,
        units=one,
        deep_units=one,
        rule=rule,
        beliefs=believed,
    )
    looked = -EVERY[rank] * np.random.default_rng(0).random(len(rank))
    looks = np.zeros(len(BY_RANK))
    need, begin = times * TIERS_NEED * len(rank), days // 2
    for day in range(days):
        today = in_days(BEGINNING) + day
        plan = plan_day(
            accounts_of(believed.prior(rank), looked=looked + today - day, value=value, tier=rank),
            limits_of(np.array([int((day + 1) * need) - int(day * need)])),
            now=BEGINNING + timedelta(days=day),
            rule=rule,
        )
        looked[plan.chosen] = day
        if day >= begin:
            looks += np.bincount(rank[plan.chosen], minlength=len(BY_RANK))
    there = np.bincount(rank, minlength=len(BY_RANK))
    return {tier: float(there[tier.rank] * (days - begin) / looks[tier.rank]) for tier in Tier}
