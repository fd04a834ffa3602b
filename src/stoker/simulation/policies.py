"""Who is looked at on a day, by policies said in one sentence each; the product's is `planned`.

Each sees what a tenant could know: ages of copies, heat, and what its own looks have found. Those
that are given the true rates of change say so in their names.

The product's planner as a policy to rehearse: it plans each day, and learns from its looks.

Whom to look at is `core.pulls`' decision and what a look teaches `core.beliefs`'; here they are
only asked, day after day, as the engine asks them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import numpy as np

from stoker.heat.beliefs import BeliefRule, Beliefs, Flags, Floats, Ints, believed, observed
from stoker.pulls.columns import PullRule, accounts_of, in_days, limits_of
from stoker.pulls.planner import DEEP, plan_day
from stoker.simulation.world import World

BEGINNING = datetime(2026, 1, 5, tzinfo=UTC)  # the first day, midnight

EVERY = np.array([7.0, 3.0, 1.0])  # days between looks at a COLD, WARM and HOT account

SHARES = (0.6, 0.3, 0.1)  # of all accounts that are COLD, WARM and HOT, by heat

TIERS_NEED = float(sum(share / every for share, every in zip(SHARES, EVERY, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a policy sees on a day."""

    day: int
    age: Floats  # of each account's copy, in days
    deep_age: Floats  # of what only deep looks see
    heat: Floats
    rank: Ints  # of its tier: 0 is COLD, 2 is HOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Who is looked at, and at whom deeply."""

    accounts: Ints
    deep: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What looks take out of a day's budget."""

    shallow: int = 1
    deep: int = 3


class Policy(Protocol):
    """Chooses day after day."""

    @property
    def name(self) -> str:
        """Return what the policy is called in a table."""

    def chosen(self, sight: Sight, *, budget: int) -> Chosen:
        """Return whom to look at today; together they cost no more than the budget."""

    def told(self, sight: Sight, chosen: Chosen, changed: Sequence[Flags]) -> None:
        """Take in which copies were out of date, by facet: those of all looks, of deep ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MostUrgent:
    """Looks at the most urgent first, by one formula, until the budget is gone; learns nothing."""

    name: str
    urgency: Callable[[Sight], Floats]
    deep: Callable[[Sight], Flags] = lambda sight: np.zeros(len(sight.age), np.bool_)
    costs: Costs = Costs()

    def chosen(self, sight: Sight, *, budget: int) -> Chosen:
        order = np.argsort(-self.urgency(sight), kind="stable")
        deep = self.deep(sight)[order]
        cost = np.where(deep, self.costs.deep, self.costs.shallow)
        fits = np.searchsorted(np.cumsum(cost), budget, side="right")
        return Chosen(accounts=order[:fits], deep=deep[:fits])

    def told(self, sight: Sight, chosen: Chosen, changed: Sequence[Flags]) -> None:
        pass


def uniform() -> Policy:
    """Everybody in turn."""
    return MostUrgent(name="uniform", urgency=lambda sight: sight.age)


def by_rate(world: World) -> Policy:
    """As often as each changes, were that known: the obvious thing, and a bad one."""
    rates = world.surface.changes.rates
    return MostUrgent(name="by change rate, known", urgency=lambda sight: sight.age * rates)


def by_value(world: World) -> Policy:
    """As often as each matters."""
    value = world.surface.value
    return MostUrgent(name="by value", urgency=lambda sight: sight.age * value)


def by_heat() -> Policy:
    """As often as each is hot."""
    return MostUrgent(name="by heat", urgency=lambda sight: sight.age * sight.heat)


def hottest() -> Policy:
    """The hottest every day, the others never; among equals whoever waited longest."""
    return MostUrgent(
        name="top by heat", urgency=lambda sight: sight.heat + 1e-9 * np.minimum(sight.age, 1e4)
    )


def tiers() -> Policy:
    """Each tier's interval, all stretched alike to what the budget allows."""
    return MostUrgent(name="tiers", urgency=overdue)


def hot_first() -> Policy:
    """Whoever is due, all that are HOT before any that is WARM, those before the COLD."""

    def urgency(sight: Sight) -> Floats:
        late = overdue(sight)
        return np.where(late >= 1.0, 1e9 * (sight.rank + 1) + late, late)

    return MostUrgent(name="tiers, HOT first", urgency=urgency)


def overdue(sight: Sight) -> Floats:
    """Return the age of each copy over its tier's interval."""
    return np.asarray(sight.age / EVERY[sight.rank], np.float64)


_SURE = 1e7  # a belief that stands on so many changes is as good as knowing

_RAREST = 1e-5  # changes a day, of what was never seen to change


@dataclass(slots=True, kw_only=True)
class Planned:
    """Today's looks by the product's plan; what they find is learned, unless it is told."""

    name: str
    world: World
    rule: PullRule = field(default_factory=PullRule)
    beliefs: BeliefRule = field(default_factory=BeliefRule)
    known: bool = False  # the true rates of change are told beforehand
    costs: Costs = field(default_factory=Costs)
    _changes: list[Floats] = field(init=False)  # by facet; nan: a look has yet to teach something
    _days: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self._changes = [np.full(len(self.world), np.nan) for _ in self.world.facets]
        self._days = [np.full(len(self.world), np.nan) for _ in self.world.facets]

    def chosen(self, sight: Sight, *, budget: int) -> Chosen:
        now, today = BEGINNING + timedelta(days=sight.day), in_days(BEGINNING) + sight.day
        surface, *rest = self.believed(sight)
        deep = self.world.deep
        accounts = accounts_of(
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
        plan = plan_day(accounts, limits_of(np.array([budget])), now=now, rule=self.rule)
        return Chosen(accounts=plan.chosen, deep=plan.depth[plan.chosen] == DEEP)

    def believed(self, sight: Sight) -> list[Beliefs]:
        """Return what is believed today, by facet: what looks have taught has faded since."""
        if self.known:
            rates = [facet.changes.rates for facet in self.world.facets]
            return [
                Beliefs(changes=np.full(len(each), _SURE), days=_SURE / np.maximum(each, _RAREST))
                for each in rates
            ]
        prior = self.beliefs.prior(sight.rank)
        return [
            believed(
                self._changes[nth],
                self._days[nth],
                age,
                prior=prior,
                half_life=self.beliefs.half_life,
            )
            for nth, age in enumerate((sight.age, sight.deep_age)[: len(self._changes)])
        ]

    def told(self, sight: Sight, chosen: Chosen, changed: Sequence[Flags]) -> None:
        looked = (chosen.accounts, chosen.accounts[chosen.deep])
        for nth, found in enumerate(changed):
            rows, prior = looked[nth], self.beliefs.prior(sight.rank[looked[nth]])
            age = (sight.age, sight.deep_age)[nth][rows]
            after = observed(
                self._before(nth, rows, prior),
                found,
                age=age,
                elapsed=age,
                prior=prior,
                half_life=self.beliefs.half_life,
            )
            self._changes[nth][rows], self._days[nth][rows] = after.changes, after.days

    def _before(self, nth: int, rows: Ints, prior: Beliefs) -> Beliefs:
        changes, days = self._changes[nth][rows], self._days[nth][rows]
        nothing = np.isnan(changes)
        return Beliefs(
            changes=np.where(nothing, prior.changes, changes),
            days=np.where(nothing, prior.days, days),
        )
