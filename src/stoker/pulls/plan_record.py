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
    """What was decided about one tenant's accounts, by their ids, rising."""

    account: Sequence[str]
    why: NDArray[np.uint8]
    depth: NDArray[np.uint8]
    score: Floats32  # worth of a look per unit; over the tenant's price it is worth it
    age: Floats32  # days since the last look; infinite for never

    def __post_init__(self) -> None:
        if any(one >= other for one, other in pairwise(self.account)):
            raise PermanentError("decisions stand in the order of their accounts, each there once")

    def find_row(self, account: str) -> int | None:
        """Return where an account stands, or None if nothing was decided about it."""
        place = bisect_left(self.account, account)
        there = place < len(self.account) and self.account[place] == account
        return place if there else None


def to_decisions(
    plan: PullPlan, accounts: PlanAccounts, ids: Sequence[str], *, tenant: int, now: float
) -> PlanDecisions:
    """Return what a plan decided about one tenant's accounts, whose ids these are, as they stand.

    `now` is the plan's moment in days since 1970.
    """
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


def count_decisions(decisions: PlanDecisions) -> dict[str, Json]:
    """Return how many accounts each reason has, and how many looks each depth."""
    by_code = np.bincount(decisions.why, minlength=1)
    found: dict[str, Json] = {
        Decision(code).name: number for code, number in enumerate(by_code.tolist()) if number
    }
    found["shallow"] = int((decisions.depth == SHALLOW).sum())
    found["deep"] = int((decisions.depth == DEEP).sum())
    return found


def encode_decisions(decisions: PlanDecisions) -> list[bytes]:
    """Return decisions as parts for a store to keep."""
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
    """Return the decisions that these parts keep. Raises PermanentError if they are damaged."""
    columns = decode_columns(parts)
    try:
        return PlanDecisions(**columns)
    except TypeError:
        raise PermanentError(f"these parts keep {sorted(columns)}, and no decisions") from None


def compute_columns_digest(columns: Columns) -> str:
    """Return a hash of what the columns say, the same however they were packed."""
    said = hashlib.sha256()
    for name in sorted(columns):
        kind, raw = _to_bytes(columns[name])
        said.update(f"{name}\0{kind}\0{len(raw)}\0".encode())
        said.update(raw)
    return said.hexdigest()


def encode_columns(columns: Columns, *, part: int = PART_ROWS) -> list[bytes]:
    """Return columns of equal length in parts of so many rows; no rows are one part without any."""
    sizes = {len(column) for column in columns.values()}
    if len(sizes) != 1:
        raise PermanentError(f"columns are of one length, not {sorted(sizes)}")
    (size,) = sizes
    return [
        _encode_part({name: column[begin : begin + part] for name, column in columns.items()})
        for begin in range(0, max(size, 1), part)
    ]


def decode_columns(parts: Sequence[bytes]) -> dict[str, Any]:
    """Return the columns that these parts keep, one after the other."""
    found = [_decode_part(part) for part in parts]
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
        found: dict[str, Any] = {}
        at = 0
        for name, kind, long in described:
            found[name] = _parse_column(body[at : at + long], kind, rows)
            at += long
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise PermanentError(f"a part of a plan cannot be read; it is damaged ({error})") from error
    return found


def _to_bytes(column: PackedColumn | Sequence[str]) -> tuple[str, bytes]:
    if isinstance(column, np.ndarray):
        kind = column.dtype.newbyteorder("<").str.replace("|", "")
        if kind not in _DTYPES or column.ndim != 1:
            raise PermanentError(f"a column of {column.dtype} cannot be kept")
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

_TENANT = "tenant"  # a kept plan is one tenant's


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanSnapshot:
    """What one tenant's plan is made of."""

    ids: Sequence[str]
    accounts: PlanAccounts
    limits: PullLimits
    rule: PullRule
    constraints: Sequence[Constraint] = ()  # what the limits on deep looks, and bars, come from


def to_input_columns(inputs: PlanSnapshot) -> Columns:
    """Return the accounts of a plan as columns to be kept."""
    columns: dict[str, Any] = {_ACCOUNT: list(inputs.ids)}
    for each in fields(PlanAccounts):
        column = getattr(inputs.accounts, each.name)
        if each.name in _RATE_COLUMNS:
            columns[f"{each.name}_changes"] = np.asarray(column.changes, np.float64)
            columns[f"{each.name}_days"] = np.asarray(column.days, np.float64)
        elif each.name != _TENANT:
            columns[each.name] = np.ascontiguousarray(column)
    return columns


def parse_inputs(columns: Mapping[str, Any], said: Mapping[str, Json]) -> PlanSnapshot:
    """Return what a plan was made of, from its kept columns and its header.

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
        limits = parse_limits(get_object(said["limits"]))
        rule = parse_rule(get_object(said["rule"]))
        hindrances = parse_constraints(said.get("hindrances"))
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise PermanentError(f"what this plan was made of cannot be read ({error})") from error
    return PlanSnapshot(
        ids=ids, accounts=accounts, limits=limits, rule=rule, constraints=hindrances
    )


def to_limits_json(limits: PullLimits) -> dict[str, Json]:
    """Return one tenant's caps as JSON; -1 is no cap."""
    caps = np.where(limits.connector_cap == NO_CAP, UNCAPPED, limits.connector_cap)
    found: dict[str, Json] = {"budget": limits.budget.tolist(), "connector_cap": caps.tolist()}
    if len(limits.deep_cap):  # plans of before there were any say nothing of them
        deep = np.where(limits.deep_cap == NO_CAP, UNCAPPED, limits.deep_cap)
        found["deep_cap"] = deep.tolist()
        found["deep_why"] = [Decision(each).name for each in limits.deep_why.tolist()]
    return found


def parse_limits(said: Mapping[str, Json]) -> PullLimits:
    """Return caps as `to_limits_json` wrote them."""
    deep: dict[str, Any] = {}
    if "deep_cap" in said:
        deep["deep_cap"] = np.array(said["deep_cap"], np.int64)
        deep["deep_why"] = [Decision[str(name)] for name in get_list(said, "deep_why", most=1)]
    return validate_limits(
        np.array(said["budget"], np.int64),
        connector_cap=np.array(said["connector_cap"], np.int64).reshape(
            len(np.atleast_1d(np.array(said["budget"]))), -1
        ),
        **deep,
    )


def to_rule_json(rule: PullRule) -> dict[str, Json]:
    """Return a rule as JSON: durations are seconds."""
    return _to_rule_values(rule)


def parse_rule(said: Mapping[str, Json]) -> PullRule:
    """Return a rule as `to_rule_json` wrote it."""
    tiers = TierRule(**_parse_rule_values(TierRule(), get_object(said["tiers"])))
    rest = {name: value for name, value in said.items() if name != "tiers"}
    return PullRule(**_parse_rule_values(PullRule(), rest), tiers=tiers)


def _to_rule_values(rule: Any) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for each in fields(rule):
        value = getattr(rule, each.name)
        if isinstance(value, timedelta):
            found[each.name] = value.total_seconds()
        elif isinstance(value, TierRule):
            found[each.name] = _to_rule_values(value)
        else:
            found[each.name] = value
    return found


def _parse_rule_values(model: Any, said: Mapping[str, Json]) -> dict[str, Any]:
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
