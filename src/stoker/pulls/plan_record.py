"""A plan's decisions as compact columns: to bytes for a store to keep, and back.

For every account of a tenant why it is looked at or is not, how deep, what it offered and how old
what we knew was. In parts of so many accounts, in the order of their ids, so that one account is
found by reading one part. A digest is of what is said, not of how it was packed.

Everything a plan was made of, as columns and JSON: kept beside its decisions, and back.

With it a plan can be made again years later and must say the same; or made with one number
changed, to see what that number did.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import list_in, object_in
from stoker.base.types import Json
from stoker.heat.beliefs import Beliefs
from stoker.heat.tiers import TierRule
from stoker.pulls.capacity import NO_CAP, Floats32
from stoker.pulls.columns import (
    UNCAPPED,
    Accounts,
    Limits,
    Policy,
    PullRule,
    Why,
    accounts_of,
    limits_of,
)
from stoker.pulls.constraints import Hindrance, hindrances_from
from stoker.pulls.planner import DEEP, SHALLOW, DayPlan
from stoker.pulls.worth import Objective

PART = 65_536  # accounts

_MAGIC = b"stoker-columns-1\n"

_LARGEST_HEADER = 64_000

_LARGEST = 2**31

_LEVEL = 6

_KINDS = ("u1", "<u2", "<i4", "<i8", "<f4", "<f8")

_TEXT = "text"

Column = NDArray[Any]

Columns = Mapping[str, "Column | Sequence[str]"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decisions:
    """What was decided about one tenant's accounts, by their ids, rising."""

    account: Sequence[str]
    why: NDArray[np.uint8]
    depth: NDArray[np.uint8]
    score: Floats32  # worth of a look per unit; over the tenant's price it is worth it
    age: Floats32  # days since the last look; infinite for never

    def __post_init__(self) -> None:
        if any(one >= other for one, other in pairwise(self.account)):
            raise PermanentError("decisions stand in the order of their accounts, each there once")

    def place(self, account: str) -> int | None:
        """Return where an account stands, or None if nothing was decided about it."""
        place = bisect_left(self.account, account)
        there = place < len(self.account) and self.account[place] == account
        return place if there else None


def decisions_of(
    plan: DayPlan, accounts: Accounts, ids: Sequence[str], *, tenant: int, now: float
) -> Decisions:
    """Return what a plan decided about one tenant's accounts, whose ids these are, as they stand.

    `now` is the plan's moment in days since 1970.
    """
    begin, end = np.searchsorted(accounts.tenant, [tenant, tenant + 1]).tolist()
    if len(ids) != end - begin:
        raise PermanentError(f"the tenant has {end - begin} accounts in the plan, not {len(ids)}")
    rows = slice(begin, end)
    return Decisions(
        account=ids,
        why=plan.why[rows],
        depth=plan.depth[rows],
        score=plan.score[rows],
        age=np.maximum(now - accounts.looked[rows], 0.0).astype(np.float32),
    )


