"""The product's planner as a policy to rehearse: it plans each day, and learns from its looks.

Whom to look at is `core.pulls`' decision and what a look teaches `core.beliefs`'; here they are
only asked, day after day, as the engine asks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

from stoker.core.beliefs import BeliefRule, Beliefs, Flags, Floats, Ints, believed, observed
from stoker.core.pull_columns import PullRule, accounts_of, in_days, limits_of
from stoker.core.pulls import DEEP, plan_day
from stoker.simulate.pull_policies import BEGINNING, Chosen, Costs, Sight
from stoker.simulate.worlds import World

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
