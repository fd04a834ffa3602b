"""The chain by which pulls are chosen, on columns instead of a database, on a virtual clock.

Posture and signals make heat, sweeps make tiers, `build_accounts` makes a plan's accounts of the
columns, the planner chooses, and what lookups saw is learned: by the functions that stores and
services call, in the same order. A test holds it against a store, day by day.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from stoker.heat.beliefs import (
    MAX_ATTEMPTS,
    MAX_REST_DAYS,
    MIN_REST_DAYS,
    PRIOR_ATTEMPTS,
    RECOVERIES,
    Flags,
    Floats,
    Ints,
    Retry,
    build_prior,
    choose_recovery,
    compute_retry_likelihoods,
    fill_from_prior,
    update_rates,
)
from stoker.heat.heat import TierColumns, compute_scores, update_tiers
from stoker.heat.model import EPOCH, AccountColumns, to_ticks
from stoker.heat.settings import MAX_SIGNALS, ChangeRateRule, HeatSettings
from stoker.heat.signals import SITE_STRENGTH
from stoker.pulls.columns import Decision, PullLimits, to_epoch_days
from stoker.pulls.planner import PullPlan, plan_pulls
from stoker.pulls.settings import PullRule
from stoker.pulls.worth import build_accounts

_TICK = timedelta.resolution
_NEVER = -(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRule:
    """The settings of the whole chain."""

    heat: HeatSettings = field(default_factory=HeatSettings)
    pulls: PullRule = field(default_factory=PullRule)
    beliefs: ChangeRateRule = field(default_factory=ChangeRateRule)
    units: int = 1
    deep_units: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupResults:
    """What lookups of one moment saw, a row for each account that was looked up."""

    rows: Ints
    deep: Flags  # made, and nothing cut short
    failed: Flags
    gone: Flags
    changed: Flags  # of the surface; of failed lookups it means nothing
    deep_changed: Flags
    brought: Floats  # nan: it found no change


class AccountChain:
    """All accounts of one tenant, as a store would have them."""

    def __init__(self, posture: Floats, *, rule: ChainRule, now: datetime) -> None:
        size, ticks = len(posture), to_ticks(now)
        self.rule, self.owed = rule, 0
        self._posture = np.asarray(posture, np.float64)
        self._peak, self._mass = np.zeros(size), np.zeros(size)
        self._as_of = np.full(size, _NEVER, np.int64)
        self._latest = np.full((size, MAX_SIGNALS), _NEVER, np.int64)
        self._score = np.zeros(size)
        self._tiers = TierColumns(
            rank=np.zeros(size, np.int64),
            since=np.full(size, ticks, np.int64),
            below_since=np.full(size, _NEVER, np.int64),
        )
        self._seen_at = [np.full(size, -np.inf), np.full(size, -np.inf)]  # surface, deep
        self._changes = [np.full(size, np.nan), np.full(size, np.nan)]
        self._days = [np.full(size, np.nan), np.full(size, np.nan)]
        self._tried, self._good = np.full(size, np.nan), np.full(size, np.nan)
        self._failed_at, self._rest_days = np.full(size, -np.inf), np.zeros(size)
        self._yields = [np.zeros(size) for _ in range(3)]
        self._signals = np.zeros(size)
        self._known_at = np.full(size, to_epoch_days(now))
        self._likelihoods = np.zeros(len(RECOVERIES))

    @property
    def ranks(self) -> Ints:
        """Return the rank of each account's tier."""
        return self._tiers.rank

    def mark_seen(self, at: Floats, *, deep_at: Floats) -> None:
        """Record a first lookup of all accounts, in days since 1970."""
        self._seen_at = [np.array(at, np.float64), np.array(deep_at, np.float64)]
        tried, good = PRIOR_ATTEMPTS
        self._tried, self._good = (np.full(len(at), each + 1.0) for each in (tried, good))

    def sweep(self, now: datetime) -> None:
        """Recompute all heat and tiers, as a sweep does."""
        as_of = np.where(self._as_of == _NEVER, to_ticks(EPOCH), self._as_of)
        self._score, _, _ = compute_scores(
            self._posture, self._peak, self._mass, as_of, now=now, rule=self.rule.heat
        )
        self._tiers = update_tiers(
            self._tiers, score=self._score, latest=self._latest, now=now, rule=self.rule.heat
        )

    def add_signals(self, rows: Ints, strength: Floats, *, now: datetime, seen: bool) -> None:
        """Add one signal of each of these accounts, as of now; `seen` ones age no copies."""
        if not len(rows):
            return
        half_life, moment = self.rule.heat.half_life // _TICK, to_ticks(now)
        before = self._as_of[rows]
        as_of = np.maximum(-(-moment // half_life) * half_life, before)
        faded = np.where(before == _NEVER, 0.0, _compute_left(as_of - before, half_life))
        fresh = strength * _compute_left(as_of - moment, half_life)
        self._peak[rows] = np.maximum(self._peak[rows] * faded, fresh)
        self._mass[rows] = self._mass[rows] * faded + fresh
        self._as_of[rows] = as_of
        self._latest[rows, 1:] = self._latest[rows, :-1]
        self._latest[rows, 0] = moment
        if not seen:
            self._signals[rows] += strength
        self.sweep(now)

    def read_columns(self) -> AccountColumns:
        """Return the columns that a store would give a plan."""
        return AccountColumns(
            accounts=[],
            heat=self._score,
            posture=self._posture,
            tier=self._tiers.rank.astype(np.int8),
            tier_since=self._tiers.since / (timedelta(days=1) // _TICK),
            surface_at=self._seen_at[0],
            surface_changes=self._changes[0],
            surface_days=self._days[0],
            deep_at=self._seen_at[1],
            deep_changes=self._changes[1],
            deep_days=self._days[1],
            tried=self._tried,
            good=self._good,
            failed_at=self._failed_at,
            rest_days=self._rest_days,
            yield_looks=self._yields[0],
            yield_sum=self._yields[1],
            yield_squares=self._yields[2],
            stated_value=np.full(len(self._posture), np.nan),
            known_at=self._known_at,
            signals=self._signals,
            recovery=choose_recovery(self._likelihoods),
        )

    def plan(self, limits: PullLimits, *, now: datetime) -> PullPlan:
        """Choose, and keep what overdue accounts are owed afterwards."""
        rule = replace(self.rule.pulls, tiers=self.rule.heat)
        accounts = build_accounts(
            self.read_columns(),
            now=to_epoch_days(now),
            units=self.rule.units,
            deep_units=self.rule.deep_units,
            barred=Decision.FREE,
            rule=rule,
            beliefs=self.rule.beliefs,
        )
        plan = plan_pulls(accounts, replace(limits, owed=self.owed), now=now, rule=rule)
        self.owed = plan.owed
        return plan

    def learn(self, seen: LookupResults, *, now: datetime) -> None:
        """Learn what lookups saw, then add the signals of what they found."""
        today, rows = to_epoch_days(now), seen.rows
        first = np.isnan(self._tried[rows])
        self._count_attempts(seen, today)
        good = ~seen.failed
        self._learn_level(0, rows[good], seen.changed[good], today)
        self._learn_level(1, rows[seen.deep], seen.deep_changed[seen.deep], today)
        self._signals[rows[good]] = 0.0
        told = rows[np.isfinite(seen.brought)]
        brought = seen.brought[np.isfinite(seen.brought)]
        for column, more in zip(self._yields, (brought**0, brought, brought**2), strict=True):
            column[told] += more
        news = rows[good & seen.changed & ~first]
        self.add_signals(news, np.full(len(news), SITE_STRENGTH), now=now, seen=True)

    def _learn_level(self, level: int, rows: Ints, changed: Flags, today: float) -> None:
        age = today - self._seen_at[level][rows]
        again = np.isfinite(age) & (age > 0)
        compared, self._seen_at[level][rows] = rows[again], today
        prior = build_prior(self.rule.beliefs, self._tiers.rank[compared])
        after = update_rates(
            fill_from_prior(self._changes[level][compared], self._days[level][compared], prior),
            changed[again],
            age=age[again],
            elapsed=age[again],
            prior=prior,
            half_life=self.rule.beliefs.half_life,
        )
        self._changes[level][compared], self._days[level][compared] = after.changes, after.days

    def _count_attempts(self, seen: LookupResults, today: float) -> None:
        rows, (tries, saw) = seen.rows, PRIOR_ATTEMPTS
        tried = np.where(np.isnan(self._tried[rows]), tries, self._tried[rows])
        good = np.where(np.isnan(self._good[rows]), saw, self._good[rows])
        days = today - self._failed_at[rows]
        columns = zip((good / tried).tolist(), days.tolist(), seen.failed.tolist(), strict=True)
        retries = [
            Retry(chance, since, not failed)
            for chance, since, failed in columns
            if np.isfinite(since)
        ]
        self._likelihoods += compute_retry_likelihoods(retries)
        tried, good = tried + 1.0, good + ~seen.failed
        left = np.minimum(MAX_ATTEMPTS / tried, 1.0)
        rest = np.clip(2.0 * self._rest_days[rows], MIN_REST_DAYS, MAX_REST_DAYS)
        self._tried[rows], self._good[rows] = tried * left, good * left
        self._rest_days[rows] = np.where(seen.gone, rest, 0.0)
        self._failed_at[rows] = np.where(seen.failed, today, -np.inf)


def _compute_left(ticks: Ints, half_life: int) -> Floats:
    halvings, rest = np.divmod(ticks, half_life)
    share = np.exp2(-(rest / half_life))
    return np.ldexp(share, -np.minimum(halvings, 1100).astype(np.int32))
