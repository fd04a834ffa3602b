"""The product's planner as a policy to rehearse: it plans each day, and learns from its looks.

Whom to look at is `core.pulls`' decision and what a look teaches `core.beliefs`'; here they are
only asked, day after day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

from stoker.core.beliefs import BeliefRule, Beliefs, Flags, Ints, observed
from stoker.core.pull_columns import PullRule, accounts_of, in_days, limits_of
from stoker.core.pulls import DEEP, plan_day
from stoker.simulate.pull_policies import BEGINNING, Chosen, Costs, Sight
from stoker.simulate.worlds import Facet, World

_SURE = 1e7  # a belief that stands on so many changes is not moved by one more


@dataclass(slots=True, kw_only=True)
class Planned:
    """Today's looks by the product's plan; what they find is learned, unless it is told."""

    name: str
    world: World
    rule: PullRule = field(default_factory=PullRule)
    beliefs: BeliefRule = field(default_factory=BeliefRule)
    known: bool = False  # the true rates of change are told beforehand
    costs: Costs = field(default_factory=Costs)
    most_gap: float = 0.0  # of all plans so far, to the best there is under the same caps
    _believed: list[Beliefs] = field(default_factory=list)

    def chosen(self, sight: Sight, *, budget: int) -> Chosen:
        if not self._believed:
            self._believed = [self._first(facet, sight.rank) for facet in self.world.facets]
        today = in_days(BEGINNING) + sight.day
        deep = self.world.deep
        accounts = accounts_of(
            self._believed[0],
            deep=self._believed[-1],
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
        now = BEGINNING + timedelta(days=sight.day)
        plan = plan_day(accounts, limits_of(np.array([budget])), now=now, rule=self.rule)
        self.most_gap = max(self.most_gap, plan.gap)
        return Chosen(accounts=plan.chosen, deep=plan.depth[plan.chosen] == DEEP)

    def told(self, sight: Sight, chosen: Chosen, changed: Sequence[Flags]) -> None:
        if self.known:
            return
        looked = (chosen.accounts, chosen.accounts[chosen.deep])
        for nth, (rows, found) in enumerate(zip(looked, changed, strict=False)):
            age = (sight.age, sight.deep_age)[nth][rows]
            before = self._believed[nth]
            after = observed(
                Beliefs(changes=before.changes[rows], days=before.days[rows]),
                found,
                age=age,
                elapsed=age,
                prior=self.beliefs.prior(sight.rank[rows]),
                half_life=self.beliefs.half_life,
            )
            before.changes[rows], before.days[rows] = after.changes, after.days

    def _first(self, facet: Facet, rank: Ints) -> Beliefs:
        if not self.known:
            prior = self.beliefs.prior(rank)
            return Beliefs(changes=prior.changes.copy(), days=prior.days.copy())
        rates = np.maximum(facet.changes.rates, 1e-5)  # once in a lifetime, where nothing was seen
        return Beliefs(changes=np.full(len(rates), _SURE), days=_SURE / rates)
