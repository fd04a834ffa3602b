"""Estimate how often accounts change, from what lookups have seen.

An estimate is two numbers per account and data level: as if so many changes had been counted in so
many days (a Gamma distribution of the rate, in changes per day). A lookup that finds nothing new
adds its days exactly. A lookup that finds an unknown number of changes is matched in mean and
spread. Evidence fades toward the prior of the account's tier. The surface level is seen by every
lookup, the deep level by deep lookups only. Functions take whole columns; ages are in days.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConfigError
from stoker.heat.model import (
    AccountChangeRate,
    DataLevel,
    LookupAttempts,
    LookupObservation,
    LookupYields,
    Tier,
)
from stoker.heat.settings import ChangeRateRule

Floats = NDArray[np.float64]

Flags = NDArray[np.bool_]

Ints = NDArray[np.int64]

MAX_AGE = 1e9  # days; whatever is older than this is as old as this

_MIN_EVIDENCE, _MAX_EVIDENCE = 1e-6, 1e12  # changes, or days, that an estimate can stand on

_MIN_TIME = 1e-12  # of an estimate's days: a change after less says that there was one, no more


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRates:
    """Columns of estimates: so many changes counted in so many days, both above 0."""

    changes: Floats
    days: Floats

    def __post_init__(self) -> None:
        for name in ("changes", "days"):
            column = validate_column(getattr(self, name), what=f"a belief's {name}")
            if column.size and column.min() <= 0.0:
                raise ConfigError(f"a belief's {name} are more than 0")
            if column.size and (column.min() < _MIN_EVIDENCE or column.max() > _MAX_EVIDENCE):
                column = np.clip(column, _MIN_EVIDENCE, _MAX_EVIDENCE)
            object.__setattr__(self, name, column)

    @property
    def days_between(self) -> Floats:
        """Return the expected days between two changes."""
        return self.days / self.changes


def build_prior(rule: ChangeRateRule, ranks: Ints) -> ChangeRates:
    """Return the estimates of accounts without history, by the ranks of their tiers."""
    every = {
        Tier.HOT: rule.hot_changes_every,
        Tier.WARM: rule.warm_changes_every,
        Tier.COLD: rule.cold_changes_every,
    }
    by_rank = np.empty(len(every))
    for tier, between in every.items():
        by_rank[tier.rank] = rule.weight * (between / _DAY)
    days = by_rank[ranks]
    return ChangeRates(changes=np.full(days.shape, rule.weight), days=days)


def compute_stale_chance(beliefs: ChangeRates, age: ArrayLike) -> Floats:
    """Return the chance that our copy is out of date at this age."""
    return -np.expm1(-beliefs.changes * np.log1p(to_ages(age) / beliefs.days))


def compute_missed_changes(beliefs: ChangeRates, age: ArrayLike) -> Floats:
    """Return how many changes are expected within this age."""
    return beliefs.changes * (to_ages(age) / beliefs.days)


def decay_to_prior(
    beliefs: ChangeRates, elapsed: ArrayLike, *, prior: ChangeRates, half_life: timedelta
) -> ChangeRates:
    """Return the estimates after this many days without news: part evidence, part prior.

    Changes and days fade by the same share. Capping the evidence without this pull toward the prior
    would let one quiet period silence an account for good.
    """
    left = np.exp2(-to_ages(elapsed) / (half_life / _DAY))
    return ChangeRates(
        changes=left * beliefs.changes + (1.0 - left) * prior.changes,
        days=left * beliefs.days + (1.0 - left) * prior.days,
    )


def estimate_rates(
    changes: Floats, days: Floats, age: Floats, *, prior: ChangeRates, half_life: timedelta
) -> ChangeRates:
    """Return today's estimates from evidence of this age; nan changes mean no evidence yet."""
    elapsed = np.where(np.isnan(changes), 0.0, age)
    known = fill_from_prior(changes, days, prior)
    return decay_to_prior(known, elapsed, prior=prior, half_life=half_life)


def fill_from_prior(changes: Floats, days: Floats, prior: ChangeRates) -> ChangeRates:
    """Return the evidence, and the prior where there is none yet (nan changes)."""
    nothing = np.isnan(changes)
    return ChangeRates(
        changes=np.where(nothing, prior.changes, changes),
        days=np.where(nothing, prior.days, days),
    )


