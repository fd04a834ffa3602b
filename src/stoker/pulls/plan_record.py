"""Encode a plan's decisions and inputs as compact columns, and decode them.

For every account the decision, the depth, the offer and the age of our data, in parts of so many
accounts in the order of their ids, so that one account is found by reading one part. A digest is of
the content, not of its encoding. With its inputs a plan can be replayed years later and must give
the same decisions, or be replayed with one number changed.
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
from stoker.base.jsontools import get_list, get_object
from stoker.base.types import Json
from stoker.heat.beliefs import ChangeRates
from stoker.heat.tiers import TierRule
from stoker.pulls.capacity import NO_CAP, Floats32
from stoker.pulls.columns import (
    UNCAPPED,
    Decision,
    PlanAccounts,
    Policy,
    PullLimits,
    PullRule,
    validate_accounts,
    validate_limits,
)
from stoker.pulls.constraints import Constraint, parse_constraints
from stoker.pulls.planner import DEEP, SHALLOW, PullPlan
from stoker.pulls.worth import Objective

PART_ROWS = 65_536  # accounts

_MAGIC = b"stoker-columns-1\n"

_MAX_HEADER_BYTES = 64_000

_MAX_ROWS = 2**31

_COMPRESSION_LEVEL = 6

_DTYPES = ("u1", "<u2", "<i4", "<i8", "<f4", "<f8")

_TEXT_KIND = "text"

PackedColumn = NDArray[Any]

Columns = Mapping[str, "PackedColumn | Sequence[str]"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanDecisions:
    """The decisions about one tenant's accounts, by rising account id."""

    account: Sequence[str]
    why: NDArray[np.uint8]
    depth: NDArray[np.uint8]
    score: Floats32  # worth of a lookup per unit; over the tenant's price it is worth it
    age: Floats32  # days since the last lookup; infinite for never

    def __post_init__(self) -> None:
        if any(one >= other for one, other in pairwise(self.account)):
            raise PermanentError("decisions stand in the order of their accounts, each there once")

    def find_row(self, account: str) -> int | None:
        """Return an account's row, or None if nothing was decided about it."""
        place = bisect_left(self.account, account)
        there = place < len(self.account) and self.account[place] == account
        return place if there else None


def to_decisions(
    plan: PullPlan, accounts: PlanAccounts, ids: Sequence[str], *, tenant: int, now: float
) -> PlanDecisions:
    """Return a plan's decisions about one tenant's accounts, which have these ids in row order."""
    begin, end = np.searchsorted(accounts.tenant, [tenant, tenant + 1]).tolist()
    if len(ids) != end - begin:
        raise PermanentError(f"the tenant has {end - begin} accounts in the plan, not {len(ids)}")
    rows = slice(begin, end)
    return PlanDecisions(
        account=ids,
        why=plan.why[rows],
        depth=plan.depth[rows],
        score=plan.score[rows],
        age=np.maximum(now - accounts.looked[rows], 0.0).astype(np.float32),
    )


def summarize_plan(
    plan: PullPlan, limits: PullLimits, rule: PullRule, *, tenant: int
) -> dict[str, Json]:
    """Return a plan's totals for one tenant, without naming accounts; for the plan's header."""
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


def count_decisions(decisions: PlanDecisions) -> dict[str, Json]:
    """Return the number of accounts by decision, and of lookups by depth."""
    by_code = np.bincount(decisions.why, minlength=1)
    counts: dict[str, Json] = {
        Decision(code).name: number for code, number in enumerate(by_code.tolist()) if number
    }
    counts["shallow"] = int((decisions.depth == SHALLOW).sum())
    counts["deep"] = int((decisions.depth == DEEP).sum())
    return counts


def encode_decisions(decisions: PlanDecisions) -> list[bytes]:
    """Return decisions as parts for the store."""
    return encode_columns(to_decision_columns(decisions))


def to_decision_columns(decisions: PlanDecisions) -> Columns:
    """Return decisions as columns."""
    return {
        "account": decisions.account,
        "why": decisions.why,
        "depth": decisions.depth,
        "score": decisions.score,
        "age": decisions.age,
    }


def decode_decisions(parts: Sequence[bytes]) -> PlanDecisions:
    """Return the decisions in these parts. Raises PermanentError if they are damaged."""
    columns = decode_columns(parts)
    try:
        return PlanDecisions(**columns)
    except TypeError:
        raise PermanentError(f"these parts keep {sorted(columns)}, and no decisions") from None


def compute_columns_digest(columns: Columns) -> str:
    """Return a hash of the columns' content, whatever their encoding."""
    digest = hashlib.sha256()
    for name in sorted(columns):
        kind, raw = _to_bytes(columns[name])
        digest.update(f"{name}\0{kind}\0{len(raw)}\0".encode())
        digest.update(raw)
    return digest.hexdigest()


