"""Compare lookup policies on the same accounts at the same budget, beside the bound.

The bound is the product's own certificate, for accounts that change at steady rates: no policy
without knowledge of the changes does better. Recorded changes have no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from stoker.heat.beliefs import build_prior
from stoker.heat.model import BY_RANK, Tier
from stoker.heat.settings import ChangeRateRule, TierRule
from stoker.pulls.columns import (
    PullLimits,
    compute_account_values,
    to_epoch_days,
    validate_accounts,
)
from stoker.pulls.planner import plan_pulls
from stoker.pulls.rates import RateProblem, compute_rate_plan
from stoker.pulls.settings import Objective, PullRule
from stoker.simulation import policies as pull_policies
from stoker.simulation.policies import (
    START,
    TIER_INTERVALS,
    TIER_SHARES,
    TIERS_BUDGET,
    LookupCosts,
    LookupPolicy,
    ProductPolicy,
)
from stoker.simulation.pull_run import PolicyResult, run_policy
from stoker.simulation.world import SimWorld, SteadyChanges

HARMONIC, FRESHNESS = PullRule(), PullRule(objective=Objective.FRESHNESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What no policy can beat at a budget: at most so fresh, at least so many changes missed."""

    freshness: float
    harmonic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """What came of every policy, the product's own first."""

    policies: tuple[PolicyResult, ...]
    bounds: Bounds | None  # of recorded changes there are none

    @property
    def tiers(self) -> PolicyResult:
        """Return what came of tiers, which the others are held against."""
        return next(
            result for result in self.policies if result.policy == pull_policies.build_tiers().name
        )


def compare_policies(
    world: SimWorld, *, budget: float, days: int, seed: int = 0
) -> PolicyComparison:
    """Return every policy's results at so many units per account and day. Raises ConfigError."""
    policies: tuple[LookupPolicy, ...] = (
        ProductPolicy(name="optimal", world=world, rule=HARMONIC),
        ProductPolicy(name="optimal, for freshness", world=world, rule=FRESHNESS),
        ProductPolicy(name="optimal, rates known", world=world, rule=HARMONIC, known=True),
        pull_policies.build_tiers(),
        pull_policies.build_hot_first(),
        pull_policies.build_hottest(),
        pull_policies.build_uniform(),
        pull_policies.build_by_value(world),
        pull_policies.build_by_heat(),
        pull_policies.build_by_rate(world),
    )
    return PolicyComparison(
        policies=tuple(
            run_policy(policy, world, budget=budget, days=days, seed=seed) for policy in policies
        ),
        bounds=compute_bounds(world, budget=budget),
    )


def compute_bounds(
    world: SimWorld, *, budget: float, costs: LookupCosts | None = None
) -> Bounds | None:
    """Return what no policy of at most one lookup a day can beat with so many units per account.

    With a deep level a deep lookup counts as two separate ones, so the bound holds and is a little
    looser.
    """
    costs = costs or LookupCosts()
    if not all(isinstance(facet.changes, SteadyChanges) for facet in world.levels):
        return None
    number = len(world)
    prices = (costs.shallow, costs.deep - costs.shallow)[: len(world.levels)]
    problem = RateProblem(
        value=np.concatenate([facet.value for facet in world.levels]),
        changes=np.concatenate([facet.changes.rates for facet in world.levels]),
        cost=np.repeat(np.array(prices, np.float64), number),
        budget=budget * number,
    )
    least = {
        objective: compute_rate_plan(problem, objective=objective).bound
        / float(problem.value.sum())
        for objective in Objective
    }
    return Bounds(freshness=1 - least[Objective.FRESHNESS], harmonic=least[Objective.HARMONIC])


def find_lookups_needed(
    make: Callable[[], LookupPolicy],
    world: SimWorld,
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

    def compute_freshness(share: float) -> float:
        return run_policy(
            make(), world, budget=share * budget, days=days, seed=seed
        ).tally.freshness

    low, high = 0.5, 1.0
    below, above = compute_freshness(low), compute_freshness(high)
    if above < freshness:
        return 1.0
    for _ in range(turns - 2):
        share = _interpolate(low, high, below, above, freshness)
        at = compute_freshness(share)
        if at < freshness:
            low, below = share, at
        else:
            high, above = share, at
    return _interpolate(low, high, below, above, freshness)


def _interpolate(low: float, high: float, below: float, above: float, wanted: float) -> float:
    # Each further lookup brings a little less, so on a straight line it takes rather more of them.
    return low + (high - low) * min(max((wanted - below) / max(above - below, 1e-12), 0.0), 1.0)


def compute_prior_intervals(
    *, accounts: int, days: int, times: float = 1.0, rule: PullRule = HARMONIC
) -> dict[Tier, float]:
    """Return the days between lookups by tier, of accounts without history.

    At `times` the cost of the tiers' own lookups, by the product's values and priors.
    """
    rule = replace(
        rule,
        tiers=TierRule(
            hot_every=timedelta(days=TIER_INTERVALS[2]),
            warm_every=timedelta(days=TIER_INTERVALS[1]),
            cold_every=timedelta(days=TIER_INTERVALS[0]),
            coldest_every=timedelta(days=TIER_INTERVALS[0]),
        ),
    )
    rank = np.repeat(
        np.arange(3), np.diff(np.round(accounts * np.cumsum([0.0, *TIER_SHARES])).astype(int))
    )
    believed = ChangeRateRule()
    one, half, zero = np.ones(len(rank), np.int64), np.full(len(rank), 0.5), np.zeros(len(rank))
    value, _ = compute_account_values(
        tier=rank,
        heat=zero,
        quiet=zero,
        posture=half,
        units=one,
        deep_units=one,
        rule=rule,
        beliefs=believed,
    )
    looked = -TIER_INTERVALS[rank] * np.random.default_rng(0).random(len(rank))
    looks = np.zeros(len(BY_RANK))
    need, begin = times * TIERS_BUDGET * len(rank), days // 2
    for day in range(days):
        today = to_epoch_days(START) + day
        plan = plan_pulls(
            validate_accounts(
                build_prior(believed, rank), looked=looked + today - day, value=value, tier=rank
            ),
            PullLimits(budget=int((day + 1) * need) - int(day * need)),
            now=START + timedelta(days=day),
            rule=rule,
        )
        looked[plan.chosen] = day
        if day >= begin:
            looks += np.bincount(rank[plan.chosen], minlength=len(BY_RANK))
    there = np.bincount(rank, minlength=len(BY_RANK))
    return {tier: float(there[tier.rank] * (days - begin) / looks[tier.rank]) for tier in Tier}