def update_rates(
    beliefs: ChangeRates,
    changed: Flags,
    *,
    age: ArrayLike,
    elapsed: ArrayLike,
    prior: ChangeRates,
    half_life: timedelta,
) -> ChangeRates:
    """Return the estimates after a lookup at a copy of this age found it changed, or not.

    `elapsed` are the days since the estimates were last updated; they fade that much first.
    """
    days = to_ages(age)
    before = decay_to_prior(beliefs, elapsed, prior=prior, half_life=half_life)
    after = _update_after_change(before, days)
    return ChangeRates(
        changes=np.where(changed, after.changes, before.changes),
        days=np.where(changed, after.days, before.days + days),
    )


def validate_column(numbers: ArrayLike, *, what: str, most: float = sys.float_info.max) -> Floats:
    """Return the numbers as a column. Raises ConfigError for a wrong one."""
    column = np.asarray(numbers, np.float64)
    if column.size and not (column.min() >= 0.0 and column.max() <= most):
        bad = column[~((column >= 0.0) & (column <= most))].flat[0]
        raise ConfigError(f"{what} is a number from 0 to {most:g}, not {float(bad)!r}")
    return column


def to_ages(age: ArrayLike) -> Floats:
    """Return ages in days as a column, at most MAX_AGE; infinite means never looked up."""
    return np.minimum(validate_column(age, what="an age in days", most=np.inf), MAX_AGE)


def _update_after_change(beliefs: ChangeRates, age: Floats) -> ChangeRates:
    # The exact posterior is the difference of two Gammas, (a, b) and (a, b + t). With
    # u = b / (b + t), p = u^a and e_k = 1 - p u^k, its mean is (a/b) e_1/e_0, and its variance
    # over its mean, times b, is e_2/e_1 - a p (1-u)^2 / (e_0 e_1): written so, nothing cancels.
    a = beliefs.changes
    z = np.log1p(np.maximum(age / beliefs.days, _MIN_TIME))
    e0, e1, e2 = (-np.expm1(-(a + k) * z) for k in range(3))
    less = -np.expm1(-z)
    spread = e2 / e1 - a * np.exp(-a * z) * (less / e0) * (less / e1)
    return ChangeRates(changes=a * (e1 / e0) / spread, days=beliefs.days / spread)


_DAY = timedelta(days=1)

PRIOR_ATTEMPTS = (1.0, 0.9)  # tried and good, before any attempt

MAX_ATTEMPTS = 20.0  # that are remembered

MIN_REST_DAYS, MAX_REST_DAYS = 30.0, 240.0  # of a site that is gone or closed to us


def learn_change_rates(
    looks: Iterable[LookupObservation],
    *,
    known: Mapping[CompanyId, AccountChangeRate],
    tiers: Mapping[CompanyId, Tier],
    rule: ChangeRateRule,
    retries: list[Retry] | None = None,
) -> dict[CompanyId, AccountChangeRate]:
    """Return the estimates of every account that was looked up, after these lookups.

    Retries of failed lookups are added to `retries`.

    Lookups are applied by time, then by key. A first lookup only records when the level was seen. A
    lookup that is not newer than the last adds nothing. A failed lookup leaves what was seen and
    only counts as an attempt. Accounts without a tier use COLD's prior.
    """
    after: dict[CompanyId, AccountChangeRate] = {}
    retries = [] if retries is None else retries
    for some in _split_by_account(sorted(looks, key=lambda look: (look.at, look.key))):
        before = [
            after.get(look.account) or known.get(look.account) or AccountChangeRate(look.account)
            for look in some
        ]
        ranks = [tiers.get(look.account, Tier.COLD).rank for look in some]
        surfaces = _update_levels(
            [belief.surface for belief in before],
            [(look.surface, look.at) for look in some],
            ranks,
            rule=rule,
        )
        deeps = _update_levels(
            [belief.deep for belief in before],
            [(look.deep, look.at) for look in some],
            ranks,
            rule=rule,
        )
        for look, belief, surface, deep in zip(some, before, surfaces, deeps, strict=True):
            tries, retry = count_attempt(belief, look)
            if retry is not None:
                retries.append(retry)
            brought = count_yield(belief.yields, look)
            after[look.account] = AccountChangeRate(
                look.account, surface, deep, tries, brought, belief.stated_value
            )
    return after


class Retry(NamedTuple):
    """A lookup after one that failed."""

    chance: float  # that it succeeds, were the site back
    days: float  # since the failure
    seen: bool


