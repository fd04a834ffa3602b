"""Compute what a lookup of each account is worth per unit of cost: shallow, and deeper.

Policy `optimal`: the value grows with the age of our data, and signals since the last lookup make
it older. Policy `tiers`: an account that is due is worth its heat. Either way an account offers a
lookup and, at no better a rate, more depth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stoker.heat.beliefs import ChangeRates, Floats
from stoker.heat.model import Tier
from stoker.heat.tiers import compute_intervals
from stoker.pulls.columns import Flags, Floats32, PlanAccounts, to_days
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.worth import compute_refresh_value

_MAX_OFFER_AGE = (
    366.0  # days; who was never looked up is worth no more than after so long without a lookup
)

_CHUNK_ROWS = 32_768  # accounts at a time: what is worked on stays close to the processor

_MAX_SCORE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupOffers:
    """Columns about every account. Scores are worth per unit; 0 is no offer.

    Scores are short floats on purpose: what differs only in the last digits of a long one, which
    machines do not agree on, is a tie here, and ties go by the account's place.
    """

    look: Floats32  # of a shallow lookup; or of a deep one, where that is the better bargain
    deeper: Floats32  # of the depth above a shallow lookup, never more than `look`
    shallow_only: Floats32  # of a shallow lookup to which no depth will come
    recent: Flags  # looked up so recently that it is not looked up again
    waited: Floats32  # days, of those who would wait longer than the floor; 0 for others


def make_offers(accounts: PlanAccounts, *, now: float, rule: PullRule) -> LookupOffers:
    """Return what every account offers at this moment (days since 1970)."""
    size = len(accounts)
    offers = LookupOffers(
        look=np.zeros(size, np.float32),
        deeper=np.zeros(size, np.float32),
        shallow_only=np.zeros(size, np.float32),
        recent=np.zeros(size, np.bool_),
        waited=np.zeros(size, np.float32),
    )
    of_part: Callable[..., tuple[Floats, Floats, Floats, Flags]]
    of_part = compute_offers if rule.policy is Policy.OPTIMAL else _compute_tier_offers
    for begin in range(0, size, _CHUNK_ROWS):
        rows = slice(begin, min(begin + _CHUNK_ROWS, size))
        part = accounts.select_rows(rows)
        age = np.maximum(now - part.looked, 0.0)
        look, deeper, alone, resting = of_part(part, age, now=now, rule=rule)
        quiet = resting | (part.barred != 0)
        offers.look[rows] = _to_float32(np.where(quiet, 0.0, look))
        offers.deeper[rows] = _to_float32(np.where(quiet, 0.0, np.minimum(deeper, look)))
        offers.shallow_only[rows] = _to_float32(np.where(quiet, 0.0, alone))
        offers.recent[rows] = resting
        if rule.floor is not None:
            # By the next plan it would have waited too long.
            late = (
                (age + to_days(rule.tick) > to_days(rule.floor)) & ~quiet & (offers.look[rows] > 0)
            )
            offers.waited[rows] = np.where(late, _to_float32(age), 0.0)
    return offers


def compute_values(
    accounts: PlanAccounts, age: Floats, *, now: float, rule: PullRule
) -> tuple[Floats, Floats]:
    """Return what lookups now are worth: a shallow one, and the depth above it."""
    deep_age = np.maximum(now - accounts.deep_looked, 0.0)
    surface = accounts.value * _compute_aged_value(accounts.surface, age, accounts.signals, rule)
    if not accounts.deep_value.any():
        return surface, np.zeros(len(surface))
    deep = accounts.deep_value * _compute_aged_value(
        accounts.deep, deep_age, accounts.signals, rule
    )
    return surface, deep


def compute_offers(
    accounts: PlanAccounts, age: Floats, *, now: float, rule: PullRule
) -> tuple[Floats, Floats, Floats, Flags]:
    """Return per-unit offers: lookups, more depth, lookups without depth; and recent lookups."""
    surface, deep = compute_values(accounts, age, now=now, rule=rule)
    units, deep_units = accounts.units, accounts.deep_units
    more = deep_units - units
    look = surface / units
    deeper = deep / np.maximum(more, 1)
    # Where depth is the better bargain the two are one offer, at the rate of both together.
    both = (surface + deep) / deep_units
    together = (deeper >= look) | (more == 0)
    return (
        np.where(together, both, look),
        np.where(deep > 0.0, np.where(together, both, deeper), 0.0),
        look,
        age < to_days(rule.tick) / 2,
    )


def _compute_tier_offers(
    accounts: PlanAccounts, age: Floats, *, now: float, rule: PullRule
) -> tuple[Floats, Floats, Floats, Flags]:
    half = to_days(rule.tick) / 2  # lookups are due at the plan nearest to their time
    every = compute_intervals(accounts.tier, accounts.heat, accounts.quiet, rule=rule.tiers)
    deep_age = np.maximum(now - accounts.deep_looked, 0.0)
    hot = accounts.tier == Tier.HOT.rank
    deep = hot & (deep_age + half >= every)
    shallow = np.where(hot, accounts.signals > 0, age + half >= every)
    due = (deep | shallow) & (age >= half)
    score = np.where(due, 1.0 + accounts.heat.astype(np.float64), 0.0)
    return score, np.where(deep, score, 0.0), score, ~due


def _compute_aged_value(
    beliefs: ChangeRates, age: Floats, signals: Floats32, rule: PullRule
) -> Floats:
    # Plans come in steps: half a step on is when, on average, the next chance would be. A signal
    # tells of changes, and is as good as the days they usually take.
    older = np.minimum(age, _MAX_OFFER_AGE) + to_days(rule.tick) / 2
    if signals.any():
        older = older + rule.signal_changes * signals * beliefs.days_between
    return compute_refresh_value(beliefs, older, objective=rule.objective)


def _to_float32(column: Floats) -> Floats32:
    return np.minimum(column, _MAX_SCORE).astype(np.float32)
