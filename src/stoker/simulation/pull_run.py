"""Run lookup policies day after day on the same accounts and budget, beside the bound.

Every account has been looked up once before the first day and nothing else is known. Only the
second half is measured, when a policy that learns has had time to. The bound is the product's own
certificate, for accounts that change at steady rates: no policy without knowledge of the changes
does better. Recorded changes have no bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import Flags, Floats, Ints
from stoker.heat.heat import compute_scores
from stoker.heat.model import to_ticks
from stoker.heat.settings import HeatRule
from stoker.pulls.rates import RateProblem, compute_rate_plan
from stoker.pulls.settings import Objective
from stoker.simulation.metrics import CopySpan, FreshnessTally
from stoker.simulation.policies import (
    START,
    TIER_SHARES,
    TIERS,
    DayObservation,
    LookupCosts,
    LookupPolicy,
    list_policies,
)
from stoker.simulation.world import LEAD_DAYS, SimWorld, SteadyChanges, WorldLevel

_TICKS = to_ticks(START + timedelta(days=1)) - to_ticks(START)  # of a day


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """How fresh one policy had the copies, in the second half of a simulation."""

    policy: str
    tally: FreshnessTally
    looks: int
    deep_looks: int  # of them
    units: int  # that they took
    over: int  # units beyond a day's budget, over all days
    per_day: float  # units per account and day


class HeatTracker:
    """The heat of all accounts, from posture and found changes, by the product's formula."""

    def __init__(self, posture: Floats, *, rule: HeatRule) -> None:
        self._posture, self._rule = posture, rule
        self._peak, self._mass = np.zeros(len(posture)), np.zeros(len(posture))
        self._as_of = np.full(len(posture), to_ticks(START))

    def compute_heat_on(self, day: int) -> Floats:
        """Return the heat of all accounts, 0 to 1."""
        now = START + timedelta(days=day)
        signals = (self._peak, self._mass, self._as_of)
        return compute_scores(self._posture, *signals, now=now, rule=self._rule)[0]

    def add_changes(self, accounts: Ints, *, day: int) -> None:
        """Add a signal of full strength for each of these accounts."""
        now = to_ticks(START) + day * _TICKS
        days = (now - self._as_of[accounts]) / _TICKS
        self._mass[accounts] *= np.exp2(-days / (self._rule.half_life / timedelta(days=1)))
        self._mass[accounts] += 1.0
        self._peak[accounts] = 1.0
        self._as_of[accounts] = now


class DataCopies:
    """All accounts' copies of one level, and their freshness since a day."""

    def __init__(self, facet: WorldLevel, looked: Floats, *, measured_from: int) -> None:
        self._facet, self._looked, self._from = facet, looked, measured_from
        self.tally = FreshnessTally()

    def compute_ages(self, day: int) -> Floats:
        """Return the age of each copy in days."""
        return day - self._looked

    def refresh(self, accounts: Ints, *, day: int, luck: np.random.Generator) -> Flags:
        """Make new copies of these accounts; return which of the old ones were out of date."""
        looked = self._looked[accounts]
        self._measure(accounts, day, ends_in_look=True)
        self._looked[accounts] = day
        return self._facet.changes.find_changed(accounts, looked=looked, now=day, luck=luck)

    def finish(self, day: int) -> FreshnessTally:
        """Return what became of all copies up to this day."""
        self._measure(np.arange(len(self._looked)), day, ends_in_look=False)
        return self.tally

    def _measure(self, accounts: Ints, day: int, *, ends_in_look: bool) -> None:
        if day <= self._from:
            return
        looked = self._looked[accounts]
        self.tally += self._facet.changes.compute_tally(
            CopySpan(
                accounts=accounts,
                value=self._facet.value[accounts],
                looked_at=looked,
                since=np.maximum(looked, self._from),
                now=float(day),
                ends_in_lookup=ends_in_look,
            )
        )


def run_policy(
    policy: LookupPolicy,
    world: SimWorld,
    *,
    budget: float,
    days: int,
    seed: int = 0,
    costs: LookupCosts | None = None,
) -> PolicyResult:
    """Return the result of a policy with so many units per account and day. Raises ConfigError."""
    if not 2 <= days <= 36_600 or not 0 < budget <= 1000:
        raise ConfigError("a simulation takes 2 days to 100 years, and a budget above 0")
    costs, half = costs or LookupCosts(), days // 2
    luck = np.random.default_rng([seed, 4])
    turn = min(1 / budget, LEAD_DAYS)
    copies = [
        DataCopies(facet, -turn * luck.random(len(world)), measured_from=half)
        for facet in world.levels
    ]
    warmth = HeatTracker(world.posture, rule=HeatRule())
    looks = deep_looks = units = over = 0
    for day in range(days):
        # Fractions of a unit are saved for tomorrow, so that equal budgets are equal in the end.
        room = int((day + 1) * budget * len(world)) - int(day * budget * len(world))
        heat = warmth.compute_heat_on(day)
        sight = DayObservation(
            day=day,
            age=copies[0].compute_ages(day),
            deep_age=copies[-1].compute_ages(day),
            heat=heat,
            rank=to_tier_ranks(heat),
        )
        chosen = policy.choose_lookups(sight, budget=room)
        deep = chosen.accounts[chosen.deep]
        found = [
            each.refresh(accounts, day=day, luck=luck)
            for each, accounts in zip(copies, (chosen.accounts, deep), strict=False)
        ]
        policy.record_changes(sight, chosen, found)
        warmth.add_changes(chosen.accounts[found[0]], day=day)
        spent = costs.shallow * len(chosen.accounts) + (costs.deep - costs.shallow) * len(deep)
        over += max(spent - room, 0)
        if day >= half:
            looks, deep_looks = looks + len(chosen.accounts), deep_looks + len(deep)
            units += spent
    return PolicyResult(
        policy=policy.name,
        tally=sum((each.finish(days) for each in copies), FreshnessTally()),
        looks=looks,
        deep_looks=deep_looks,
        units=units,
        over=over,
        per_day=units / (len(world) * (days - half)),
    )


def to_tier_ranks(heat: Floats) -> Ints:
    """Return the tier rank of each account: fixed shares are HOT and WARM, by heat."""
    edges = np.quantile(heat, (TIER_SHARES[0], TIER_SHARES[0] + TIER_SHARES[1]))
    return np.searchsorted(edges, heat, side="right")


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
        return next(result for result in self.policies if result.policy == TIERS)


def compare_policies(
    world: SimWorld, *, budget: float, days: int, seed: int = 0
) -> PolicyComparison:
    """Return every policy's results at so many units per account and day. Raises ConfigError."""
    return PolicyComparison(
        policies=tuple(
            run_policy(policy, world, budget=budget, days=days, seed=seed)
            for policy in list_policies(world)
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