def summary(plan: DayPlan, limits: Limits, rule: PullRule, *, tenant: int) -> dict[str, Json]:
    """Return what a plan adds up to for one tenant, without naming anybody; for a plan's header."""
    return {
        "budget": int(limits.budget[tenant]),
        "spent": int(plan.spent[tenant]),
        "price": float(plan.price[tenant]),
        "reference": float(plan.reference[tenant]),
        "gap": plan.gap,
        "policy": rule.policy.value,
        "objective": rule.objective.value,
        "overdue": int(plan.overdue[tenant]),
        "floor_needs": round(float(plan.floor_needs[tenant]), 3),
        "floor_allows": int(max(limits.budget[tenant], 0) * rule.share // 1000),
    }


def counts(decisions: Decisions) -> dict[str, Json]:
    """Return how many accounts each reason has, and how many looks each depth."""
    by_code = np.bincount(decisions.why, minlength=1)
    found: dict[str, Json] = {
        Why(code).name: number for code, number in enumerate(by_code.tolist()) if number
    }
    found["shallow"] = int((decisions.depth == SHALLOW).sum())
    found["deep"] = int((decisions.depth == DEEP).sum())
    return found


def kept(decisions: Decisions) -> list[bytes]:
    """Return decisions as parts for a store to keep."""
    return packed(decision_columns(decisions))


def decision_columns(decisions: Decisions) -> Columns:
    """Return decisions as columns."""
    return {
        "account": decisions.account,
        "why": decisions.why,
        "depth": decisions.depth,
        "score": decisions.score,
        "age": decisions.age,
    }


def recalled(parts: Sequence[bytes]) -> Decisions:
    """Return the decisions that these parts keep. Raises PermanentError if they are damaged."""
    columns = unpacked(parts)
    try:
        return Decisions(**columns)
    except TypeError:
        raise PermanentError(f"these parts keep {sorted(columns)}, and no decisions") from None


def digest(columns: Columns) -> str:
    """Return a hash of what the columns say, the same however they were packed."""
    said = hashlib.sha256()
    for name in sorted(columns):
        kind, raw = _raw(columns[name])
        said.update(f"{name}\0{kind}\0{len(raw)}\0".encode())
        said.update(raw)
    return said.hexdigest()


def packed(columns: Columns, *, part: int = PART) -> list[bytes]:
    """Return columns of equal length in parts of so many rows; no rows are one part without any."""
    sizes = {len(column) for column in columns.values()}
    if len(sizes) != 1:
        raise PermanentError(f"columns are of one length, not {sorted(sizes)}")
    (size,) = sizes
    return [
        _part({name: column[begin : begin + part] for name, column in columns.items()})
        for begin in range(0, max(size, 1), part)
    ]


def unpacked(parts: Sequence[bytes]) -> dict[str, Any]:
    """Return the columns that these parts keep, one after the other."""
    found = [_columns(part) for part in parts]
    if not found or any(each.keys() != found[0].keys() for each in found):
        raise PermanentError("these parts do not belong together")
    joined: dict[str, Any] = {}
    for name, first in found[0].items():
        pieces = [each[name] for each in found]
        if isinstance(first, list):
            joined[name] = [text for piece in pieces for text in piece]
        else:
            joined[name] = np.concatenate(pieces)
    return joined


def _part(columns: Columns) -> bytes:
    described, body = [], []
    for name, column in columns.items():
        kind, raw = _raw(column)
        described.append([name, kind, len(raw)])
        body.append(_shuffled(raw, kind))
    rows = len(next(iter(columns.values())))
    header = json.dumps({"rows": rows, "columns": described}, separators=(",", ":")).encode()
    return _MAGIC + len(header).to_bytes(4, "big") + header + zlib.compress(b"".join(body), _LEVEL)


def _columns(part: bytes) -> dict[str, Any]:
    start = len(_MAGIC) + 4
    length = int.from_bytes(part[len(_MAGIC) : start], "big")
    if not part.startswith(_MAGIC) or length > _LARGEST_HEADER:
        raise PermanentError("a part of a plan does not begin as one; it is damaged")
    try:
        header = json.loads(part[start : start + length])
        rows, described = int(header["rows"]), [tuple(each) for each in header["columns"]]
        total = sum(int(long) for _, _, long in described)
        if not 0 <= total <= _LARGEST:
            raise PermanentError("a part of a plan says it is too large to be one; it is damaged")
        reader = zlib.decompressobj()
        body = reader.decompress(part[start + length :], total + 1)
        if len(body) != total or not reader.eof:
            raise PermanentError("a part of a plan is not as long as it says; it is damaged")
        found: dict[str, Any] = {}
        at = 0
        for name, kind, long in described:
            found[name] = _column(body[at : at + long], kind, rows)
            at += long
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise PermanentError(f"a part of a plan cannot be read; it is damaged ({error})") from error
    return found


def _raw(column: Column | Sequence[str]) -> tuple[str, bytes]:
    if isinstance(column, np.ndarray):
        kind = column.dtype.newbyteorder("<").str.replace("|", "")
        if kind not in _KINDS or column.ndim != 1:
            raise PermanentError(f"a column of {column.dtype} cannot be kept")
        return kind, np.ascontiguousarray(column, dtype=kind).tobytes()
    texts = [text.encode() for text in column]
    lengths = np.array([len(text) for text in texts], "<i4")
    return _TEXT, lengths.tobytes() + b"".join(texts)


def _column(raw: bytes, kind: str, rows: int) -> Column | list[str]:
    if kind == _TEXT:
        ends = np.cumsum(np.frombuffer(raw[: 4 * rows], "<i4").astype(np.int64))
        texts = raw[4 * rows :]
        if len(ends) != rows or (
            rows and (int(ends[-1]) != len(texts) or (np.diff(ends) < 0).any())
        ):
            raise ValueError("texts of other lengths")
        bounds = [0, *ends.tolist()]
        return [texts[one:other].decode() for one, other in pairwise(bounds)]
    if kind not in _KINDS:
        raise ValueError(f"a column of {kind!r}")
    column = np.frombuffer(_unshuffled(raw, kind), kind)
    if len(column) != rows:
        raise ValueError(f"{len(column)} rows in place of {rows}")
    return column


def _shuffled(raw: bytes, kind: str) -> bytes:
    """Return numbers with their first bytes first, then their second: alike bytes pack better."""
    wide = 1 if kind == _TEXT else np.dtype(kind).itemsize
    if wide == 1:
        return raw
    return np.frombuffer(raw, np.uint8).reshape(-1, wide).T.tobytes()


def _unshuffled(raw: bytes, kind: str) -> bytes:
    wide = np.dtype(kind).itemsize
    if wide == 1 or len(raw) % wide:
        return raw
    return np.frombuffer(raw, np.uint8).reshape(wide, -1).T.tobytes()


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
