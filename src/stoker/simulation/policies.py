"""Policies that choose a day's lookups: simple ones, and the product's planner.

Each sees what a tenant could know: ages of copies, heat, and what its own lookups found. Policies
that are given the true change rates have that in their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import numpy as np

from stoker.heat.beliefs import (
    ChangeRates,
    Flags,
    Floats,
    Ints,
    build_prior,
    estimate_rates,
    update_rates,
)
from stoker.heat.settings import ChangeRateRule
from stoker.pulls.columns import PullLimits, to_epoch_days, validate_accounts
from stoker.pulls.planner import DEEP, plan_pulls
from stoker.pulls.settings import Objective, PullRule
from stoker.simulation.world import SimWorld

START = datetime(2026, 1, 5, tzinfo=UTC)  # the first day, midnight

TIER_INTERVALS = np.array([7.0, 3.0, 1.0])  # days between lookups of a COLD, WARM and HOT account

TIERS = "tiers"

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


class LookupPolicy(Protocol):
    """Chooses day after day."""

    @property
    def name(self) -> str:
        """Return what the policy is called in a table."""

    def choose_lookups(self, sight: DayObservation, *, budget: int) -> ChosenLookups:
        """Return today's lookups; together they cost no more than the budget."""

    def record_changes(
        self, sight: DayObservation, chosen: ChosenLookups, changed: Sequence[Flags]
    ) -> None:
        """Record which copies were out of date, by level: of all lookups, of deep ones."""


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
        self, sight: DayObservation, chosen: ChosenLookups, changed: Sequence[Flags]
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
        self, sight: DayObservation, chosen: ChosenLookups, changed: Sequence[Flags]
    ) -> None:
        looked = (chosen.accounts, chosen.accounts[chosen.deep])
        for nth, found in enumerate(changed):
            rows, prior = looked[nth], build_prior(self.beliefs, sight.rank[looked[nth]])
            age = (sight.age, sight.deep_age)[nth][rows]
            after = update_rates(
                self._get_rates_before(nth, rows, prior),
                found,
                age=age,
                elapsed=age,
                prior=prior,
                half_life=self.beliefs.half_life,
            )
            self._changes[nth][rows], self._days[nth][rows] = after.changes, after.days

    def _get_rates_before(self, nth: int, rows: Ints, prior: ChangeRates) -> ChangeRates:
        changes, days = self._changes[nth][rows], self._days[nth][rows]
        nothing = np.isnan(changes)
        return ChangeRates(
            changes=np.where(nothing, prior.changes, changes),
            days=np.where(nothing, prior.days, days),
        )


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
        ProductPolicy(name="optimal", world=world, rule=harmonic),
        ProductPolicy(name="optimal, for freshness", world=world, rule=freshness),
        ProductPolicy(name="optimal, rates known", world=world, rule=harmonic, known=True),
        build_tiers(),
        *(UrgencyPolicy(name=name, urgency=urgency) for name, urgency in urgencies.items()),
    )
