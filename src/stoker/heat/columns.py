"""How signals, heats, beliefs and plans stand in rows.

Rows that come out are read as either database's driver gives them: moments and JSON as text or
decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import fsum
from typing import Any

import numpy as np

from stoker.db.database import Value, json_value, moment, moment_text
from stoker.heat.beliefs import AccountBelief, Facet
from stoker.heat.heat import AccountHeat, Factors, HeatState, Signal, SignalKind, in_ticks
from stoker.heat.model import AccountColumns, PlanRecord
from stoker.heat.tiers import Tier

SIGNAL = "id, account_id, kind, at, strength, source"

HEAT = (
    "account_id, tier, score, posture_score, signal_recency, signal_volume, posture, peak, mass, "
    "as_of, latest, tier_since, below_since, computed_at, updated_at"
)

BELIEF = "account_id, surface_at, surface_changes, surface_days, deep_at, deep_changes, deep_days"

STANDS = "account_id, score, posture, tier, tier_since"

PLAN = "run, at, policy, header"

_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)

_NOTHING = (None,) * 6  # as learned about an account

_RANKS = {tier.value: tier.rank for tier in Tier}

# A sweep goes through a million rows, and most of their moments are those of the row before.
_text = lru_cache(maxsize=4096)(moment_text)

_moment = lru_cache(maxsize=4096)(moment)


def signal_row(signal: Signal) -> tuple[Value, ...]:
    """Return a signal as its row, in the order of `SIGNAL`."""
    return (
        signal.id,
        signal.account,
        signal.kind.value,
        moment_text(signal.at),
        float(signal.strength),
        signal.source,
    )


def signal_of(row: tuple[Any, ...]) -> Signal:
    """Return the signal in a row of `SIGNAL`."""
    one, account, kind, at, strength, source = row
    return Signal(
        id=one,
        account=account,
        kind=SignalKind(kind),
        at=moment(at),
        strength=strength,
        source=source,
    )


def heat_row(heat: AccountHeat) -> tuple[Value, ...]:
    """Return a heat as its row, in the order of `HEAT`."""
    state, factors = heat.state, heat.factors
    return (
        heat.account,
        heat.tier.value,
        float(heat.score),
        float(factors.posture_score),
        float(factors.signal_recency),
        float(factors.signal_volume),
        float(state.posture),
        float(state.peak),
        float(state.mass),
        _text(state.as_of) if state.as_of else None,
        " ".join(str(in_ticks(at)) for at in state.latest),
        _text(heat.tier_since),
        _text(heat.below_since) if heat.below_since else None,
        _text(heat.computed_at),
        _text(heat.updated_at),
    )


def heat_of(row: tuple[Any, ...]) -> AccountHeat:
    """Return the heat in a row of `HEAT`."""
    account, tier, score, posture_score, recency, volume, posture, peak, mass, as_of = row[:10]
    latest, tier_since, below_since, computed_at, updated_at = row[10:]
    return AccountHeat(
        account=account,
        score=score,
        tier=Tier(tier),
        factors=Factors(posture_score=posture_score, signal_recency=recency, signal_volume=volume),
        state=HeatState(
            posture=posture,
            peak=peak,
            mass=mass,
            as_of=as_of and _moment(as_of),
            latest=_times(latest),
        ),
        tier_since=_moment(tier_since),
        below_since=below_since and _moment(below_since),
        computed_at=_moment(computed_at),
        updated_at=_moment(updated_at),
    )


def belief_row(belief: AccountBelief) -> tuple[Value, ...]:
    """Return what looks taught about an account as its row, in the order of `BELIEF`."""
    return (belief.account, *_facet_row(belief.surface), *_facet_row(belief.deep))


def belief_of(row: tuple[Any, ...]) -> AccountBelief:
    """Return what looks taught about an account, from a row of `BELIEF`."""
    account, surface_at, surface_changes, surface_days, deep_at, deep_changes, deep_days = row
    return AccountBelief(
        account,
        Facet(_moment(surface_at), surface_changes, surface_days) if surface_at else None,
        Facet(_moment(deep_at), deep_changes, deep_days) if deep_at else None,
    )


def columns_of(
    rows: Sequence[tuple[Any, ...]],
    beliefs: Iterable[tuple[Any, ...]],
    signals: Iterable[tuple[Any, ...]],
) -> AccountColumns:
    """Return accounts in columns: rows of `STANDS`, of `BELIEF`, and signals in any order.

    A signal is its account, time and strength. Those of other accounts are passed over.
    """
    facets = {account: rest for account, *rest in beliefs}
    since: defaultdict[str, list[float]] = defaultdict(list)
    for account, at, strength in signals:
        seen_at = facets[account][0] if account in facets else None
        if seen_at is None or at > seen_at:
            since[account].append(strength)
    accounts, score, posture, tier, tier_since = zip(*rows, strict=True) if rows else ((),) * 5
    learned = [facets.get(account, _NOTHING) for account in accounts]
    surface_at, changes, days, deep_at, deep_changes, deep_days = (
        zip(*learned, strict=True) if learned else ((),) * 6
    )
    return AccountColumns(
        accounts=list(accounts),
        heat=np.array(score, np.float64),
        posture=np.array(posture, np.float64),
        tier=np.array([_RANKS[one] for one in tier], np.int8),
        tier_since=np.array([_days(at) for at in tier_since], np.float64),
        surface_at=np.array([_days(at) for at in surface_at], np.float64),
        surface_changes=np.array(changes, np.float64),
        surface_days=np.array(days, np.float64),
        deep_at=np.array([_days(at) for at in deep_at], np.float64),
        deep_changes=np.array(deep_changes, np.float64),
        deep_days=np.array(deep_days, np.float64),
        # Summed exactly, so that it makes no difference in which order a database tells them.
        signals=np.array([fsum(since.get(account, ())) for account in accounts], np.float64),
    )


def plan_of(row: tuple[Any, ...]) -> PlanRecord:
    """Return what was decided for a run, from a row of `PLAN`."""
    run, at, policy, header = row
    return PlanRecord(run=run, at=moment(at), policy=policy, header=json_value(header))


def _facet_row(facet: Facet | None) -> tuple[Value, Value, Value]:
    if facet is None:
        return (None, None, None)
    return (_text(facet.seen_at), facet.changes, facet.days)


@lru_cache(maxsize=4096)
def _days(at: str | datetime | None) -> float:
    return -np.inf if at is None else (moment(at) - _EPOCH) / _DAY


@lru_cache(maxsize=4096)
def _times(latest: str) -> tuple[datetime, ...]:
    return tuple(_EPOCH + timedelta(microseconds=int(ticks)) for ticks in latest.split())
