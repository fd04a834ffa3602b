"""The tables of signals, heats with their history, and change rates.

An account's heat and what lookups taught about it are each one short row, rewritten in place: what
a plan for a million accounts reads is two walks along two keys.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from stoker.db.table import (
    DATE_TEXT,
    INT,
    KEY,
    REAL,
    REPEATED_TIME,
    TEXT,
    TIME,
    Column,
    ColumnType,
    Index,
    Table,
    enum,
)
from stoker.heat.model import (
    EPOCH,
    AccountChangeRate,
    AccountHeat,
    DailyHeat,
    DataLevel,
    Factors,
    HeatState,
    LookupAttempts,
    LookupYields,
    Signal,
    SignalKind,
    Tier,
    to_ticks,
)


def _write_moments(moments: tuple[datetime, ...]) -> str:
    return " ".join(str(to_ticks(at)) for at in moments)


@lru_cache(maxsize=4096)
def _read_moments(text: str) -> tuple[datetime, ...]:
    return tuple(EPOCH + timedelta(microseconds=int(ticks)) for ticks in text.split())


# In microseconds since 1970, newest first.
_MOMENTS = ColumnType(sqlite="TEXT", postgres="text", write=_write_moments, read=_read_moments)

_SHARE = replace(REAL, accepts="0.0 <= {v} <= 1.0", is_refused_as="no number from 0 to 1")

SHORT_TEXT = replace(
    TEXT,
    accepts="len({v}.encode(errors='surrogatepass')) <= 500",
    is_refused_as="longer than 500 bytes",
)

SIGNALS = Table(
    "account_signals",
    Signal,
    Column("id", KEY),
    Column("account_id", KEY, field="account"),
    Column("kind", enum(SignalKind)),
    Column("at", TIME),
    Column("strength", REAL),
    Column("source", SHORT_TEXT),
    key=["id"],
    indexes=[
        Index("signals_by_account", "account_id, at DESC, id, strength"),
        Index("signals_by_time", "at, id"),
    ],
    since=8,
    what="the signal",
    grants="SELECT, INSERT, DELETE",
)

HEATS = Table(
    "account_heats",
    AccountHeat,
    Column("account_id", KEY, field="account"),
    Column("tier", enum(Tier, ordered=True)),
    Column("score", _SHARE),
    Column("posture_score", _SHARE, field="factors.posture_score"),
    Column("signal_recency", _SHARE, field="factors.signal_recency"),
    Column("signal_volume", _SHARE, field="factors.signal_volume"),
    Column("posture", REAL, field="state.posture"),
    Column("peak", REAL, field="state.peak"),
    Column("mass", REAL, field="state.mass"),
    Column("as_of", REPEATED_TIME, field="state.as_of", null=True),
    Column("latest", _MOMENTS, field="state.latest"),
    Column("tier_since", REPEATED_TIME),
    Column("below_since", REPEATED_TIME, null=True),
    Column("computed_at", REPEATED_TIME),
    Column("updated_at", REPEATED_TIME),
    Column("known_at", REPEATED_TIME, null=True, since=22),
    key=["account_id"],
    nested={"factors": Factors, "state": HeatState},
    indexes=[Index("heats_by_score", "tier, score DESC, account_id")],
    since=8,
    what="the heat of",
    grants="SELECT, INSERT, UPDATE",
    fill=70,
)

# A day on which nothing changed has no row: the last one before it still holds.
HISTORY = Table(
    "account_heat_days",
    DailyHeat,
    Column("account_id", KEY, field="account"),
    Column("day", DATE_TEXT, field="on"),
    Column("tier", enum(Tier)),
    Column("score", _SHARE),
    Column("posture_score", _SHARE, field="factors.posture_score"),
    Column("signal_recency", _SHARE, field="factors.signal_recency"),
    Column("signal_volume", _SHARE, field="factors.signal_volume"),
    Column("computed_at", REPEATED_TIME),
    key=["account_id", "day"],
    nested={"factors": Factors},
    indexes=[Index("heat_days_by_day", "day, account_id")],
    since=19,
    what="the daily heat of",
    grants="SELECT, INSERT, UPDATE, DELETE",
)

CHANGE_RATES = Table(
    "account_beliefs",
    AccountChangeRate,
    Column("account_id", KEY, field="account"),
    Column("surface_at", REPEATED_TIME, field="surface.seen_at", null=True),
    Column("surface_changes", REAL, field="surface.changes", null=True),
    Column("surface_days", REAL, field="surface.days", null=True),
    Column("deep_at", REPEATED_TIME, field="deep.seen_at", null=True),
    Column("deep_changes", REAL, field="deep.changes", null=True),
    Column("deep_days", REAL, field="deep.days", null=True),
    Column("tried", REAL, field="attempts.tried", null=True, since=17),
    Column("good", REAL, field="attempts.good", null=True, since=17),
    Column("failed_at", REPEATED_TIME, field="attempts.failed_at", null=True, since=17),
    Column("rest_days", REAL, field="attempts.rest_days", null=True, since=17),
    Column("yield_looks", REAL, field="yields.looks", null=True, since=22),
    Column("yield_sum", REAL, field="yields.total", null=True, since=22),
    Column("yield_squares", REAL, field="yields.squares", null=True, since=22),
    Column("stated_value", REAL, null=True, since=22),
    key=["account_id"],
    nested={
        "surface": DataLevel,
        "deep": DataLevel,
        "attempts": LookupAttempts,
        "yields": LookupYields,
    },
    since=8,
    what="the change rates of",
    grants="SELECT, INSERT, UPDATE",
    fill=70,
)

# Which lookups have been learned from, and nothing else of them.
LOOKUPS: Table[Any] = Table(
    "looks_learned",
    dict,
    Column("key", KEY),
    Column("at", TIME),
    key=["key"],
    indexes=[Index("looks_by_time", "at, key")],
    since=8,
    grants="SELECT, INSERT, DELETE",
)

# How well each speed of recovery explains the tenant's retries: sums of log-likelihoods.
RECOVERIES: Table[Any] = Table(
    "lookup_recoveries",
    dict,
    Column("place", INT),
    Column("likelihood", REAL),
    key=["place"],
    since=22,
    grants="SELECT, INSERT, UPDATE",
)

TABLES = (SIGNALS, HEATS, HISTORY, CHANGE_RATES, LOOKUPS, RECOVERIES)
