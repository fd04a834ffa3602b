"""One policy of looking, day after day on a virtual clock, and what became of the copies.

Everybody has been looked at once before the first day and nothing else is known. The second half
is measured, when whoever learns has had the time to.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import Flags, Floats, Ints
from stoker.heat.heat import HeatRule, in_ticks, scores
from stoker.simulation.metrics import Stretch, Tally
from stoker.simulation.policies import BEGINNING, SHARES, Costs, Policy, Sight
from stoker.simulation.world import LEAD, Facet, World

_TICKS = in_ticks(BEGINNING + timedelta(days=1)) - in_ticks(BEGINNING)  # of a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How well one policy kept the copies, in the second half of a rehearsal."""

    policy: str
    tally: Tally
    looks: int
    deep_looks: int  # of them
    units: int  # that they took
    over: int  # units beyond a day's budget, over all days
    per_day: float  # units per account and day


class Warmth:
    """Heat of all accounts, from posture and from what looks find, by the product's formula."""

    def __init__(self, posture: Floats, *, rule: HeatRule) -> None:
        self._posture, self._rule = posture, rule
        self._peak, self._mass = np.zeros(len(posture)), np.zeros(len(posture))
        self._as_of = np.full(len(posture), in_ticks(BEGINNING))

    def on(self, day: int) -> Floats:
        """Return everybody's heat, 0 to 1."""
        now = BEGINNING + timedelta(days=day)
        signals = (self._peak, self._mass, self._as_of)
        return scores(self._posture, *signals, now=now, rule=self._rule)[0]

    def found(self, accounts: Ints, *, day: int) -> None:
        """Take in that these accounts changed: a signal of full strength at each."""
        now = in_ticks(BEGINNING) + day * _TICKS
        days = (now - self._as_of[accounts]) / _TICKS
        self._mass[accounts] *= np.exp2(-days / (self._rule.half_life / timedelta(days=1)))
        self._mass[accounts] += 1.0
        self._peak[accounts] = 1.0
        self._as_of[accounts] = now


class Copies:
    """Everybody's copy of one facet, and what became of the copies since a day."""

    def __init__(self, facet: Facet, looked: Floats, *, measured_from: int) -> None:
        self._facet, self._looked, self._from = facet, looked, measured_from
        self.tally = Tally()

    def ages(self, day: int) -> Floats:
        """Return the age of each copy in days."""
        return day - self._looked

    def renew(self, accounts: Ints, *, day: int, luck: np.random.Generator) -> Flags:
        """Make new copies of these accounts; return which of the old ones were out of date."""
        looked = self._looked[accounts]
        self._measure(accounts, day, ends_in_look=True)
        self._looked[accounts] = day
        return self._facet.changes.found(accounts, looked=looked, now=day, luck=luck)

    def end(self, day: int) -> Tally:
        """Return what became of all copies up to this day."""
        self._measure(np.arange(len(self._looked)), day, ends_in_look=False)
        return self.tally

    def _measure(self, accounts: Ints, day: int, *, ends_in_look: bool) -> None:
        if day <= self._from:
            return
        looked = self._looked[accounts]
        self.tally += self._facet.changes.tally(
            Stretch(
                accounts=accounts,
                value=self._facet.value[accounts],
                looked=looked,
                since=np.maximum(looked, self._from),
                now=float(day),
                ends_in_look=ends_in_look,
            )
        )


def kept_by(
    policy: Policy,
    world: World,
    *,
    budget: float,
    days: int,
    seed: int = 0,
    costs: Costs | None = None,
) -> Kept:
    """Return how a policy does with so many units per account and day. Raises ConfigError."""
    if not 2 <= days <= 36_600 or not 0 < budget <= 1000:
        raise ConfigError("a rehearsal takes 2 days to 100 years, and a budget above 0")
    costs, half = costs or Costs(), days // 2
    luck = np.random.default_rng([seed, 4])
    turn = min(1 / budget, LEAD)
    copies = [
        Copies(facet, -turn * luck.random(len(world)), measured_from=half) for facet in world.facets
    ]
    warmth = Warmth(world.posture, rule=HeatRule())
    looks = deep_looks = units = over = 0
    for day in range(days):
        # Fractions of a unit are saved for tomorrow, so that equal budgets are equal in the end.
        room = int((day + 1) * budget * len(world)) - int(day * budget * len(world))
        heat = warmth.on(day)
        sight = Sight(
            day=day,
            age=copies[0].ages(day),
            deep_age=copies[-1].ages(day),
            heat=heat,
            rank=ranked(heat),
        )
        chosen = policy.chosen(sight, budget=room)
        deep = chosen.accounts[chosen.deep]
        found = [
            each.renew(accounts, day=day, luck=luck)
            for each, accounts in zip(copies, (chosen.accounts, deep), strict=False)
        ]
        policy.told(sight, chosen, found)
        warmth.found(chosen.accounts[found[0]], day=day)
        spent = costs.shallow * len(chosen.accounts) + (costs.deep - costs.shallow) * len(deep)
        over += max(spent - room, 0)
        if day >= half:
            looks, deep_looks = looks + len(chosen.accounts), deep_looks + len(deep)
            units += spent
    return Kept(
        policy=policy.name,
        tally=sum((each.end(days) for each in copies), Tally()),
        looks=looks,
        deep_looks=deep_looks,
        units=units,
        over=over,
        per_day=units / (len(world) * (days - half)),
    )


def ranked(heat: Floats) -> Ints:
    """Return the rank of everybody's tier: so many are HOT, so many WARM, by heat."""
    edges = np.quantile(heat, (SHARES[0], SHARES[0] + SHARES[1]))
    return np.searchsorted(edges, heat, side="right")