def encode_columns(columns: Columns, *, part: int = PART_ROWS) -> list[bytes]:
    """Return columns of equal length in parts of so many rows; at least one part."""
    sizes = {len(column) for column in columns.values()}
    if len(sizes) != 1:
        raise PermanentError(f"columns are of one length, not {sorted(sizes)}")
    (size,) = sizes
    return [
        _encode_part({name: column[begin : begin + part] for name, column in columns.items()})
        for begin in range(0, max(size, 1), part)
    ]


def decode_columns(parts: Sequence[bytes]) -> dict[str, Any]:
    """Return the columns in these parts, joined."""
    decoded = [_decode_part(part) for part in parts]
    if not decoded or any(each.keys() != decoded[0].keys() for each in decoded):
        raise PermanentError("these parts do not belong together")
    joined: dict[str, Any] = {}
    for name, first in decoded[0].items():
        pieces = [each[name] for each in decoded]
        if isinstance(first, list):
            joined[name] = [text for piece in pieces for text in piece]
        else:
            joined[name] = np.concatenate(pieces)
    return joined


def _encode_part(columns: Columns) -> bytes:
    described, body = [], []
    for name, column in columns.items():
        kind, raw = _to_bytes(column)
        described.append([name, kind, len(raw)])
        body.append(_shuffle_bytes(raw, kind))
    rows = len(next(iter(columns.values())))
    header = json.dumps({"rows": rows, "columns": described}, separators=(",", ":")).encode()
    return (
        _MAGIC
        + len(header).to_bytes(4, "big")
        + header
        + zlib.compress(b"".join(body), _COMPRESSION_LEVEL)
    )


def _decode_part(part: bytes) -> dict[str, Any]:
    start = len(_MAGIC) + 4
    length = int.from_bytes(part[len(_MAGIC) : start], "big")
    if not part.startswith(_MAGIC) or length > _MAX_HEADER_BYTES:
        raise PermanentError("a part of a plan does not begin as one; it is damaged")
    try:
        header = json.loads(part[start : start + length])
        rows, described = int(header["rows"]), [tuple(each) for each in header["columns"]]
        total = sum(int(long) for _, _, long in described)
        if not 0 <= total <= _MAX_ROWS:
            raise PermanentError("a part of a plan says it is too large to be one; it is damaged")
        reader = zlib.decompressobj()
        body = reader.decompress(part[start + length :], total + 1)
        if len(body) != total or not reader.eof:
            raise PermanentError("a part of a plan is not as long as it says; it is damaged")
        columns: dict[str, Any] = {}
        at = 0
        for name, kind, long in described:
            columns[name] = _parse_column(body[at : at + long], kind, rows)
            at += long
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise PermanentError(f"a part of a plan cannot be read; it is damaged ({error})") from error
    return columns


def _to_bytes(column: PackedColumn | Sequence[str]) -> tuple[str, bytes]:
    if isinstance(column, np.ndarray):
        kind = column.dtype.newbyteorder("<").str.replace("|", "")
        if kind not in _DTYPES or column.ndim != 1:
            raise PermanentError(f"a column of {column.dtype} cannot be saved")
        return kind, np.ascontiguousarray(column, dtype=kind).tobytes()
    texts = [text.encode() for text in column]
    lengths = np.array([len(text) for text in texts], "<i4")
    return _TEXT_KIND, lengths.tobytes() + b"".join(texts)


def _parse_column(raw: bytes, kind: str, rows: int) -> PackedColumn | list[str]:
    if kind == _TEXT_KIND:
        ends = np.cumsum(np.frombuffer(raw[: 4 * rows], "<i4").astype(np.int64))
        texts = raw[4 * rows :]
        if len(ends) != rows or (
            rows and (int(ends[-1]) != len(texts) or (np.diff(ends) < 0).any())
        ):
            raise ValueError("texts of other lengths")
        bounds = [0, *ends.tolist()]
        return [texts[one:other].decode() for one, other in pairwise(bounds)]
    if kind not in _DTYPES:
        raise ValueError(f"a column of {kind!r}")
    column = np.frombuffer(_unshuffle_bytes(raw, kind), kind)
    if len(column) != rows:
        raise ValueError(f"{len(column)} rows in place of {rows}")
    return column


def _shuffle_bytes(raw: bytes, kind: str) -> bytes:
    """Return numbers with their first bytes first, then their second: alike bytes pack better."""
    wide = 1 if kind == _TEXT_KIND else np.dtype(kind).itemsize
    if wide == 1:
        return raw
    return np.frombuffer(raw, np.uint8).reshape(-1, wide).T.tobytes()


