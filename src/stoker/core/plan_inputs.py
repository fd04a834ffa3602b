"""Everything a plan was made of, as columns and JSON: kept beside its decisions, and back.

With it a plan can be made again years later and must say the same; or made with one number
changed, to see what that number did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import numpy as np

from stoker.core.beliefs import Beliefs
from stoker.core.decisions import Columns
from stoker.core.fitting import NO_CAP
from stoker.core.hindrances import Hindrance, hindrances_from
from stoker.core.model import Json
from stoker.core.picking import list_in, object_in
from stoker.core.pull_columns import (
    UNCAPPED,
    Accounts,
    Limits,
    Policy,
    PullRule,
    Why,
    accounts_of,
    limits_of,
)
from stoker.core.tiers import TierRule
from stoker.core.worth import Objective
from stoker.errors import ConfigError, PermanentError

_ACCOUNT = "account"
_BELIEFS = ("surface", "deep")
_TENANT = "tenant"  # a kept plan is one tenant's


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanInputs:
    """What one tenant's plan is made of."""

    ids: Sequence[str]
    accounts: Accounts
    limits: Limits
    rule: PullRule
    hindrances: Sequence[Hindrance] = ()  # what the limits on deep looks, and bars, come from


def input_columns(inputs: PlanInputs) -> Columns:
    """Return the accounts of a plan as columns to be kept."""
    columns: dict[str, Any] = {_ACCOUNT: list(inputs.ids)}
    for each in fields(Accounts):
        column = getattr(inputs.accounts, each.name)
        if each.name in _BELIEFS:
            columns[f"{each.name}_changes"] = np.asarray(column.changes, np.float64)
            columns[f"{each.name}_days"] = np.asarray(column.days, np.float64)
        elif each.name != _TENANT:
            columns[each.name] = np.ascontiguousarray(column)
    return columns


def inputs_from(columns: Mapping[str, Any], said: Mapping[str, Json]) -> PlanInputs:
    """Return what a plan was made of, from its kept columns and its header.

    Raises PermanentError when they are not those of a plan.
    """
    given = dict(columns)
    try:
        ids = given.pop(_ACCOUNT)
        surface, deep = (
            Beliefs(changes=given.pop(f"{name}_changes"), days=given.pop(f"{name}_days"))
            for name in _BELIEFS
        )
        accounts = accounts_of(surface, deep=deep, **given)
        limits = limits_from(object_in(said["limits"]))
        rule = rule_from(object_in(said["rule"]))
        hindrances = hindrances_from(said.get("hindrances"))
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise PermanentError(f"what this plan was made of cannot be read ({error})") from error
    return PlanInputs(ids=ids, accounts=accounts, limits=limits, rule=rule, hindrances=hindrances)


def limits_json(limits: Limits) -> dict[str, Json]:
    """Return one tenant's caps as JSON; -1 is no cap."""
    caps = np.where(limits.connector_cap == NO_CAP, UNCAPPED, limits.connector_cap)
    found: dict[str, Json] = {"budget": limits.budget.tolist(), "connector_cap": caps.tolist()}
    if len(limits.deep_cap):  # plans of before there were any say nothing of them
        deep = np.where(limits.deep_cap == NO_CAP, UNCAPPED, limits.deep_cap)
        found["deep_cap"] = deep.tolist()
        found["deep_why"] = [Why(each).name for each in limits.deep_why.tolist()]
    return found


def limits_from(said: Mapping[str, Json]) -> Limits:
    """Return caps as `limits_json` wrote them."""
    deep: dict[str, Any] = {}
    if "deep_cap" in said:
        deep["deep_cap"] = np.array(said["deep_cap"], np.int64)
        deep["deep_why"] = [Why[str(name)] for name in list_in(said, "deep_why", most=1)]
    return limits_of(
        np.array(said["budget"], np.int64),
        connector_cap=np.array(said["connector_cap"], np.int64).reshape(
            len(np.atleast_1d(np.array(said["budget"]))), -1
        ),
        **deep,
    )


def rule_json(rule: PullRule) -> dict[str, Json]:
    """Return a rule as JSON: durations are seconds."""
    return _plain(rule)


def rule_from(said: Mapping[str, Json]) -> PullRule:
    """Return a rule as `rule_json` wrote it."""
    tiers = TierRule(**_typed(TierRule(), object_in(said["tiers"])))
    rest = {name: value for name, value in said.items() if name != "tiers"}
    return PullRule(**_typed(PullRule(), rest), tiers=tiers)


def _plain(rule: Any) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for each in fields(rule):
        value = getattr(rule, each.name)
        if isinstance(value, timedelta):
            found[each.name] = value.total_seconds()
        elif isinstance(value, TierRule):
            found[each.name] = _plain(value)
        else:
            found[each.name] = value
    return found


def _typed(model: Any, said: Mapping[str, Json]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in said.items():
        usual = getattr(model, name)
        if isinstance(usual, timedelta) and value is not None:
            found[name] = timedelta(seconds=float(str(value)))
        elif isinstance(usual, Policy | Objective):
            found[name] = type(usual)(str(value))
        else:
            found[name] = value
    return found
