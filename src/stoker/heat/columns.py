"""Convert signals, heats, change rates and plans to database rows and back.

Rows are read as either database's driver returns them: times and JSON as text or decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import fsum
from typing import Any

import numpy as np

from stoker.db.database import Value, from_db_json, from_db_time, to_db_time
from stoker.heat.beliefs import AccountChangeRate, DataLevel
from stoker.heat.heat import AccountHeat, Factors, HeatState, Signal, SignalKind, to_ticks
from stoker.heat.model import AccountColumns, PlanRecord
from stoker.heat.tiers import Tier

SIGNAL_FIELDS = "id, account_id, kind, at, strength, source"

HEAT_FIELDS = (
    "account_id, tier, score, posture_score, signal_recency, signal_volume, posture, peak, mass, "
    "as_of, latest, tier_since, below_since, computed_at, updated_at"
)

CHANGE_RATE_FIELDS = (
    "account_id, surface_at, surface_changes, surface_days, deep_at, deep_changes, deep_days"
)

STATE_FIELDS = "account_id, score, posture, tier, tier_since"

PLAN_FIELDS = "run, at, policy, header"

_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)

_NO_LEVELS = (None,) * 6  # as learned about an account

_RANKS = {tier.value: tier.rank for tier in Tier}

# A sweep goes through a million rows, and most of their moments are those of the row before.
_to_time_text = lru_cache(maxsize=4096)(to_db_time)

_parse_time = lru_cache(maxsize=4096)(from_db_time)


def to_signal_row(signal: Signal) -> tuple[Value, ...]:
    """Return a signal as its row, in the order of `SIGNAL_FIELDS`."""
    return (
        signal.id,
        signal.account,
        signal.kind.value,
        to_db_time(signal.at),
        float(signal.strength),
        signal.source,
    )


def parse_signal_row(row: tuple[Any, ...]) -> Signal:
    """Return the signal in a row of `SIGNAL_FIELDS`."""
    one, account, kind, at, strength, source = row
    return Signal(
        id=one,
        account=account,
        kind=SignalKind(kind),
        at=from_db_time(at),
        strength=strength,
        source=source,
    )


def to_heat_row(heat: AccountHeat) -> tuple[Value, ...]:
    """Return a heat as its row, in the order of `HEAT_FIELDS`."""
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
        _to_time_text(state.as_of) if state.as_of else None,
        " ".join(str(to_ticks(at)) for at in state.latest),
        _to_time_text(heat.tier_since),
        _to_time_text(heat.below_since) if heat.below_since else None,
        _to_time_text(heat.computed_at),
        _to_time_text(heat.updated_at),
    )


def parse_heat_row(row: tuple[Any, ...]) -> AccountHeat:
    """Return the heat in a row of `HEAT_FIELDS`."""
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
            as_of=as_of and _parse_time(as_of),
            latest=_parse_times(latest),
        ),
        tier_since=_parse_time(tier_since),
        below_since=below_since and _parse_time(below_since),
        computed_at=_parse_time(computed_at),
        updated_at=_parse_time(updated_at),
    )


def to_change_rate_row(belief: AccountChangeRate) -> tuple[Value, ...]:
    """Return an account's change rates as a row, in the order of
    `CHANGE_RATE_FIELDS`.
    """
    return (belief.account, *_to_level_row(belief.surface), *_to_level_row(belief.deep))


def parse_change_rate_row(row: tuple[Any, ...]) -> AccountChangeRate:
    """Return an account's change rates from a row of `CHANGE_RATE_FIELDS`."""
    account, surface_at, surface_changes, surface_days, deep_at, deep_changes, deep_days = row
    return AccountChangeRate(
        account,
        DataLevel(_parse_time(surface_at), surface_changes, surface_days) if surface_at else None,
        DataLevel(_parse_time(deep_at), deep_changes, deep_days) if deep_at else None,
    )


def to_account_columns(
    rows: Sequence[tuple[Any, ...]],
    beliefs: Iterable[tuple[Any, ...]],
    signals: Iterable[tuple[Any, ...]],
) -> AccountColumns:
    """Return accounts in columns: rows of `STATE_FIELDS`, of `CHANGE_RATE_FIELDS`, and signals in
    any order.

    A signal is its account, time and strength. Those of other accounts are passed over.
    """
    facets = {account: rest for account, *rest in beliefs}
    since: defaultdict[str, list[float]] = defaultdict(list)
    for account, at, strength in signals:
        seen_at = facets[account][0] if account in facets else None
        if seen_at is None or at > seen_at:
            since[account].append(strength)
    accounts, score, posture, tier, tier_since = zip(*rows, strict=True) if rows else ((),) * 5
    learned = [facets.get(account, _NO_LEVELS) for account in accounts]
    surface_at, changes, days, deep_at, deep_changes, deep_days = (
        zip(*learned, strict=True) if learned else ((),) * 6
    )
    return AccountColumns(
        accounts=list(accounts),
        heat=np.array(score, np.float64),
        posture=np.array(posture, np.float64),
        tier=np.array([_RANKS[one] for one in tier], np.int8),
        tier_since=np.array([_to_days(at) for at in tier_since], np.float64),
        surface_at=np.array([_to_days(at) for at in surface_at], np.float64),
        surface_changes=np.array(changes, np.float64),
        surface_days=np.array(days, np.float64),
        deep_at=np.array([_to_days(at) for at in deep_at], np.float64),
        deep_changes=np.array(deep_changes, np.float64),
        deep_days=np.array(deep_days, np.float64),
        # Summed exactly, so that it makes no difference in which order a database tells them.
        signals=np.array([fsum(since.get(account, ())) for account in accounts], np.float64),
    )


def parse_plan_row(row: tuple[Any, ...]) -> PlanRecord:
    """Return what was decided for a run, from a row of `PLAN_FIELDS`."""
    run, at, policy, header = row
    return PlanRecord(run=run, at=from_db_time(at), policy=policy, header=from_db_json(header))


def _to_level_row(facet: DataLevel | None) -> tuple[Value, Value, Value]:
    if facet is None:
        return (None, None, None)
    return (_to_time_text(facet.seen_at), facet.changes, facet.days)


@lru_cache(maxsize=4096)
def _to_days(at: str | datetime | None) -> float:
    return -np.inf if at is None else (from_db_time(at) - _EPOCH) / _DAY


@lru_cache(maxsize=4096)
def _parse_times(latest: str) -> tuple[datetime, ...]:
    return tuple(_EPOCH + timedelta(microseconds=int(ticks)) for ticks in latest.split())
