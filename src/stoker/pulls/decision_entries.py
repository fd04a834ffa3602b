"""Read the decisions of a stored plan as entries of the ledger, one per account.

The ledger has one entry for a plan, with the digest of all its decisions; the plan itself is stored
beside it. Decisions are returned only if the stored plan still has the digest in the chain, so they
are as trustworthy as the entry; each has the number and digest of its plan's entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import get_count
from stoker.base.types import Json
from stoker.context import TenantStores
from stoker.enrichment.model import CRAWL
from stoker.files.columns import compute_columns_digest
from stoker.ledger.chain import LedgerEntry
from stoker.ledger.query import EntryKind, LedgerFilter, get_data_text
from stoker.ledger.read import PAGE_SIZE, list_latest
from stoker.pulls.columns import CHOSEN_BECAUSE, REASONS, Decision
from stoker.pulls.constraints import Constraint, parse_constraints
from stoker.pulls.planner import DEEP, NOT
from stoker.pulls.schema import PlanRecord
from stoker.pulls.store import LATEST, PLAN_ENTRY, PlanDecisions, decode_decisions

_DEPTH_NAMES = ("NOT", "SHALLOW", "DEEP")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionList:
    """Entries, and the plans whose decisions are no longer stored."""

    entries: tuple[LedgerEntry, ...] = ()
    deleted: tuple[LedgerEntry, ...] = ()


async def list_plan_decisions(
    store: TenantStores, run: str, selection: LedgerFilter
) -> DecisionList | None:
    """Return a plan's decisions that were asked for, by account; None if the ledger has no plan.

    Raises PermanentError when the stored plan is not the one in the ledger.
    """
    named = LedgerFilter(kind=PLAN_ENTRY, run=None if run == LATEST else run)
    found = await list_latest(store.ledger, named, limit=1)
    return await _expand(store, found[0], selection) if found else None


async def list_account_entries(
    store: TenantStores, selection: LedgerFilter, *, before: int | None = None, limit: int
) -> DecisionList:
    """Return the newest entries about the selection's account, decisions of plans included."""
    entries, deleted = list[LedgerEntry](), list[LedgerEntry]()
    while len(entries) < limit and (
        page := await store.ledger.list_latest(before=before, limit=PAGE_SIZE)
    ):
        before = page[-1].seq
        for entry in page:
            if len(entries) < limit:
                found = await expand_entry(store, entry, selection)
                entries += found.entries
                deleted += found.deleted
    return DecisionList(entries=tuple(entries), deleted=tuple(deleted))


async def expand_entry(
    store: TenantStores, entry: LedgerEntry, selection: LedgerFilter
) -> DecisionList:
    """Return an entry if it was asked for, or else what its plan decided about the account."""
    if selection.matches(entry):
        return DecisionList(entries=(entry,))
    return await _expand(store, entry, selection) if entry.kind == PLAN_ENTRY else DecisionList()


async def _expand(store: TenantStores, entry: LedgerEntry, selection: LedgerFilter) -> DecisionList:
    run = get_data_text(entry, "run")
    record = await store.plans.find_plan(run)
    if record is None:
        return DecisionList(deleted=(entry,))
    if record.header.get("digest") != entry.data.get("digest"):
        raise PermanentError(
            f"the stored plan of run {run} is not the one that entry {entry.seq} of the ledger "
            "records; see: stoker ledger verify"
        )
    decisions = await _read_decisions(store, record)
    rows: Sequence[int] = range(len(decisions.account))
    if selection.account is not None:
        row = decisions.find_row(selection.account)
        rows = [] if row is None else [row]
    made = _build_entries(entry, record, decisions, rows)
    return DecisionList(entries=tuple(each for each in made if selection.matches(each)))


async def _read_decisions(store: TenantStores, record: PlanRecord) -> PlanDecisions:
    """Return a plan's decisions without its inputs. Raises PermanentError if they are damaged."""
    parts = [
        await store.plans.find_plan_part(record.run, number)
        for number in range(get_count(record.header, "decision_parts") or 0)
    ]
    decisions = decode_decisions([part for part in parts if part is not None])
    if compute_columns_digest(decisions.to_columns()) != record.header.get("digest"):
        raise PermanentError(
            f"the plan of run {record.run} is damaged: it does not match its digest"
        )
    return decisions


def _build_entries(
    entry: LedgerEntry, record: PlanRecord, decisions: PlanDecisions, rows: Iterable[int]
) -> Iterator[LedgerEntry]:
    header, tightest = record.header, _find_tightest(record)
    price, budget = float(str(header.get("price", 0.0))), header.get("budget")
    for row in rows:
        why, depth = Decision(int(decisions.why[row])), int(decisions.depth[row])
        score, age = float(decisions.score[row]), float(decisions.age[row])
        account, constraint = str(decisions.account[row]), tightest.get(why)
        data: dict[str, Json] = {
            "account": account,
            "code": why.name,
            "run": record.run,
            "connector": CRAWL,
            "policy": record.policy,
            "depth": _DEPTH_NAMES[depth],
            "value_per_unit": score,
            "cutoff": price,
            "age_days": age if math.isfinite(age) else None,
            "budget": budget,
            "limit": constraint.as_json() if constraint else None,
        }
        yield LedgerEntry(
            at=entry.at,
            kind=(EntryKind.NOT_CHOSEN if depth == NOT else EntryKind.CHOSEN).value,
            subject=account,
            reason=_format_reason(why, depth, score, price, age, constraint),
            data=data,
            seq=entry.seq,
            previous=entry.previous,
            digest=entry.digest,
        )


def _find_tightest(record: PlanRecord) -> dict[Decision, Constraint]:
    """Return for each reason the limit with the least room, as it was when the plan was made."""
    found: dict[Decision, Constraint] = {}
    for each in parse_constraints(record.header.get("hindrances")):
        known = found.get(each.why)
        if known is None or (each.looks or 0) < (known.looks or 0):
            found[each.why] = each
    return found


def _format_reason(
    why: Decision,
    depth: int,
    score: float,
    price: float,
    age: float,
    constraint: Constraint | None,
) -> str:
    if why in CHOSEN_BECAUSE:
        sentence = f"selected, {'deep' if depth == DEEP else 'shallow'}: {CHOSEN_BECAUSE[why]}"
    else:
        sentence = REASONS[why].message
    if constraint is not None:
        sentence = f"{sentence} ({constraint.message})"
    looked = f"researched {age:.1f} days before" if math.isfinite(age) else "never researched"
    return f"{sentence}; {looked}; value {score:.3g} per unit, cutoff {price:.3g}"


def require_plan(found: DecisionList | None, run: str, owner: str) -> DecisionList:
    """Return the decisions. Raises ConfigError when the ledger has no such plan."""
    if found is None:
        raise ConfigError(
            f"the ledger of {owner} has no plan of run {run[:60]!r}; list plans with: "
            f"stoker ledger list --tenant {owner} --kind plan"
        )
    return found
