"""How hot many accounts are by now: what `heat` says of each, reckoned in whole columns.

A sweep goes over every account of a tenant, and most of them only cooled down a little. The two
give the same numbers, so it makes no difference which of them an account met last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from stoker.core.companies import CompanyId
from stoker.core.heat import (
    AccountHeat,
    Factors,
    HeatRule,
    Signal,
    arrived,
    in_ticks,
    scores,
    with_posture,
    with_signal,
)
from stoker.core.model import in_utc
from stoker.core.tiers import TierRule, TierStanding, tier_after

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def swept(
    heats: Sequence[AccountHeat], *, now: datetime, rule: HeatRule, tiers: TierRule
) -> list[AccountHeat]:
    """Return what `heat.heat_at` says of each account at this moment, in the order given."""
    now, states = in_utc(now, what="now"), [heat.state for heat in heats]
    columns = scores(
        np.array([state.posture for state in states], np.float64),
        np.array([state.peak for state in states], np.float64),
        np.array([state.mass for state in states], np.float64),
        np.array([in_ticks(state.as_of or _EPOCH) for state in states], np.int64),
        now=now,
        rule=rule,
    )
    after: list[AccountHeat] = []
    for heat, score, recency, volume in zip(
        heats, *(column.tolist() for column in columns), strict=True
    ):
        before = TierStanding(tier=heat.tier, since=heat.tier_since, below_since=heat.below_since)
        stands = tier_after(before, score=score, latest=heat.state.latest, now=now, rule=tiers)
        after.append(
            AccountHeat(
                account=heat.account,
                score=score,
                tier=stands.tier,
                factors=Factors(
                    posture_score=heat.state.posture,
                    signal_recency=recency,
                    signal_volume=volume,
                ),
                state=heat.state,
                tier_since=stands.since,
                below_since=stands.below_since,
                computed_at=now,
                updated_at=heat.updated_at if stands.tier is heat.tier else now,
            )
        )
    return after


def all_heated(
    heats: Sequence[AccountHeat],
    *,
    signals: Mapping[CompanyId, Sequence[Signal]] | None = None,
    postures: Mapping[CompanyId, float] | None = None,
    now: datetime,
    rule: HeatRule,
    tiers: TierRule,
) -> list[AccountHeat]:
    """Return what `heat.heated` says of each account after its signals and with its posture."""
    now, moved = in_utc(now, what="now"), list[AccountHeat]()
    for heat in heats:
        after = heat
        for signal in (signals or {}).get(heat.account, ()):
            after = with_signal(after, arrived(signal, now=now), rule=rule)
        if postures and heat.account in postures:
            after = with_posture(after, postures[heat.account])
        moved.append(after if after.state == heat.state else replace(after, updated_at=now))
    return swept(moved, now=now, rule=rule, tiers=tiers)
