"""The planner's inputs as columns: accounts, caps, and the rule.

Inconsistent values are rejected. One number in place of a column applies to every account. Times
are days since 1970, ages are days, costs are whole units.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoker.base.errors import ConfigError
from stoker.base.reasons import Reason
from stoker.base.types import DEEP_UNITS, SHALLOW_UNITS
from stoker.heat.beliefs import ChangeRates
from stoker.heat.model import BY_RANK, to_ticks

Column = NDArray[Any]
Flags = NDArray[np.bool_]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Rows = Ints | slice

NO_CAP = 10**15  # units; what has no cap is capped by this
UNREADABLE = -1  # a budget that could not be read

NEVER = -np.inf  # when an account was last looked up that never was

_DAY = timedelta(days=1)

_TICKS_PER_DAY = _DAY // timedelta.resolution

_MAX_UNITS = 10**6  # that one lookup costs

_MAX_ACCOUNTS = 2**31


class Decision(IntEnum):
    """Why an account is looked up, or is not: one byte per account of every plan."""

    FREE = 0  # nothing speaks against it
    WORTH = 1  # worth the price of its units, or more
    FLOOR = 2  # no account waits longer than the floor
    SIGNAL = 3  # worth the price because of signals since the last lookup
    FRESH_ENOUGH = 10
    LOWER_VALUE = 11
    CAP_TENANT_DAY = 12
    CAP_CONNECTOR_DAY = 13
    CAP_SHARED_DAY = 14
    PAUSED = 20
    COOLING_DOWN = 21
    RATE_LIMIT = 22
    BUDGET_UNREADABLE = 23
    DUPLICATE_PULL_JOB_ID = 24
    STOPPED = 25


CHOSEN = (Decision.WORTH, Decision.FLOOR, Decision.SIGNAL)

BLOCKS = (
    Decision.FREE,
    Decision.PAUSED,
    Decision.COOLING_DOWN,
    Decision.RATE_LIMIT,
    Decision.BUDGET_UNREADABLE,
    Decision.DUPLICATE_PULL_JOB_ID,
    Decision.STOPPED,
)

DEPTH_REFUSALS = (
    Decision.CAP_TENANT_DAY,
    Decision.CAP_CONNECTOR_DAY,
    Decision.PAUSED,
    Decision.COOLING_DOWN,
    Decision.RATE_LIMIT,
)


REASONS = {why: Reason[why.name] for why in Decision if why.name in Reason.__members__}

CHOSEN_BECAUSE = {
    Decision.WORTH: "worth its cost",
    Decision.FLOOR: "past the maximum wait",
    Decision.SIGNAL: "worth its cost because of signals since the last research",
}


def _column(dtype: type[np.generic], low: float, high: float, default: float) -> dict[str, Any]:
    return {"dtype": dtype, "low": low, "high": high, "default": default}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanAccounts:
    """One tenant's accounts, a row each. Built and checked by `validate_accounts`."""

    looked: Column = field(
        metadata=_column(np.float64, NEVER, 4e6, NEVER)
    )  # when last: days since 1970
    surface: ChangeRates  # how often what any lookup refreshes changes
    value: Column = field(
        metadata=_column(np.float64, 0.0, 1e30, 1.0)
    )  # of what any lookup refreshes
    deep_looked: Column = field(metadata=_column(np.float64, NEVER, 4e6, NEVER))
    deep: ChangeRates  # how often what only a deep lookup refreshes changes
    deep_value: Column = field(
        metadata=_column(np.float64, 0.0, 1e30, 0.0)
    )  # 0: depth would bring nothing more
    signals: Column = field(
        metadata=_column(np.float32, 0.0, 1e6, 0.0)
    )  # strengths since the last lookup
    units: Column = field(
        metadata=_column(np.int32, 1, _MAX_UNITS, SHALLOW_UNITS)
    )  # of a shallow lookup
    deep_units: Column = field(metadata=_column(np.int32, 1, _MAX_UNITS, DEEP_UNITS))
    tier: Column = field(metadata=_column(np.uint8, 0, len(BY_RANK) - 1, 0))  # by rank
    heat: Column = field(metadata=_column(np.float32, 0.0, 1.0, 0.0))
    quiet: Column = field(metadata=_column(np.float32, 0.0, np.inf, 0.0))  # days in its tier
    posture: Column = field(metadata=_column(np.float32, 0.0, 1.0, 0.5))
    known: Column = field(metadata=_column(np.float64, NEVER, 4e6, NEVER))  # since when
    chance: Column = field(metadata=_column(np.float32, 0.0, 1.0, 1.0))  # that a lookup succeeds
    barred: Column = field(
        metadata=_column(np.uint8, 0, 255, Decision.FREE)
    )  # what refuses it anyway: of BLOCKS

    def __len__(self) -> int:
        return len(self.looked)

    def select_rows(self, rows: Rows) -> PlanAccounts:
        """Return some of the accounts, as they are."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, column in parts.items():
            if isinstance(column, ChangeRates):
                parts[name] = ChangeRates(changes=column.changes[rows], days=column.days[rows])
            else:
                parts[name] = column[rows]
        return PlanAccounts(**parts)

    def compute_ages(self, now: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the days since each level was seen, or since the account is known."""
        ages = (
            np.maximum(now - np.where(np.isfinite(seen), seen, self.known), 0.0)
            for seen in (self.looked, self.deep_looked)
        )
        surface, deep = ages
        return surface, deep

    def make_older(self, days: NDArray[np.float64] | float) -> PlanAccounts:
        """Return the accounts as if all had been seen, or known, so much longer ago."""
        return replace(
            self,
            looked=self.looked - days,
            deep_looked=self.deep_looked - days,
            known=self.known - days,
        )