def count_attempt(
    belief: AccountChangeRate, look: LookupObservation
) -> tuple[LookupAttempts, Retry | None]:
    """Return an account's attempts after one more, and what it says if the last one failed.

    One that is older than what was seen, or saw no site at all, says nothing. A site that is gone
    or closed to us rests for 30 days, twice as long each time, 240 at most.
    """
    before, seen = belief.attempts, look.surface is not None
    if not (look.failed or seen):
        return before, None
    if belief.surface.seen_at is not None and look.at <= belief.surface.seen_at:
        return before, None
    tried, good = PRIOR_ATTEMPTS if before.tried is None else (before.tried, before.good or 0.0)
    retry = None
    if before.failed_at is not None and before.failed_at < look.at:
        retry = Retry(good / tried, (look.at - before.failed_at) / _DAY, seen)
    tried, good = tried + 1.0, good + seen
    left = min(MAX_ATTEMPTS / tried, 1.0)
    rest = min(max(2.0 * (before.rest_days or 0.0), MIN_REST_DAYS), MAX_REST_DAYS)
    failed_at, rest_days = look.at if look.failed else None, rest if look.gone else None
    return LookupAttempts(tried * left, good * left, failed_at, rest_days), retry


def count_yield(before: LookupYields, look: LookupObservation) -> LookupYields:
    """Return what an account's lookups brought after one more."""
    if look.brought is None:
        return before
    return LookupYields(
        (before.looks or 0.0) + 1.0,
        (before.total or 0.0) + look.brought,
        (before.squares or 0.0) + look.brought**2,
    )


# Recoveries a day, of sites that failed, and how likely each is before any retry.
RECOVERIES: Floats = np.geomspace(0.03, 20.0, 14)
_PRIOR_RECOVERY = -0.5 * np.log10(RECOVERIES) ** 2


def compute_retry_likelihoods(retries: Sequence[Retry]) -> Floats:
    """Return the log-likelihood of these retries at each of `RECOVERIES`."""
    if not retries:
        return np.zeros(len(RECOVERIES))
    chance, days, seen = (np.array(column)[:, None] for column in zip(*retries, strict=True))
    back = np.clip(chance * -np.expm1(-RECOVERIES * days), 1e-9, 1.0 - 1e-9)
    return np.asarray(np.log(np.where(seen, back, 1.0 - back)).sum(axis=0))


def choose_recovery(likelihoods: Floats) -> float:
    """Return the likeliest recovery a day."""
    return float(RECOVERIES[int(np.argmax(likelihoods + _PRIOR_RECOVERY))])


def compute_success_chance(
    tried: Floats, good: Floats, failed_days: Floats, *, recovery: float
) -> Floats:
    """Return the chance that a lookup sees the site.

    `failed_days` are days since the last attempt, which failed; infinite where it did not.
    """
    tries, saw = PRIOR_ATTEMPTS
    nothing = np.isnan(tried)
    chance = np.where(nothing, saw / tries, good / np.where(nothing, 1.0, tried))
    return np.asarray(chance * -np.expm1(-recovery * np.maximum(failed_days, 0.0)))


def _split_by_account(looks: Sequence[LookupObservation]) -> list[list[LookupObservation]]:
    """Split lookups, in order, into rounds with one lookup per account, to update whole columns."""
    had: Counter[CompanyId] = Counter()
    rounds: defaultdict[int, list[LookupObservation]] = defaultdict(list)
    for look in looks:
        rounds[had[look.account]].append(look)
        had[look.account] += 1
    return list(rounds.values())


def _update_levels(
    before: Sequence[DataLevel],
    seen: Sequence[tuple[bool | None, datetime]],
    ranks: Sequence[int],
    *,
    rule: ChangeRateRule,
) -> list[DataLevel]:
    after = [
        level if level.seen_at or changed is None else DataLevel(at)
        for level, (changed, at) in zip(before, seen, strict=True)
    ]
    compared = [
        (place, (at - level.seen_at) / _DAY, changed, at)
        for place, (level, (changed, at)) in enumerate(zip(after, seen, strict=True))
        if level.seen_at is not None and changed is not None and level.seen_at < at
    ]
    if not compared:
        return after
    places = [place for place, *_ in compared]
    prior = build_prior(rule, np.array([ranks[place] for place in places], np.int64))
    age = np.array([days for _, days, _, _ in compared])
    changes = np.array([after[place].changes for place in places], np.float64)
    days = np.array([after[place].days for place in places], np.float64)
    beliefs = update_rates(
        fill_from_prior(changes, days, prior),
        np.array([changed for _, _, changed, _ in compared], np.bool_),
        age=age,
        elapsed=age,
        prior=prior,
        half_life=rule.half_life,
    )
    columns = zip(compared, beliefs.changes.tolist(), beliefs.days.tolist(), strict=True)
    for (place, _, _, at), number, span in columns:
        after[place] = DataLevel(at, number, span)
    return after