def _unshuffle_bytes(raw: bytes, kind: str) -> bytes:
    wide = np.dtype(kind).itemsize
    if wide == 1 or len(raw) % wide:
        return raw
    return np.frombuffer(raw, np.uint8).reshape(wide, -1).T.tobytes()


_ACCOUNT = "account"

_RATE_COLUMNS = ("surface", "deep")

_TENANT = "tenant"  # a saved plan belongs to one tenant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanSnapshot:
    """The inputs of one tenant's plan."""

    ids: Sequence[str]
    accounts: PlanAccounts
    limits: PullLimits
    rule: PullRule
    constraints: Sequence[Constraint] = ()  # what the limits on deep lookups, and bars, come from


def to_input_columns(inputs: PlanSnapshot) -> Columns:
    """Return the accounts of a plan as columns for the store."""
    columns: dict[str, Any] = {_ACCOUNT: list(inputs.ids)}
    for each in fields(PlanAccounts):
        column = getattr(inputs.accounts, each.name)
        if each.name in _RATE_COLUMNS:
            columns[f"{each.name}_changes"] = np.asarray(column.changes, np.float64)
            columns[f"{each.name}_days"] = np.asarray(column.days, np.float64)
        elif each.name != _TENANT:
            columns[each.name] = np.ascontiguousarray(column)
    return columns


def parse_inputs(columns: Mapping[str, Any], header: Mapping[str, Json]) -> PlanSnapshot:
    """Return a plan's inputs from its stored columns and its header.

    Raises PermanentError when they are not those of a plan.
    """
    given = dict(columns)
    try:
        ids = given.pop(_ACCOUNT)
        surface, deep = (
            ChangeRates(changes=given.pop(f"{name}_changes"), days=given.pop(f"{name}_days"))
            for name in _RATE_COLUMNS
        )
        accounts = validate_accounts(surface, deep=deep, **given)
        limits = parse_limits(get_object(header["limits"]))
        rule = parse_rule(get_object(header["rule"]))
        constraints = parse_constraints(header.get("hindrances"))
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise PermanentError(f"what this plan was made of cannot be read ({error})") from error
    return PlanSnapshot(
        ids=ids, accounts=accounts, limits=limits, rule=rule, constraints=constraints
    )


def to_limits_json(limits: PullLimits) -> dict[str, Json]:
    """Return one tenant's caps as JSON; -1 is no cap."""
    caps = np.where(limits.connector_cap == NO_CAP, UNCAPPED, limits.connector_cap)
    caps_json: dict[str, Json] = {"budget": limits.budget.tolist(), "connector_cap": caps.tolist()}
    if len(limits.deep_cap):  # plans of before there were any say nothing of them
        deep = np.where(limits.deep_cap == NO_CAP, UNCAPPED, limits.deep_cap)
        caps_json["deep_cap"] = deep.tolist()
        caps_json["deep_why"] = [Decision(each).name for each in limits.deep_why.tolist()]
    return caps_json


def parse_limits(caps: Mapping[str, Json]) -> PullLimits:
    """Return caps as `to_limits_json` wrote them."""
    deep: dict[str, Any] = {}
    if "deep_cap" in caps:
        deep["deep_cap"] = np.array(caps["deep_cap"], np.int64)
        deep["deep_why"] = [Decision[str(name)] for name in get_list(caps, "deep_why", most=1)]
    return validate_limits(
        np.array(caps["budget"], np.int64),
        connector_cap=np.array(caps["connector_cap"], np.int64).reshape(
            len(np.atleast_1d(np.array(caps["budget"]))), -1
        ),
        **deep,
    )


def to_rule_json(rule: PullRule) -> dict[str, Json]:
    """Return a rule as JSON: durations are seconds."""
    return _to_rule_values(rule)


def parse_rule(values: Mapping[str, Json]) -> PullRule:
    """Return a rule as `to_rule_json` wrote it."""
    tiers = TierRule(**_parse_rule_values(TierRule(), get_object(values["tiers"])))
    rest = {name: value for name, value in values.items() if name != "tiers"}
    return PullRule(**_parse_rule_values(PullRule(), rest), tiers=tiers)


def _to_rule_values(rule: Any) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for each in fields(rule):
        value = getattr(rule, each.name)
        if isinstance(value, timedelta):
            values[each.name] = value.total_seconds()
        elif isinstance(value, TierRule):
            values[each.name] = _to_rule_values(value)
        else:
            values[each.name] = value
    return values


def _parse_rule_values(model: Any, values: Mapping[str, Json]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, value in values.items():
        usual = getattr(model, name)
        if isinstance(usual, timedelta) and value is not None:
            parsed[name] = timedelta(seconds=float(str(value)))
        elif isinstance(usual, Policy | Objective):
            parsed[name] = type(usual)(str(value))
        else:
            parsed[name] = value
    return parsed