def validate_accounts(
    surface: ChangeRates, *, deep: ChangeRates | None = None, **given: ArrayLike
) -> PlanAccounts:
    """Return accounts of these columns; one number applies to every account.

    There are as many accounts as surface estimates; without deep estimates the deep level is the
    same. Raises ConfigError for numbers that make no sense.
    """
    size = len(surface.changes)
    if size >= _MAX_ACCOUNTS:
        raise ConfigError(f"a plan has fewer than {_MAX_ACCOUNTS} accounts, not {size}")
    deep = deep or surface
    if len(deep.changes) != size:
        raise ConfigError(f"{size} accounts have {size} beliefs, not {len(deep.changes)}")
    columns: dict[str, Column] = {}
    for name, is_ in ((each.name, each.metadata) for each in fields(PlanAccounts) if each.metadata):
        column = np.asarray(given.pop(name, is_["default"]))
        if column.size and not (column.min() >= is_["low"] and column.max() <= is_["high"]):
            raise ConfigError(
                f"an account's {name} is a number from {is_['low']:g} to {is_['high']:g}"
            )
        if column.ndim and column.shape != (size,):
            raise ConfigError(f"{size} accounts have {size} numbers for {name}, not {column.shape}")
        columns[name] = np.broadcast_to(column.astype(is_["dtype"], copy=False), (size,))
    if given:
        raise ConfigError(f"accounts have no column {', '.join(sorted(given))}")
    if (columns["deep_units"] < columns["units"]).any():
        raise ConfigError("a deep lookup must not cost less than a shallow one")
    if not set(np.flatnonzero(np.bincount(columns["barred"]))) <= set(BLOCKS):
        raise ConfigError("unknown reason for refusing an account")
    return PlanAccounts(surface=surface, deep=deep, **columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullLimits:
    """What one plan may spend. Raises ConfigError for numbers that make no sense."""

    budget: int  # units; UNREADABLE: what is left is unknown, so nothing is spent
    connector_cap: int = NO_CAP  # units of the connector that lookups go through
    deep_cap: int | None = None  # deep lookups; None: they are not counted
    deep_why: Decision = Decision.CAP_CONNECTOR_DAY  # why no more of them are deep
    owed: int = 0  # thousandths of a unit that earlier plans left to overdue accounts

    def __post_init__(self) -> None:
        for name, least in (
            ("budget", UNREADABLE),
            ("connector_cap", 0),
            ("deep_cap", 0),
            ("owed", 0),
        ):
            number = getattr(self, name)
            if number is None and name == "deep_cap":
                continue
            if not isinstance(number, int) or not least <= number <= NO_CAP:
                raise ConfigError(f"a plan's {name} is {least} to {NO_CAP}, not {number!r}")
        if self.deep_why not in DEPTH_REFUSALS:
            raise ConfigError("unknown reason for refusing deep lookups")


def to_epoch_days(moment: datetime) -> float:
    """Return the moment as columns hold it: days since 1970."""
    return to_ticks(moment) / _TICKS_PER_DAY


def to_days(span: timedelta) -> float:
    """Return the span in days."""
    return span / _DAY
