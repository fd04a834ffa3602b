"""Run lookup policies day after day on the same accounts and budget, beside the bound.

Policies are simple ones and the product's planner. Each sees what a tenant could know: ages of
copies, heat, and what its own lookups found; those that are given the true change rates have that
in their names. Every account has been looked up once before the first day and nothing else is
known. Only the second half is measured, when a policy that learns has had time to. The bound is the
product's own certificate, for accounts that change at steady rates: no policy without knowledge of
the changes does better. Recorded changes have no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

import numpy as np

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import (
    ChangeRates,
    Flags,
    Floats,
    Ints,
    build_prior,
    estimate_rates,
    fill_from_prior,
    update_rates,
)
from stoker.heat.heat import compute_scores
from stoker.heat.model import to_ticks
from stoker.heat.settings import ChangeRateRule, HeatRule
from stoker.pulls.columns import PullLimits, to_epoch_days, validate_accounts
from stoker.pulls.planner import DEEP, plan_pulls
from stoker.pulls.rates import RateProblem, compute_rate_plan
from stoker.pulls.settings import Objective, PullRule
from stoker.simulation.chain import AccountChain, ChainRule, LookupResults
from stoker.simulation.world import (
    LEAD_DAYS,
    CopySpan,
    FreshnessTally,
    SimWorld,
    SteadyChanges,
    WorldLevel,
)

START = datetime(2026, 1, 5, tzinfo=UTC)  # the first day, midnight

TIER_INTERVALS = np.array([7.0, 3.0, 1.0])  # days between lookups of a COLD, WARM and HOT account

TIERS = "tiers"

CHAIN = "production"

YIELD_SPREAD = 1.4  # of what one found change brings around its account's value

TIER_SHARES = (0.6, 0.3, 0.1)  # of all accounts that are COLD, WARM and HOT, by heat

TIERS_BUDGET = float(
    sum(share / every for share, every in zip(TIER_SHARES, TIER_INTERVALS, strict=True))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayObservation:
    """What a policy sees on a day."""

    day: int
    age: Floats  # of each account's copy, in days
    deep_age: Floats  # of what only deep lookups see
    heat: Floats
    rank: Ints  # of its tier: 0 is COLD, 2 is HOT
    told: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # accounts with a signal


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenLookups:
    """The accounts to look up, and which of them deeply."""

    accounts: Ints
    deep: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupCosts:
    """The units that lookups cost."""

    shallow: int = 1
    deep: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOutcomes:
    """What a day's lookups saw: a row for each that was chosen."""

    changed: Sequence[Flags]  # copies that were out of date, by level: of all lookups, of deep ones
    failed: Flags
    gone: Flags
    brought: Floats  # by what was found; nan: nothing was


class LookupPolicy(Protocol):
    """Chooses day after day."""

    @property
    def name(self) -> str:
        """Return what the policy is called in a table."""

    def choose_lookups(self, sight: DayObservation, *, budget: int) -> ChosenLookups:
        """Return today's lookups; together they cost no more than the budget."""

    def record_changes(
        self, sight: DayObservation, chosen: ChosenLookups, seen: LookupOutcomes
    ) -> None:
        """Record what the lookups saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgencyPolicy:
    """Looks up the most urgent accounts, by one formula, within the budget; learns nothing."""

    name: str
    urgency: Callable[[DayObservation], Floats]
    deep: Callable[[DayObservation], Flags] = lambda sight: np.zeros(len(sight.age), np.bool_)
    costs: LookupCosts = LookupCosts()

    def choose_lookups(self, sight: DayObservation, *, budget: int) -> ChosenLookups:
        order = np.argsort(-self.urgency(sight), kind="stable")
        deep = self.deep(sight)[order]
        cost = np.where(deep, self.costs.deep, self.costs.shallow)
        fits = np.searchsorted(np.cumsum(cost), budget, side="right")
        return ChosenLookups(accounts=order[:fits], deep=deep[:fits])

    def record_changes(
        self, sight: DayObservation, chosen: ChosenLookups, seen: LookupOutcomes
    ) -> None:
        pass


def build_tiers() -> LookupPolicy:
    """Return the policy of tier intervals, all stretched alike to what the budget allows."""
    return UrgencyPolicy(name=TIERS, urgency=compute_overdue)


def compute_overdue(sight: DayObservation) -> Floats:
    """Return the age of each copy over its tier's interval."""
    return np.asarray(sight.age / TIER_INTERVALS[sight.rank], np.float64)


