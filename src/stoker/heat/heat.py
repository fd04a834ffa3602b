"""Compute how hot accounts are, from which factors, and in which tier.

Posture says how well an account fits. Signals say that something happened there: recency is the
strongest signal faded to now, volume the sum of all of them. Each account's state is a few numbers
however many signals there were. A signal updates them in one step, and the score follows from the
state and the time alone, so a sweep and an arriving signal give the same number. The functions for
one account and for many give equal results.

An account moves up a tier at once, by score or by signals close together. It moves down one tier at
a time, and only after its score has stayed below for the tier's cooldown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.accounts.model import CompanyId
from stoker.base.types import to_utc
from stoker.heat.model import (
    BY_RANK,
    EPOCH,
    AccountHeat,
    DailyHeat,
    Factors,
    HeatState,
    Signal,
    Tier,
    to_ticks,
)
from stoker.heat.settings import MAX_SIGNALS, HeatRule, HeatSettings, TierRule

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]

Flags = NDArray[np.bool_]

Numbers = NDArray[Any]

_DAY = timedelta(days=1)

_TICK = timedelta.resolution

_MIN_LEFT = 1e-12  # what has faded this far is gone

_MAX_HALVINGS = 1100  # half-lives after which nothing is left of any number


def new_account_heat(account: CompanyId, *, now: datetime) -> AccountHeat:
    """Return the heat of an account without signals."""
    now = to_utc(now, what="now")
    return AccountHeat(
        account=account,
        score=0.0,
        tier=Tier.COLD,
        factors=Factors(),
        state=HeatState(),
        tier_since=now,
        computed_at=now,
        updated_at=now,
        known_at=now,
    )


def clamp_signal_date(signal: Signal, *, now: datetime) -> Signal:
    """Return the signal, dated no later than now."""
    return signal if signal.at <= now else replace(signal, at=now)


def add_signal(heat: AccountHeat, signal: Signal, *, rule: HeatRule) -> AccountHeat:
    """Return the heat with one more signal in its state; `score_heat` updates the score.

    Signals may come in any order. The store makes sure that each is added once.
    """
    state = heat.state
    if signal.strength == 0.0:
        return heat
    as_of = _round_to_half_life(signal.at, rule.half_life)
    if state.as_of is not None and state.as_of > as_of:
        as_of = state.as_of
    faded = _compute_left_share(state.as_of, as_of, rule.half_life) if state.as_of else 0.0
    fresh = signal.strength * _compute_left_share(signal.at, as_of, rule.half_life)
    moved = HeatState(
        posture=state.posture,
        peak=max(state.peak * faded, fresh),
        mass=state.mass * faded + fresh,
        as_of=as_of,
        latest=tuple(sorted((*state.latest, signal.at), reverse=True)[:MAX_SIGNALS]),
    )
    return replace(heat, state=moved)


def set_posture(heat: AccountHeat, posture: float) -> AccountHeat:
    """Return the heat with this posture (0 to 1); `score_heat` updates the score."""
    return replace(heat, state=replace(heat.state, posture=posture))


def score_heat(heat: AccountHeat, *, now: datetime, rule: HeatSettings) -> AccountHeat:
    """Return the heat at this moment: score, factors and tier, from its state alone."""
    return score_heats([heat], now=now, rule=rule)[0]


def split_score(heat: AccountHeat, *, rule: HeatRule) -> tuple[float, float]:
    """Return how much of a score comes from posture, and how much from signals."""
    total = rule.posture_weight + rule.recency_weight + rule.volume_weight
    fit = min(rule.posture_weight * heat.factors.posture_score / total, heat.score)
    return fit, heat.score - fit


def compute_scores(
    posture: Floats, peak: Floats, mass: Floats, as_of: Ints, *, now: datetime, rule: HeatRule
) -> tuple[Floats, Floats, Floats]:
    """Return every account's score, recency and volume at this moment, each 0 to 1.

    `as_of` is in microseconds since 1970 (`to_ticks`), at most a half-life after `now`. Rounding
    keeps the order at every step, so more posture, a larger peak or a larger mass never lowers a
    score.
    """
    half_life = rule.half_life // _TICK
    halvings, rest = np.divmod(to_ticks(now) - as_of, half_life)
    share = np.exp2(rest / -float(half_life))
    left = np.ldexp(share, -np.clip(halvings, -1, _MAX_HALVINGS).astype(np.int32))
    recency = np.minimum(_drop_faded(peak * left), 1.0)
    with np.errstate(divide="ignore", over="ignore"):
        volume = 1.0 / (1.0 + rule.volume_scale / _drop_faded(mass * left))
    weighed = rule.posture_weight * posture
    weighed = weighed + rule.recency_weight * recency
    weighed = weighed + rule.volume_weight * volume
    total = rule.posture_weight + rule.recency_weight + rule.volume_weight
    return np.minimum(weighed / total, 1.0), recency, volume


def _drop_faded(faded: Floats) -> Floats:
    return np.where(faded < _MIN_LEFT, 0.0, faded)


def _round_to_half_life(at: datetime, half_life: timedelta) -> datetime:
    return EPOCH - half_life * ((EPOCH - at) // half_life)


def _compute_left_share(at: datetime, as_of: datetime, half_life: timedelta) -> float:
    halvings, rest = divmod(as_of - at, half_life)
    return math.ldexp(2.0 ** -(rest / half_life), -min(halvings, _MAX_HALVINGS))


def score_heats(
    heats: Sequence[AccountHeat], *, now: datetime, rule: HeatSettings
) -> list[AccountHeat]:
    """Return `score_heat` of each account, in the order given."""
    now, states = to_utc(now, what="now"), [heat.state for heat in heats]
    columns = compute_scores(
        np.array([state.posture for state in states], np.float64),
        np.array([state.peak for state in states], np.float64),
        np.array([state.mass for state in states], np.float64),
        np.array([to_ticks(state.as_of or EPOCH) for state in states], np.int64),
        now=now,
        rule=rule,
    )
    tiers = update_tiers(
        TierColumns.from_states(
            [
                TierState(tier=heat.tier, since=heat.tier_since, below_since=heat.below_since)
                for heat in heats
            ]
        ),
        score=columns[0],
        latest=to_latest_column([state.latest for state in states]),
        now=now,
        rule=rule,
    ).to_states()
    return [
        AccountHeat(
            account=heat.account,
            score=score,
            tier=state.tier,
            factors=Factors(
                posture_score=heat.state.posture, signal_recency=recency, signal_volume=volume
            ),
            state=heat.state,
            tier_since=state.since,
            below_since=state.below_since,
            computed_at=now,
            updated_at=heat.updated_at if state.tier is heat.tier else now,
            known_at=heat.known_at,
        )
        for heat, state, score, recency, volume in zip(
            heats, tiers, *(column.tolist() for column in columns), strict=True
        )
    ]


def compute_heats(
    heats: Sequence[AccountHeat],
    *,
    signals: Mapping[CompanyId, Iterable[Signal]] | None = None,
    postures: Mapping[CompanyId, float] | None = None,
    now: datetime,
    rule: HeatSettings,
) -> list[AccountHeat]:
    """Return each account's heat after its signals and posture, at `now`."""
    now, moved = to_utc(now, what="now"), list[AccountHeat]()
    for heat in heats:
        after = heat
        for signal in (signals or {}).get(heat.account, ()):
            after = add_signal(after, clamp_signal_date(signal, now=now), rule=rule)
        if postures and heat.account in postures:
            after = set_posture(after, postures[heat.account])
        moved.append(after if after.state == heat.state else replace(after, updated_at=now))
    return score_heats(moved, now=now, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierState:
    """An account's tier, since when, and since when its score has been too low for it."""

    tier: Tier
    since: datetime
    below_since: datetime | None = None


_NEVER = -(2**62)  # microseconds since 1970, for a moment that there is not


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TierColumns:
    """`TierState` of many accounts, as ranks and microseconds since 1970."""

    rank: Ints
    since: Ints
    below_since: Ints

    @classmethod
    def from_states(cls, states: Sequence[TierState]) -> TierColumns:
        return cls(
            rank=np.array([state.tier.rank for state in states], np.int64),
            since=np.array([to_ticks(state.since) for state in states], np.int64),
            below_since=np.array([_to_column(state.below_since) for state in states], np.int64),
        )

    def to_states(self) -> list[TierState]:
        return [
            TierState(
                tier=BY_RANK[rank],
                since=EPOCH + since * _TICK,
                below_since=None if below == _NEVER else EPOCH + below * _TICK,
            )
            for rank, since, below in zip(
                self.rank.tolist(), self.since.tolist(), self.below_since.tolist(), strict=True
            )
        ]


def to_latest_column(latest: Sequence[Sequence[datetime]]) -> Ints:
    """Return the times of accounts' last signals, a row for each account."""
    column = np.full((len(latest), MAX_SIGNALS), _NEVER, np.int64)
    for row, moments in enumerate(latest):
        for place, at in enumerate(moments[:MAX_SIGNALS]):
            column[row, place] = to_ticks(at)
    return column


def choose_tier_ranks(score: Floats, latest: Ints, *, now: datetime, rule: TierRule) -> Ints:
    """Return the tier ranks for these scores and signal times, ignoring cooldowns."""
    hot = (score >= rule.hot_from) | _have_recent(latest, rule.hot_signals, rule.hot_within, now)
    warm = score >= rule.warm_from
    warm |= _have_recent(latest, rule.warm_signals, rule.warm_within, now)
    return np.where(hot, Tier.HOT.rank, np.where(warm, Tier.WARM.rank, Tier.COLD.rank))


def update_tiers(
    standing: TierColumns, *, score: Floats, latest: Ints, now: datetime, rule: TierRule
) -> TierColumns:
    """Return the accounts' tiers now. A second call at the same moment changes nothing.

    A cooldown begins when a call first finds the score too low, so rare calls can only delay the
    move.
    """
    tier, moment, rank = (
        choose_tier_ranks(score, latest, now=now, rule=rule),
        to_ticks(now),
        (standing.rank),
    )
    below = np.where(standing.below_since == _NEVER, moment, standing.below_since)
    cooldowns = np.array([_get_cooldown(rule, each) // _TICK for each in BY_RANK], np.int64)
    rests = (moment - below < cooldowns[rank]) | (standing.since == moment)
    falls = (tier < rank) & ~rests
    moved = np.where(falls, rank - 1, np.maximum(tier, rank))
    still_below = np.where(falls, np.where(tier < rank - 1, moment, _NEVER), below)
    return TierColumns(
        rank=moved,
        since=np.where(moved == rank, standing.since, moment),
        below_since=np.where(tier < rank, still_below, _NEVER),
    )


def update_tier(
    standing: TierState,
    *,
    score: float,
    latest: Sequence[datetime],
    now: datetime,
    rule: TierRule,
) -> TierState:
    """Return one account's tier now, as `update_tiers` does."""
    [after] = update_tiers(
        TierColumns.from_states([standing]),
        score=np.array([score]),
        latest=to_latest_column([latest]),
        now=now,
        rule=rule,
    ).to_states()
    return after


def to_daily_heat(heat: AccountHeat) -> DailyHeat:
    """Return a heat as the history has it, on the day (UTC) it was computed."""
    return DailyHeat(
        account=heat.account,
        on=heat.computed_at.date(),
        score=heat.score,
        tier=heat.tier,
        factors=heat.factors,
        computed_at=heat.computed_at,
    )


def is_other_heat(day: DailyHeat, last: DailyHeat | None) -> bool:
    """Return whether a heat differs from the last one of the history, as people read it."""
    if last is None:
        return True
    return (day.tier, round(day.score, 2)) != (last.tier, round(last.score, 2))


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


def _have_recent(latest: Ints, number: int, within: timedelta, now: datetime) -> Flags:
    age = to_ticks(now) - latest
    recent: Flags = ((age >= 0) & (age <= within // _TICK)).sum(axis=1) >= number
    return recent


def _to_column(at: datetime | None) -> int:
    return _NEVER if at is None else to_ticks(at)
