"""Choose each account's tier without flapping, and the tier's lookup interval.

An account moves up at once, by score or by signals close together. It moves down one tier at a
time, and only after its score has stayed below for the tier's cooldown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.heat.model import BY_RANK, Tier
from stoker.heat.settings import TierRule

_DAY = timedelta(days=1)

Floats = NDArray[np.float64]

Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierState:
    """An account's tier, since when, and since when its score has been too low for it."""

    tier: Tier
    since: datetime
    below_since: datetime | None = None


def choose_tier(score: float, latest: Sequence[datetime], *, now: datetime, rule: TierRule) -> Tier:
    """Return the tier for this score and these signal times, ignoring cooldowns."""
    if score >= rule.hot_from or _has_recent(latest, rule.hot_signals, rule.hot_within, now):
        return Tier.HOT
    if score >= rule.warm_from or _has_recent(latest, rule.warm_signals, rule.warm_within, now):
        return Tier.WARM
    return Tier.COLD


def update_tier(
    standing: TierState,
    *,
    score: float,
    latest: Sequence[datetime],
    now: datetime,
    rule: TierRule,
) -> TierState:
    """Return the account's tier now. A second call at the same moment changes nothing.

    A cooldown begins when a call first finds the score too low, so rare calls can only delay the
    move.
    """
    tier = choose_tier(score, latest, now=now, rule=rule)
    if tier.rank > standing.tier.rank:
        return TierState(tier=tier, since=now)
    if tier is standing.tier:
        return replace(standing, below_since=None)
    below_since = standing.below_since or now
    if now - below_since < _get_cooldown(rule, standing.tier) or standing.since == now:
        return replace(standing, below_since=below_since)
    lower = BY_RANK[standing.tier.rank - 1]
    return TierState(tier=lower, since=now, below_since=now if tier is not lower else None)


def compute_intervals(ranks: Numbers, score: Numbers, quiet: Numbers, *, rule: TierRule) -> Floats:
    """Return the days between lookups, by tier rank, score and days in the tier."""
    share = np.clip(score / rule.warm_from, 0.0, 1.0) if rule.warm_from else np.ones(len(score))
    # Geometric, as everywhere between two intervals: each step of heat shortens by the same share.
    often, rare = rule.cold_every / _DAY, rule.coldest_every / _DAY
    cold = np.clip(rare * np.exp(share * math.log(often / rare)), often, rare)
    cold = np.where(quiet < rule.cold_cooldown / _DAY, often, cold)
    warm = np.where(ranks == Tier.WARM.rank, rule.warm_every / _DAY, cold)
    return np.where(ranks == Tier.HOT.rank, rule.hot_every / _DAY, warm)


def _get_cooldown(rule: TierRule, tier: Tier) -> timedelta:
    """Return how long the score stays below before an account leaves this tier."""
    return {
        Tier.HOT: rule.hot_cooldown,
        Tier.WARM: rule.warm_cooldown,
        Tier.COLD: rule.cold_cooldown,
    }[tier]


def _has_recent(latest: Sequence[datetime], number: int, within: timedelta, now: datetime) -> bool:
    return sum(at <= now and now - at <= within for at in latest) >= number