def compute_overdue_by_tier(sight: DayObservation) -> Floats:
    """Return the same with due accounts first, HOT before WARM before COLD."""
    late = compute_overdue(sight)
    return np.where(late >= 1.0, 1e9 * (sight.rank + 1) + late, late)


_KNOWN_WEIGHT = 1e7  # an estimate that stands on so many changes is as good as knowing

_MIN_RATE = 1e-5  # changes a day, of what was never seen to change


@dataclass(slots=True, kw_only=True)
class ProductPolicy:
    """The product's planner; it learns from its lookups, unless it is given the true rates."""

    name: str
    world: SimWorld
    rule: PullRule = field(default_factory=PullRule)
    beliefs: ChangeRateRule = field(default_factory=ChangeRateRule)
    known: bool = False  # whether it is given the true change rates
    costs: LookupCosts = field(default_factory=LookupCosts)
    _changes: list[Floats] = field(init=False)  # by level; nan: no lookup has shown anything yet
    _days: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self._changes = [np.full(len(self.world), np.nan) for _ in self.world.levels]
        self._days = [np.full(len(self.world), np.nan) for _ in self.world.levels]

    def choose_lookups(self, sight: DayObservation, *, budget: int) -> ChosenLookups:
        now, today = START + timedelta(days=sight.day), to_epoch_days(START) + sight.day
        surface, *rest = self.estimate_today(sight)
        deep = self.world.deep
        accounts = validate_accounts(
            surface,
            deep=rest[0] if rest else None,
            looked=today - sight.age,
            deep_looked=today - sight.deep_age,
            value=self.world.surface.value,
            deep_value=0.0 if deep is None else deep.value,
            units=self.costs.shallow,
            deep_units=self.costs.deep,
            tier=sight.rank,
            heat=sight.heat,
            posture=self.world.posture,
        )
        plan = plan_pulls(accounts, PullLimits(budget=budget), now=now, rule=self.rule)
        return ChosenLookups(accounts=plan.chosen, deep=plan.depth[plan.chosen] == DEEP)

    def estimate_today(self, sight: DayObservation) -> list[ChangeRates]:
        """Return today's estimates by level, with older evidence faded."""
        if self.known:
            rates = [facet.changes.rates for facet in self.world.levels]
            return [
                ChangeRates(
                    changes=np.full(len(each), _KNOWN_WEIGHT),
                    days=_KNOWN_WEIGHT / np.maximum(each, _MIN_RATE),
                )
                for each in rates
            ]
        prior = build_prior(self.beliefs, sight.rank)
        return [
            estimate_rates(
                self._changes[nth],
                self._days[nth],
                age,
                prior=prior,
                half_life=self.beliefs.half_life,
            )
            for nth, age in enumerate((sight.age, sight.deep_age)[: len(self._changes)])
        ]

    def record_changes(
        self, sight: DayObservation, chosen: ChosenLookups, seen: LookupOutcomes
    ) -> None:
        looked = (chosen.accounts, chosen.accounts[chosen.deep])
        for nth, found in enumerate(seen.changed):
            rows, prior = looked[nth], build_prior(self.beliefs, sight.rank[looked[nth]])
            age = (sight.age, sight.deep_age)[nth][rows]
            after = update_rates(
                fill_from_prior(self._changes[nth][rows], self._days[nth][rows], prior),
                found,
                age=age,
                elapsed=age,
                prior=prior,
                half_life=self.beliefs.half_life,
            )
            self._changes[nth][rows], self._days[nth][rows] = after.changes, after.days


