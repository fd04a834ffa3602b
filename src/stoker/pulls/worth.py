"""Compute what lookups are worth: by the age of our copy, and per unit of cost.

The value of a lookup grows while the copy ages: it is the integral of t times the growth of the
penalty of a copy of age t. Under the best plan every account is looked up when that value, times
the account's value, has grown to the price of its calls. The penalty is one of two: `freshness`
counts an outdated copy as 1, however outdated; `harmonic` counts the first missed change as 1, the
second as 1/2, the third as 1/3, and so never gives up on accounts that change a lot.

`value` says what an account is worth; its tier only says how often it changes before that is known.
An account whose site was never seen gets a deep lookup. An account offers a lookup and, at no
better a rate, more depth. Under policy `optimal` the offer grows with the age of our data, signals
since the last lookup make it older, and the chance that a lookup succeeds counts; under policy
`tiers` it is the age over the tier's interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stoker.heat.beliefs import (
    ChangeRates,
    Floats,
    build_prior,
    compute_success_chance,
    estimate_rates,
    to_ages,
)
from stoker.heat.heat import compute_intervals
from stoker.heat.model import AccountColumns, Tier
from stoker.heat.settings import ChangeRateRule
from stoker.pulls.columns import (
    Decision,
    Flags,
    Floats32,
    PlanAccounts,
    to_days,
    validate_accounts,
)
from stoker.pulls.settings import Objective, Policy, PullRule
from stoker.pulls.value import compute_values

SERIES_BELOW = 0.02  # where closed forms lose digits, and the first terms of a series do not
_TERMS = 8
_MAX_OFFER_AGE = (
    366.0  # days; who was never looked up is worth no more than after so long without a lookup
)

_CHUNK_ROWS = 32_768  # accounts at a time: what is worked on stays close to the processor

_MAX_SCORE = float(np.finfo(np.float32).max)


def compute_refresh_value(beliefs: ChangeRates, age: ArrayLike, *, objective: Objective) -> Floats:
    """Return the value of a lookup at this age, by the estimated change rates."""
    return beliefs.days * _compute_by_estimate(
        beliefs.changes, to_ages(age) / beliefs.days, objective
    )


def compute_stale_share(x: Floats) -> Floats:
    """Return the share of time a copy is out of date with x changes between two lookups."""
    safe = np.maximum(x, SERIES_BELOW)
    share = (safe + np.expm1(-safe)) / safe
    small = x < SERIES_BELOW
    if small.any():
        short = x[small]
        share[small] = short * _compute_series(lambda _: short, Objective.HARMONIC)
    return share


def _compute_by_estimate(a: Floats, s: Floats, objective: Objective) -> Floats:
    # In units of the estimate's days, with s = t/b. The expected time the copy was fresh
    # is J = (1 - (1+s)^(1-a)) / (a-1); harmonic is s - J, freshness J - s (1+s)^-a.
    a, s = np.broadcast_arrays(a, s)
    z = np.log1p(s)
    stale = -np.expm1(-a * z)
    # Two forms of the same: one cannot be used at a = 1, the other loses digits near a = 0.
    rare = np.maximum(a, a * z) < 0.5
    grown = (1.0 - a) * z
    over = np.where(grown == 0.0, 1.0, grown)
    fresh_time = z * np.where(grown == 0.0, 1.0, np.expm1(over) / over)
    lost = ((1.0 + s) * stale - a * s) / np.where(rare, 1.0 - a, 1.0)
    if objective == Objective.HARMONIC:
        worth = np.where(rare, lost, s - fresh_time)
    else:
        worth = np.where(rare, s * stale - lost, fresh_time - s * np.exp(-a * z))
    small = (a + 1.0) * s < SERIES_BELOW
    if small.any():
        few, short = a[small], s[small]
        worth[small] = few * short * short * _compute_series(lambda k: (few + k) * short, objective)
    return np.maximum(worth, 0.0)


def _compute_series(step: Callable[[int], Floats], objective: Objective) -> Floats:
    """Return 1/2 - … , the first terms of either worth over its leading power."""
    total = np.asarray(1.0)
    for k in range(_TERMS, 0, -1):
        share = 1 / (k + 2) if objective == Objective.HARMONIC else (k + 1) / (k * (k + 2))
        total = 1.0 - share * step(k) * total
    return 0.5 * total


def build_accounts(
    stored: AccountColumns,
    *,
    now: float,
    units: int,
    deep_units: int,
    barred: Decision,
    rule: PullRule,
    beliefs: ChangeRateRule,
) -> PlanAccounts:
    """Return the accounts of a plan at this moment (days since 1970) from the stored columns.

    `units` are those of a shallow and a deep lookup, `barred` applies to all accounts. A site that
    was gone or closed to us is not looked up again before its rest is over.
    """
    prior = build_prior(beliefs, stored.tier.astype(np.int64))
    quiet = np.maximum(now - stored.tier_since, 0.0)
    shallow = np.full(len(quiet), units, np.int32)
    deep = np.full(len(quiet), max(deep_units, units), np.int32)
    posture = stored.posture.astype(np.float32)
    value, deep_value = compute_values(
        posture,
        rule=rule,
        stated=stored.stated_value,
        yields=(stored.yield_looks, stored.yield_sum, stored.yield_squares),
    )
    chance = compute_success_chance(
        stored.tried, stored.good, now - stored.failed_at, recovery=stored.recovery
    )

    resting = stored.failed_at + stored.rest_days > now

    def estimate(changes: Floats, days: Floats, seen_at: Floats) -> ChangeRates:
        age = np.maximum(now - seen_at, 0.0)
        return estimate_rates(changes, days, age, prior=prior, half_life=beliefs.half_life)

    return validate_accounts(
        estimate(stored.surface_changes, stored.surface_days, stored.surface_at),
        deep=estimate(stored.deep_changes, stored.deep_days, stored.deep_at),
        looked=stored.surface_at,
        deep_looked=stored.deep_at,
        value=value,
        deep_value=deep_value,
        signals=stored.signals,
        # Without a site that was seen there is nothing for a shallow lookup to look at.
        units=np.where(np.isfinite(stored.surface_at + stored.deep_at), shallow, deep),
        deep_units=deep,
        tier=stored.tier,
        heat=stored.heat,
        quiet=quiet,
        posture=posture,
        known=stored.known_at,
        chance=chance if rule.use_chance else 1.0,
        barred=np.where(resting & (barred == Decision.FREE), Decision.COOLING_DOWN, barred),
    )


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
        age, deep_age = part.compute_ages(now)
        look, deeper, alone, resting = of_part(part, age, deep_age, rule=rule)
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
            if rule.floor_for_seen:
                late &= np.isfinite(part.looked)
            offers.waited[rows] = np.where(late, _to_float32(age), 0.0)
    return offers


def compute_worth(
    accounts: PlanAccounts, age: Floats, deep_age: Floats, *, rule: PullRule
) -> tuple[Floats, Floats]:
    """Return what lookups now are worth: a shallow one, and the depth above it."""
    value = accounts.chance * accounts.value
    surface = value * _compute_aged_value(accounts.surface, age, accounts.signals, rule)
    if not accounts.deep_value.any():
        return surface, np.zeros(len(surface))
    deep = accounts.chance * accounts.deep_value
    return surface, deep * _compute_aged_value(accounts.deep, deep_age, accounts.signals, rule)


def compute_offers(
    accounts: PlanAccounts, age: Floats, deep_age: Floats, *, rule: PullRule
) -> tuple[Floats, Floats, Floats, Flags]:
    """Return per-unit offers: lookups, more depth, lookups without depth; and recent lookups."""
    surface, deep = compute_worth(accounts, age, deep_age, rule=rule)
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
        _find_recent(accounts, age, rule),
    )


def _find_recent(accounts: PlanAccounts, age: Floats, rule: PullRule) -> Flags:
    """Return which accounts were looked up too recently; an account never seen was not."""
    recent: Flags = (age < to_days(rule.tick) / 2) & np.isfinite(accounts.looked)
    return recent


def _compute_tier_offers(
    accounts: PlanAccounts, age: Floats, deep_age: Floats, *, rule: PullRule
) -> tuple[Floats, Floats, Floats, Flags]:
    half = to_days(rule.tick) / 2  # lookups are due at the plan nearest to their time
    every = compute_intervals(accounts.tier, accounts.heat, accounts.quiet, rule=rule.tiers)
    hot = accounts.tier == Tier.HOT.rank
    if not rule.by_age:
        deep = hot & (deep_age + half >= every)
        due = (deep | np.where(hot, accounts.signals > 0, age + half >= every)) & (age >= half)
        score = np.where(due, 1.0 + accounts.heat.astype(np.float64), 0.0)
        return score, np.where(deep, score, 0.0), score, ~due
    recent = _find_recent(accounts, age, rule)
    late = np.where(recent, 0.0, np.clip(age, half, _MAX_OFFER_AGE) / every)
    # Deep every so often; in between, signals of HOT accounts need no depth.
    deep = deep_age + half >= np.where(hot, every, to_days(rule.deep_again))
    deep |= hot & (accounts.signals == 0)
    # Without a site that was seen, a lookup is deep or nothing.
    deep |= accounts.units == accounts.deep_units
    return late, np.where(deep, late, 0.0), late, recent


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
