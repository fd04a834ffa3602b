"""Who is looked at on a day, by policies said in one sentence each; the product's is `planned`.

Each sees what a tenant could know: ages of copies, heat, and what its own looks have found. Those
that are given the true rates of change say so in their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import numpy as np

from stoker.core.beliefs import Flags, Floats, Ints
from stoker.simulate.worlds import World

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