@dataclass(slots=True, kw_only=True)
class ChainPolicy:
    """What production does: the chain from posture to lesson, told nothing that a tenant lacks."""

    name: str
    world: SimWorld
    rule: ChainRule = field(default_factory=ChainRule)
    told_yields: bool = False  # whether lookups that find a change show what it brought
    _chain: AccountChain = field(init=False)
    _swept_at: datetime = field(init=False, default=START)

    def __post_init__(self) -> None:
        if self.world.deep is None:
            self.rule = replace(self.rule, pulls=replace(self.rule.pulls, deep_share=0.0))
        self._chain = AccountChain(self.world.posture, rule=self.rule, now=START)

    def choose_lookups(self, sight: DayObservation, *, budget: int) -> ChosenLookups:
        now = START + timedelta(days=sight.day)
        if sight.day == 0:
            today = to_epoch_days(START)
            self._chain.mark_seen(today - sight.age, deep_at=today - sight.deep_age)
        while self._swept_at <= now:
            self._chain.sweep(self._swept_at)
            self._swept_at += self.rule.heat.sweep_every
        self._chain.add_signals(sight.told, np.ones(len(sight.told)), now=now, seen=False)
        plan = self._chain.plan(PullLimits(budget=budget), now=now)
        return ChosenLookups(accounts=plan.chosen, deep=plan.depth[plan.chosen] == DEEP)

    def record_changes(
        self, sight: DayObservation, chosen: ChosenLookups, seen: LookupOutcomes
    ) -> None:
        deep_changed = np.zeros(len(chosen.accounts), np.bool_)
        if len(seen.changed) > 1:
            deep_changed[chosen.deep] = seen.changed[1]
        results = LookupResults(
            rows=chosen.accounts,
            deep=chosen.deep & ~seen.failed,
            failed=seen.failed,
            gone=seen.gone,
            changed=seen.changed[0],
            deep_changed=deep_changed,
            brought=seen.brought if self.told_yields else np.full(len(chosen.accounts), np.nan),
        )
        self._chain.learn(results, now=START + timedelta(days=sight.day))


def list_policies(world: SimWorld) -> tuple[LookupPolicy, ...]:
    """Return every policy, the product's own first."""
    value, rates = world.surface.value, world.surface.changes.rates
    harmonic, freshness = PullRule(), PullRule(objective=Objective.FRESHNESS)
    urgencies: dict[str, Callable[[DayObservation], Floats]] = {
        "tiers, HOT first": compute_overdue_by_tier,
        # Only the hottest; among equals the longest waiting.
        "top by heat": lambda sight: sight.heat + 1e-9 * np.minimum(sight.age, 1e4),
        "uniform": lambda sight: sight.age,
        "by value": lambda sight: sight.age * value,
        "by heat": lambda sight: sight.age * sight.heat,
        # As often as they change: obvious, and bad.
        "by change rate, known": lambda sight: sight.age * rates,
    }
    return (
        ChainPolicy(name=CHAIN, world=world),
        ChainPolicy(name="production, yields told", world=world, told_yields=True),
        ProductPolicy(name="true values", world=world, rule=harmonic),
        ProductPolicy(name="true values, for freshness", world=world, rule=freshness),
        ProductPolicy(name="true values and rates", world=world, rule=harmonic, known=True),
        build_tiers(),
        *(UrgencyPolicy(name=name, urgency=urgency) for name, urgency in urgencies.items()),
    )


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
    tried = [each.compute_ages(0) for each in copies]  # days before the first, of last attempts
    shape = YIELD_SPREAD**-2
    looks = deep_looks = units = over = 0
    for day in range(days):
        # Fractions of a unit are saved for tomorrow, so that equal budgets are equal in the end.
        room = int((day + 1) * budget * len(world)) - int(day * budget * len(world))
        heat = warmth.compute_heat_on(day)
        sight = DayObservation(
            day=day,
            age=day + tried[0],
            deep_age=day + tried[-1],
            heat=heat,
            rank=to_tier_ranks(heat),
            told=_list_marked(world.signals, day),
        )
        warmth.add_changes(sight.told, day=day)
        chosen = policy.choose_lookups(sight, budget=room)
        deep = chosen.accounts[chosen.deep]
        gone = np.zeros(len(chosen.accounts), np.bool_)
        if world.gone is not None:
            gone = world.gone[chosen.accounts]
        failed = gone if world.down is None else gone | world.down[day][chosen.accounts]
        found = []
        for nth, (each, rows, lost) in enumerate(
            zip(copies, (chosen.accounts, deep), (failed, failed[chosen.deep]), strict=False)
        ):
            changed = np.zeros(len(rows), np.bool_)
            changed[~lost] = each.refresh(rows[~lost], day=day, luck=luck)
            tried[nth][rows] = -day
            found.append(changed)
        value = world.surface.value[chosen.accounts]
        drawn = luck.gamma(shape, 1 / shape, len(value)) * value
        seen = LookupOutcomes(
            changed=found,
            failed=failed,
            gone=gone,
            brought=np.where(found[0], drawn, np.nan),
        )
        policy.record_changes(sight, chosen, seen)
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


def _list_marked(flags: Flags | None, day: int) -> Ints:
    return np.zeros(0, np.int64) if flags is None else np.flatnonzero(flags[day])


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
