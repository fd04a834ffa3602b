"""Accounts to rehearse looks on: what each is worth, what is guessed of that, when it changes.

A make-believe population changes by chance at steady rates, so what copies of it miss is known
exactly on average; recorded changes are `traces`' business. Who is looked at is the policies'.
Times are days since the rehearsal began, as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stoker.core.beliefs import Flags, Floats, Ints
from stoker.errors import ConfigError
from stoker.simulate.yardsticks import Stretch, Tally, steady_tally

RATE_MEDIAN, RATE_SPREAD = 0.05, 1.49  # changes a day: half below 0.05, one in twenty above 0.58
VALUE_SPREAD = 1.28  # the most valuable tenth holds half of all value, a hundredth 15 % of it
CORRELATION = 0.3  # what is valuable changes a little more
GUESS = 0.85  # spread of what is guessed of an account's value around what it is
DEEP_VALUE, DEEP_RATE = 0.4, 0.3  # of an account's value; of the rate of what a shallow look sees
MOST_ACCOUNTS = 5_000_000


class Changes(Protocol):
    """When accounts change."""

    @property
    def rates(self) -> Floats:
        """Return how often each changes a day, on average over the whole rehearsal."""

    def found(
        self, accounts: Ints, *, looked: Floats, now: float, luck: np.random.Generator
    ) -> Flags:
        """Return at which of these accounts anything changed after the last look, up to now."""

    def tally(self, stretch: Stretch) -> Tally:
        """Return what became of the copies of these accounts in this stretch of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """One side of every account: what being up to date about it is worth, and when it changes."""

    value: Floats
    changes: Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Accounts; the deep facet, where there is one, is seen by deep looks only."""

    surface: Facet
    deep: Facet | None = None
    posture: Floats  # 0 to 1: the account's place by value, as far as anybody guesses

    def __len__(self) -> int:
        return len(self.posture)

    @property
    def facets(self) -> tuple[Facet, ...]:
        """Return the surface, and the deep facet where there is one."""
        return (self.surface,) if self.deep is None else (self.surface, self.deep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """Changes by chance, each account at a rate of its own that never changes."""

    rates: Floats

    def found(
        self, accounts: Ints, *, looked: Floats, now: float, luck: np.random.Generator
    ) -> Flags:
        unchanged = np.exp(-self.rates[accounts] * (now - looked))
        return luck.random(len(accounts)) >= unchanged

    def tally(self, stretch: Stretch) -> Tally:
        return steady_tally(self.rates[stretch.accounts], stretch)


def population(
    accounts: int, *, seed: int = 0, correlation: float = CORRELATION, deep: bool = False
) -> World:
    """Return a make-believe population, the same one for the same seed. Raises ConfigError."""
    if not 1 <= accounts <= MOST_ACCOUNTS:
        raise ConfigError(f"a rehearsal has 1 to {MOST_ACCOUNTS:,} accounts, not {accounts:,}")
    luck = np.random.default_rng([seed, 1])
    pace, worth, deep_pace = luck.standard_normal((3, accounts))
    worth = correlation * pace + np.sqrt(1 - correlation**2) * worth
    value = np.exp(VALUE_SPREAD * worth)
    value /= value.mean()
    rates = RATE_MEDIAN * np.exp(RATE_SPREAD * pace)
    posture = guessed(value, luck)
    if not deep:
        return World(surface=Facet(value=value, changes=Steady(rates=rates)), posture=posture)
    deep_rates = DEEP_RATE * RATE_MEDIAN * np.exp(RATE_SPREAD * deep_pace)
    return World(
        surface=Facet(value=(1 - DEEP_VALUE) * value, changes=Steady(rates=rates)),
        deep=Facet(value=DEEP_VALUE * value, changes=Steady(rates=deep_rates)),
        posture=posture,
    )


def made_up_values(accounts: int, *, seed: int = 0) -> Floats:
    """Return values spread as a population's are, for accounts of which none is known."""
    value = np.exp(VALUE_SPREAD * np.random.default_rng([seed, 2]).standard_normal(accounts))
    return np.asarray(value / value.mean())


def guessed(value: Floats, luck: np.random.Generator) -> Floats:
    """Return each account's place by value, from 0 to 1, as a guess would have it."""
    guess = np.log(value) + GUESS * luck.standard_normal(len(value))
    places = np.empty(len(value))
    places[np.argsort(guess, kind="stable")] = (np.arange(len(value)) + 0.5) / len(value)
    return places
