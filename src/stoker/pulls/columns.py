"""The planner's inputs as columns: accounts, caps, and the rule.

Inconsistent values are rejected. One number in place of a column applies to every account. Times
are days since 1970, ages are days, costs are whole units. An account's value comes from its tier
and is adjusted by its posture: without history, at a price of one unit of value per unit of cost,
an account of average posture is looked up as often and as deep as its tier says. An account of
which nothing is known, not even the site, gets a deep first lookup.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import ChangeRateRule, ChangeRates, Floats, estimate_rates
from stoker.heat.heat import to_ticks
from stoker.heat.tiers import BY_RANK, Tier, TierRule, compute_intervals
from stoker.pulls.capacity import NO_CAP, Ints
from stoker.pulls.worth import Objective, compute_account_value

Column = NDArray[Any]

Rows = Ints | slice

UNCAPPED = -1  # in a column of caps: there is none

UNREADABLE = -1  # in the column of budgets: what is left is unknown, so nothing is spent

NO_DOMAIN = -1

NEVER = -np.inf  # when an account was last looked up that never was

_DAY = timedelta(days=1)

_TICKS_PER_DAY = _DAY // timedelta.resolution

_MAX_UNITS = 10**6  # that one lookup costs

_MAX_ACCOUNTS = 2**31


class Policy(StrEnum):
    """How lookups are chosen."""

    OPTIMAL = "optimal"  # what they are worth, by what was learned
    TIERS = "tiers"  # the table of tiers, by heat


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRule:
    """Every number of a plan that does not belong to one account."""

    policy: Policy = Policy.OPTIMAL
    objective: Objective = Objective.HARMONIC
    tick: timedelta = _DAY  # from one plan to the next
    floor: timedelta | None = timedelta(days=60)  # the longest wait; None: no limit
    floor_share: float = 0.2  # of any cap, at most, goes to those who waited that long
    signal_changes: float = 1.0  # a signal of full strength is as good as so many changes
    value_spread: float = 4.0  # posture 1 is worth this many times posture 1/2, 0 one such part
    deep_again: timedelta = timedelta(days=30)  # a deep lookup of accounts that are not HOT
    tiers: TierRule = field(default_factory=TierRule)

    def __post_init__(self) -> None:
        if not timedelta(minutes=1) <= self.tick <= timedelta(days=30):
            raise ConfigError(f"plans are 1 minute to 30 days apart, not {self.tick}")
        if self.floor is not None and not self.tick <= self.floor <= timedelta(days=36_600):
            raise ConfigError(
                f"plans {self.tick} apart cannot make a look every {self.floor} for all accounts"
            )
        if not 0.0 <= self.floor_share <= 0.5:
            raise ConfigError(f"the floor takes 0 to 0.5 of a cap, not {self.floor_share!r}")
        if not 0.0 <= self.signal_changes <= 1000.0:
            raise ConfigError(f"a signal is 0 to 1000 changes, not {self.signal_changes!r}")
        if not self.tick <= self.deep_again <= timedelta(days=36_600):
            raise ConfigError(f"deep looks are no closer than plans, not {self.deep_again} apart")
        if not 1.0 <= self.value_spread <= 1000.0:
            raise ConfigError(f"values spread by 1 to 1000 times, not {self.value_spread!r}")

    @property
    def share(self) -> int:
        """Return the floor's share in thousandths, as caps are shared out."""
        return round(self.floor_share * 1000) if self.floor is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanAccounts:
    """One row per account, tenants one after the other. Built by `validate_accounts`."""

    looked: Column  # when last looked up: days since 1970; NEVER
    surface: ChangeRates  # how often what any lookup refreshes changes
    value: Column  # of what any lookup refreshes
    deep_looked: Column
    deep: ChangeRates  # how often what only a deep lookup refreshes changes
    deep_value: Column  # 0: a deep lookup would bring nothing more
    signals: Column  # strengths since the last lookup, together
    tenant: Column  # numbers from 0 up, rising
    connector: Column  # numbers from 0 up
    domain: Column  # whatever tenants share, a site or a key; NO_DOMAIN
    units: Column  # of a shallow lookup
    deep_units: Column
    tier: Column  # by rank
    heat: Column
    quiet: Column  # days in its tier
    posture: Column
    barred: Column  # what speaks against it before anything is weighed: one of BARS

    def __len__(self) -> int:
        return len(self.looked)

    def select_rows(self, rows: Rows) -> PlanAccounts:
        """Return some of the accounts, as they stand."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, column in parts.items():
            if isinstance(column, ChangeRates):
                parts[name] = ChangeRates(changes=column.changes[rows], days=column.days[rows])
            else:
                parts[name] = column[rows]
        return PlanAccounts(**parts)


# name, kind, least, most, and the default
_COLUMNS: tuple[tuple[str, type[np.generic], float, float, float], ...] = (
    ("looked", np.float64, NEVER, 4e6, NEVER),
    ("value", np.float64, 0.0, 1e30, 1.0),
    ("deep_looked", np.float64, NEVER, 4e6, NEVER),
    ("deep_value", np.float64, 0.0, 1e30, 0.0),
    ("signals", np.float32, 0.0, 1e6, 0.0),
    ("tenant", np.int32, 0, 2**31 - 1, 0),
    ("connector", np.int32, 0, 2**16 - 1, 0),
    ("domain", np.int32, NO_DOMAIN, 2**31 - 1, NO_DOMAIN),
    ("units", np.int32, 1, _MAX_UNITS, 1),
    ("deep_units", np.int32, 1, _MAX_UNITS, 3),
    ("tier", np.uint8, 0, len(BY_RANK) - 1, 0),
    ("heat", np.float32, 0.0, 1.0, 0.0),
    ("quiet", np.float32, 0.0, np.inf, 0.0),
    ("posture", np.float32, 0.0, 1.0, 0.5),
    ("barred", np.uint8, 0, 255, int(Decision.FREE)),
)


def validate_accounts(
    surface: ChangeRates, *, deep: ChangeRates | None = None, **given: ArrayLike
) -> PlanAccounts:
    """Return accounts of these columns; one number applies to every account.

    There are as many accounts as surface estimates; without deep estimates the deep level is the
    same.
    """
    size = len(surface.changes)
    if size >= _MAX_ACCOUNTS:
        raise ConfigError(f"a plan has fewer than {_MAX_ACCOUNTS} accounts, not {size}")
    deep = deep or surface
    if len(deep.changes) != size:
        raise ConfigError(f"{size} accounts have {size} beliefs, not {len(deep.changes)}")
    columns: dict[str, Column] = {}
    for name, kind, least, most, usual in _COLUMNS:
        column = np.asarray(given.pop(name, usual))
        if column.size and not (column.min() >= least and column.max() <= most):
            raise ConfigError(f"an account's {name} is a number from {least:g} to {most:g}")
        if column.ndim and column.shape != (size,):
            raise ConfigError(f"{size} accounts have {size} numbers for {name}, not {column.shape}")
        columns[name] = np.broadcast_to(column.astype(kind, copy=False), (size,))
    if given:
        raise ConfigError(f"accounts have no column {', '.join(sorted(given))}")
    if (np.diff(columns["tenant"]) < 0).any():
        raise ConfigError("the accounts of one tenant stand together, tenants rising")
    if (columns["deep_units"] < columns["units"]).any():
        raise ConfigError("a deep look costs no less than a shallow one")
    if not set(np.flatnonzero(np.bincount(columns["barred"]))) <= set(BLOCKS):
        raise ConfigError("an account is barred by one of the reasons for that, or free")
    return PlanAccounts(surface=surface, deep=deep, **columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PullLimits:
    """The units of a day: per tenant; per tenant and connector; per domain for all together."""

    budget: Ints  # by tenant; UNREADABLE: nothing is spent
    connector_cap: Ints  # by tenant and connector
    domain_cap: Ints  # by domain
    deep_cap: Ints  # by tenant: deep lookups; empty where they are not counted
    deep_why: NDArray[
        np.uint8
    ]  # by tenant: the `Decision` of those that are not deep because of it

    @property
    def tenants(self) -> int:
        """Return how many tenants there are."""
        return len(self.budget)


def validate_limits(
    budget: ArrayLike,
    *,
    connector_cap: ArrayLike | None = None,
    domain_cap: ArrayLike | None = None,
    deep_cap: ArrayLike | None = None,
    deep_why: ArrayLike = Decision.CAP_CONNECTOR_DAY,
) -> PullLimits:
    """Return these caps; -1 means no cap, and for a budget: unreadable.

    One reason for fewer deep lookups applies to every tenant.
    """
    budgets = _validate_caps(budget, dimensions=1, what="budget")
    connectors = np.zeros((len(budgets), 0), np.int64)
    if connector_cap is not None:
        connectors = _validate_caps(connector_cap, dimensions=2, what="cap of a connector")
    if len(connectors) != len(budgets):
        raise ConfigError(f"{len(budgets)} tenants have caps of connectors, not {len(connectors)}")
    domains = np.zeros(0, np.int64)
    if domain_cap is not None:
        domains = _validate_caps(domain_cap, dimensions=1, what="cap of a domain")
    deep = np.zeros(0, np.int64)
    if deep_cap is not None:
        deep = _validate_caps(deep_cap, dimensions=1, what="cap of deep looks")
        if len(deep) != len(budgets):
            raise ConfigError(f"{len(budgets)} tenants have caps of deep looks, not {len(deep)}")
    why = np.asarray(deep_why).astype(np.uint8)
    if not set(np.unique(why).tolist()) <= set(DEPTH_REFUSALS):
        raise ConfigError("looks are not deep for one of the reasons for that")
    return PullLimits(
        budget=budgets,
        connector_cap=np.where(connectors == UNCAPPED, NO_CAP, connectors),
        domain_cap=np.where(domains == UNCAPPED, NO_CAP, domains),
        deep_cap=np.where(deep == UNCAPPED, NO_CAP, deep),
        deep_why=np.broadcast_to(why, (len(deep),)),
    )


def check_limits_cover(accounts: PlanAccounts, limits: PullLimits) -> None:
    """Raise ConfigError for accounts whose tenant, connector or domain has no limits."""
    if not len(accounts):
        return
    if int(accounts.tenant[-1]) >= limits.tenants:
        raise ConfigError(f"there is no budget for tenant {int(accounts.tenant[-1])}")
    connectors = limits.connector_cap.shape[1]
    if connectors and int(accounts.connector.max()) >= connectors:
        raise ConfigError(f"there are caps for {connectors} connectors only")
    if len(limits.domain_cap) and int(accounts.domain.max()) >= len(limits.domain_cap):
        raise ConfigError(f"there are caps for {len(limits.domain_cap)} domains only")


def compute_period_units(left: int, *, now: datetime, until: datetime, rule: PullRule) -> int:
    """Return the units one plan may use of those left until then: its tick's share of them.

    Rounded up, so that the last of them are used too; a tick that reaches beyond has them all.
    """
    ticks = (until - now) / rule.tick
    return left if ticks <= 1 else min(left, math.ceil(left / ticks))


def to_epoch_days(moment: datetime) -> float:
    """Return the moment as columns hold it: days since 1970."""
    return to_ticks(moment) / _TICKS_PER_DAY


def to_days(span: timedelta) -> float:
    """Return the span in days."""
    return span / _DAY


def _validate_caps(given: ArrayLike, *, dimensions: int, what: str) -> Ints:
    column = np.asarray(given)
    if column.size and column.dtype.kind not in "iu":
        raise ConfigError(f"a {what} is whole units")
    if column.ndim != dimensions:
        raise ConfigError(f"a {what} comes in {dimensions} dimensions, not {column.ndim}")
    if column.size and (column.min() < UNCAPPED or column.max() > NO_CAP):
        raise ConfigError(f"a {what} is 0 to {NO_CAP} units, or -1")
    return column.astype(np.int64)


_NEUTRAL_POSTURE = 0.5


def compute_account_values(
    *,
    tier: Column,
    heat: Column,
    quiet: Column,
    posture: Column,
    units: Column,
    deep_units: Column,
    rule: PullRule,
    beliefs: ChangeRateRule,
) -> tuple[Floats, Floats]:
    """Return the values of accounts by their tiers and postures: of the surface, of the deep.

    Tiers are ranks, `quiet` is days in the tier, costs are units of a shallow and a deep lookup.
    """
    prior = beliefs.build_prior(tier)
    every = compute_intervals(tier, heat, quiet, rule=rule.tiers)
    deep_every = np.where(tier == Tier.HOT.rank, every, to_days(rule.deep_again))
    bent = compute_posture_factor(posture, rule=rule)
    surface = units * compute_account_value(every, prior, objective=rule.objective)
    deep = (deep_units - units) * compute_account_value(deep_every, prior, objective=rule.objective)
    return bent * surface, bent * deep


def compute_posture_factor(posture: Column, *, rule: PullRule) -> Floats:
    """Return how many times an account of middling posture one of this posture is worth."""
    return np.power(rule.value_spread, 2.0 * (np.asarray(posture, np.float64) - _NEUTRAL_POSTURE))


def build_accounts(
    *,
    heat: Column,
    posture: Column,
    tier: Column,
    tier_since: Floats,
    surface_at: Floats,
    surface_changes: Floats,
    surface_days: Floats,
    deep_at: Floats,
    deep_changes: Floats,
    deep_days: Floats,
    signals: Column,
    now: float,
    units: int,
    deep_units: int,
    barred: Decision,
    rule: PullRule,
    beliefs: ChangeRateRule,
) -> PlanAccounts:
    """Return one tenant's accounts; times are days since 1970, -inf for never.

    `units` are those of a shallow and a deep lookup, `barred` applies to all accounts.
    """
    prior = beliefs.build_prior(tier.astype(np.int64))
    quiet = np.maximum(now - tier_since, 0.0)
    shallow = np.full(len(tier), units, np.int32)
    deep = np.full(len(tier), max(deep_units, units), np.int32)
    value, deep_value = compute_account_values(
        tier=tier,
        heat=heat,
        quiet=quiet,
        posture=posture,
        units=shallow,
        deep_units=deep,
        rule=rule,
        beliefs=beliefs,
    )

    def today(changes: Floats, days: Floats, seen: Floats) -> ChangeRates:
        age = np.maximum(now - seen, 0.0)
        return estimate_rates(changes, days, age, prior=prior, half_life=beliefs.half_life)

    return validate_accounts(
        today(surface_changes, surface_days, surface_at),
        deep=today(deep_changes, deep_days, deep_at),
        looked=surface_at,
        deep_looked=deep_at,
        value=value,
        deep_value=deep_value,
        signals=signals,
        units=np.where(np.isfinite(deep_at), shallow, deep),
        deep_units=deep,
        tier=tier,
        heat=heat,
        quiet=quiet,
        posture=posture,
        barred=barred,
    )
