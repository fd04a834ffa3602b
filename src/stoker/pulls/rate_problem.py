"""The inputs of a rate plan: accounts as columns, and the limits on their cost.

Inputs are validated and brought into the form that the price search needs. Minimum rates that do
not fit a limit are cut, so that the problem always has a solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import Floats, validate_column
from stoker.pulls.shadow_prices import GroupIds, PriceRows, add_to_groups, iterate_chunks

_MIN_NUMBER, _MAX_NUMBER = 1e-30, 1e30  # what is less is nothing, what is more is a mistake

_CAP_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDemand:
    """Columns of accounts: value, changes a day, cost of a lookup."""

    value: Floats
    changes: Floats  # a day
    cost: Floats  # calls for one lookup
    tenant: NDArray[np.integer]
    connector: NDArray[np.integer] | None = None
    shared: NDArray[np.integer] | None = None
    rate_min: ArrayLike = 0.0
    rate_max: ArrayLike = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """What may be spent, in calls a day; infinite where there is no cap."""

    budget: Floats  # by tenant
    connector_cap: Floats | None = None  # by tenant and connector
    shared_cap: Floats | None = None  # by what is shared


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorGroups:
    """Each tenant's accounts by connector, and what may be spent on them."""

    leaf: GroupIds  # by account
    cap: Floats
    owner: NDArray[np.intp]  # the tenant, by leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class RateProblem:
    """Validated columns of accounts, and limits that can all be met."""

    value: Floats
    changes: Floats
    cost: Floats
    rows: PriceRows  # by tenant
    budget: Floats
    connector_groups: ConnectorGroups | None
    shared: GroupIds | None
    shared_cap: Floats
    met_share: Floats  # by tenant: which share of its least rates there is room for


def validate_problem(demand: RateDemand, limits: RateLimits) -> RateProblem:
    """Return the validated problem. Raises ConfigError for wrong numbers or lengths."""
    value = _validate_numbers(demand.value, what="an account's value")
    changes = _validate_numbers(demand.changes, what="a rate of changes")
    cost = _validate_numbers(demand.cost, what="the cost of a look")
    if value.ndim != 1 or value.shape != changes.shape or value.shape != cost.shape:
        raise ConfigError("values, rates of changes and costs are columns of equal length")
    if cost.size and cost.min() == 0.0:
        raise ConfigError("a look costs more than nothing; give it a cost of at least 1 call")
    budget = _validate_limit(limits.budget, what="a budget")
    tenant = _validate_groups(demand.tenant, len(budget), like=value, what="tenant")
    least = _validate_numbers(demand.rate_min, what="a least rate")
    least = least * cost if least.any() else np.zeros(())
    met = np.ones(len(budget))
    leaves = shared = None
    shared_cap = np.zeros(0)
    if limits.connector_cap is not None and demand.connector is not None:
        cap = _validate_limit(limits.connector_cap, what="a connector's cap")
        if cap.ndim != 2 or len(cap) != len(budget):
            raise ConfigError("connectors' caps are a table, a line for every tenant")
        connector = _validate_groups(demand.connector, cap.shape[1], like=value, what="connector")
        leaves = ConnectorGroups(
            leaf=tenant * np.int32(cap.shape[1]) + connector,
            cap=cap.ravel(),
            owner=np.repeat(np.arange(len(budget)), cap.shape[1]),
        )
        least = _cut_min_rates(least, leaves.leaf, leaves.cap, tenant=tenant, met=met)
    if limits.shared_cap is not None and demand.shared is not None:
        shared_cap = _validate_limit(limits.shared_cap, what="a shared cap")
        shared = _validate_groups(demand.shared, len(shared_cap), like=value, what="shared cap")
        least = _cut_min_rates(least, shared, shared_cap, tenant=tenant, met=met)
    least = _cut_min_rates(least, tenant, budget, tenant=tenant, met=met)
    most = np.maximum(cost * _validate_numbers(demand.rate_max, what="a highest rate"), least)
    heft = cost * changes
    rows = PriceRows(
        pace=np.sqrt(heft / np.maximum(value, _MIN_NUMBER)),
        scale=np.sqrt(heft * value),
        least=least,
        most=most,
        group=tenant,
    )
    return RateProblem(
        value=value,
        changes=changes,
        cost=cost,
        rows=rows,
        budget=budget,
        connector_groups=leaves,
        shared=shared,
        shared_cap=shared_cap,
        met_share=met,
    )


def _cut_min_rates(
    least: Floats, group: GroupIds, limit: Floats, *, tenant: GroupIds, met: Floats
) -> Floats:
    """Return minimum rates that fit their groups' limits; `met` receives the share that fits."""
    if not least.ndim:
        return least
    total = np.zeros(len(limit))
    for part in iterate_chunks(len(least)):
        add_to_groups(total, group[part], least[part])
    over = total > limit
    if not over.any():
        return least
    share = np.ones(len(limit))
    share[over] = limit[over] / total[over]
    np.minimum.at(met, tenant, np.where(least > 0.0, share[group], 1.0))
    return least * (share * (1.0 - _CAP_ROUNDING))[group]


def _validate_numbers(numbers: ArrayLike, *, what: str) -> Floats:
    column = validate_column(numbers, what=what, most=_MAX_NUMBER)
    tiny = (column < _MIN_NUMBER) & (column > 0.0)
    return np.where(tiny, 0.0, column) if tiny.any() else column


def _validate_limit(numbers: ArrayLike, *, what: str) -> Floats:
    column = validate_column(numbers, what=what, most=np.inf)
    return np.where(column > _MAX_NUMBER, np.inf, np.where(column < _MIN_NUMBER, 0.0, column))


def _validate_groups(
    numbers: NDArray[np.integer], count: int, *, like: Floats, what: str
) -> GroupIds:
    places = np.asarray(numbers)
    if places.shape != like.shape or not np.issubdtype(places.dtype, np.integer):
        raise ConfigError(f"every account has one {what}, by its number")
    if places.size and not (places.min() >= 0 and places.max() < count):
        raise ConfigError(f"there are limits for {count} of {what}; its number counts from 0")
    return places.astype(np.int32)
