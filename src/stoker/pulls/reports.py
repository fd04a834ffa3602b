"""Read saved plans back: explain one company, or make a plan again with something changed.

All numbers about a plan are those of the saved plan, not of now. A replay must give the same
decisions; every account that differs is named. Freshness here is the share of all value expected to
be up to date after the chosen lookups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from stoker.accounts.icp import IcpMatch, match_icp
from stoker.accounts.model import Company, CompanyId, CompanyRecord
from stoker.base.errors import ConfigError
from stoker.base.types import Depth
from stoker.budgets.model import Stop
from stoker.budgets.statements import RunCost
from stoker.context import Backend, TenantStores
from stoker.crawl.model import build_corpus_key
from stoker.crm.model import LeftRow
from stoker.crm.rows import build_rows
from stoker.enrichment.forecast import Quote, compute_quote, list_vendor_needs
from stoker.enrichment.model import CRAWL, PULL_UNITS, WorkItem
from stoker.enrichment.outcomes import UNFINISHED_STATES, compute_run_cost
from stoker.heat.beliefs import compute_stale_chance
from stoker.pulls.columns import Column, Decision, PlanAccounts, to_epoch_days
from stoker.pulls.constraints import limit_deep_lookups, replace_call_caps
from stoker.pulls.explain import Explanation, explain
from stoker.pulls.flips import Counterfactual, find_counterfactual
from stoker.pulls.planner import DEEP, NOT
from stoker.pulls.service import STEPS
from stoker.pulls.settings import Policy
from stoker.pulls.store import (
    PlanDecisions,
    PlanningResult,
    PlanSnapshot,
    SavedPlan,
    find_ledger_digest,
    find_newest_plan,
    load_plan,
    replay_plan,
    to_decisions,
)
from stoker.runs.model import Run, RunState, parse_run_name
from stoker.vendors.model import CachedAnswer
from stoker.vendors.table import PAID_VENDORS, OdooSettings, VendorNeed

_MAX_MATCHES = 5

_PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedReport:
    """The state of a company that its run did not finish."""

    run: Run
    spent: RunCost  # for it, under that run
    stops: tuple[Stop, ...]  # in force now, that prevent its lookup

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended, so that it will not finish the company."""
        return self.run.state is not RunState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """One plan's decision about one account."""

    run: str
    at: datetime
    policy: str
    explanation: Explanation | None = None  # None: the plan did not know the account
    saved_decision: Decision | None = None  # as it was decided then
    counterfactual: Counterfactual | None = None  # None: not requested

    @property
    def differs_now(self) -> bool:
        """Return whether this version of Stoker would decide the same inputs otherwise."""
        return self.explanation is not None and self.explanation.why != self.saved_decision


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyReport:
    """Everything that is known about one company's latest lookup."""

    record: CompanyRecord
    run: str
    item: WorkItem | None
    fit: IcpMatch | None  # None: the tenant has no rule
    page_text: CachedAnswer | None = None  # where it is stored
    pull_report: PullReport | None = None  # None: no plan is saved
    unfinished: UnfinishedReport | None = None  # None: its run finished it
    crm_left: tuple[LeftRow, ...] = ()  # what the last export did not write


async def read_company_report(
    backend: Backend, store: TenantStores, wanted: str, *, rule_name: str, flip: bool
) -> CompanyReport:
    """Return what is known about the company of this number or name. Raises ConfigError."""
    record = await _find_company(backend, store, wanted)
    company = record.company
    rule = await store.accounts.find_rule(rule_name)
    last_items = await store.work_items.find_last_items([company.id])
    run, item = last_items.get(company.id, ("", None))
    key = build_corpus_key(company.id)
    return CompanyReport(
        record=record,
        run=run,
        item=item,
        fit=match_icp(company, rule) if rule else None,
        page_text=(await store.answers.find_answers([key])).get(key),
        pull_report=await find_pull_report(store, company, flip=flip),
        unfinished=await find_unfinished(store, run, item) if item is not None else None,
        crm_left=await _find_left_rows(store, record),
    )


async def _find_left_rows(store: TenantStores, record: CompanyRecord) -> tuple[LeftRow, ...]:
    """Return the company's rows that the last export did not write."""
    rows = build_rows(record, tenant=store.tenant, least=0.0, rule=OdooSettings(send="all"))
    return tuple(await store.crm.find_left_rows([row.external_id for row in rows]))


async def _find_company(backend: Backend, store: TenantStores, wanted: str) -> CompanyRecord:
    if not wanted:
        raise ConfigError("name a company: stoker why TENANT/COMPANY")
    for number in dict.fromkeys((wanted, wanted.upper())):  # registers write capital letters
        if record := await store.accounts.find_company_record(CompanyId(number)):
            return record
    matches: list[Company] = []
    after, words = "", wanted.casefold()
    while len(matches) <= _MAX_MATCHES and (
        page := await store.accounts.list_companies(after=after, limit=_PAGE_SIZE)
    ):
        after = page[-1].id
        matches += [each for each in page if words in each.name.casefold()]
    if len(matches) > 1:
        named = ", ".join(f"{each.id} ({each.name})" for each in matches[:_MAX_MATCHES])
        raise ConfigError(f"{wanted!r} matches {named}; give its number")
    if matches and (record := await store.accounts.find_company_record(matches[0].id)):
        return record
    registered = await backend.registry().find_entity(wanted.upper())
    if registered is not None:
        raise ConfigError(
            f"{registered.name} is in the registry, but not yet an account of {store.tenant}; "
            "the next run adds it: stoker nightly"
        )
    raise ConfigError(
        f"{store.tenant} has no company {wanted[:60]!r}; give a registry number or part of a "
        "name, e.g. from: stoker leads"
    )


async def find_unfinished(
    store: TenantStores, name: str, item: WorkItem
) -> UnfinishedReport | None:
    """Return the state of a company that is not done; None if it is, or for a deleted run."""
    if item.state not in UNFINISHED_STATES:
        return None
    run = await store.runs.find_run(parse_run_name(name))
    if run is None:
        return None
    stops = await store.budgets.list_stops()
    return UnfinishedReport(
        run=run,
        spent=await compute_run_cost(store, name, ended=run, account=item.company),
        stops=tuple(stop for stop in stops if stop.connector in ("", CRAWL)),
    )


async def find_pull_report(
    store: TenantStores, company: Company, *, flip: bool
) -> PullReport | None:
    """Return what the newest plan decided about a company; None without a saved plan."""
    saved = await find_newest_plan(store)
    if saved is None:
        return None
    record, inputs = saved.record, saved.inputs
    row = saved.decisions.find_row(company.id)
    if row is None:
        return PullReport(run=record.run, at=record.at, policy=record.policy)
    plan = replay_plan(inputs, now=record.at).plan
    explanation = explain(
        row,
        inputs.accounts,
        inputs.limits,
        now=record.at,
        rule=inputs.rule,
        plan=plan,
        constraints=inputs.constraints,
        name=company.name,
    )
    counterfactual = None
    if flip:
        counterfactual = find_counterfactual(
            row, inputs.accounts, inputs.limits, now=record.at, rule=inputs.rule, plan=plan
        )
    return PullReport(
        run=record.run,
        at=record.at,
        policy=record.policy,
        explanation=explanation,
        saved_decision=Decision(int(saved.decisions.why[row])),
        counterfactual=counterfactual,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What to change in a plan's inputs; None changes nothing."""

    units: int | None = None  # the tenant's, for the day
    connector_units: int | None = None  # of the connector that lookups go through
    policy: Policy | None = None
    calls: Mapping[str, int] = field(default_factory=dict)  # by vendor, in place of its caps


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTotals:
    """The totals of a plan."""

    accounts: int  # that are looked up
    deep: int  # of them
    units: int
    price: float
    freshness: float  # 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDiff:
    """An account about which two plans decide differently."""

    account: str
    before: Decision
    after: Decision
    depth_before: int
    depth_after: int


def apply_what_if(
    inputs: PlanSnapshot, what_if: WhatIf, *, needs: Sequence[VendorNeed] = ()
) -> PlanSnapshot:
    """Return the inputs of a plan with other caps, or another policy."""
    limits, rule, hindrances = inputs.limits, inputs.rule, inputs.constraints
    for units in (what_if.units, what_if.connector_units):
        if units is not None and units < 0:
            raise ConfigError(f"a cap is a whole number from 0 up, not {units}")
    if what_if.units is not None:
        limits = replace(limits, budget=what_if.units)
    if what_if.connector_units is not None:
        limits = replace(limits, connector_cap=what_if.connector_units)
    if what_if.policy is not None:
        rule = replace(rule, policy=what_if.policy)
    if what_if.calls:
        hindrances = replace_call_caps(hindrances, what_if.calls, needs)
        limits = limit_deep_lookups(limits, hindrances)
    return replace(inputs, limits=limits, rule=rule, constraints=hindrances)


def compute_totals(pulls: PlanningResult) -> PlanTotals:
    """Return a plan's totals."""
    plan = pulls.plan
    return PlanTotals(
        accounts=len(plan.chosen),
        deep=int((plan.depth == DEEP).sum()),
        units=plan.spent,
        price=plan.price,
        freshness=compute_fresh_share(
            pulls.inputs.accounts, plan.depth, now=to_epoch_days(pulls.at)
        ),
    )


def compute_fresh_share(accounts: PlanAccounts, depth: Column, *, now: float) -> float:
    """Return the share of all value expected to be up to date after lookups this deep."""
    fresh = total = 0.0
    facets = (
        (accounts.surface, accounts.looked, accounts.value, depth != NOT),
        (accounts.deep, accounts.deep_looked, accounts.deep_value, depth == DEEP),
    )
    for beliefs, looked, value, renewed in facets:
        age = np.maximum(now - looked, 0.0)
        fresh_chance = np.where(renewed, 1.0, 1.0 - compute_stale_chance(beliefs, age))
        fresh += float((value * fresh_chance).sum())
        total += float(value.sum())
    return fresh / total if total > 0 else 0.0


def iterate_differences(before: PlanDecisions, after: PlanDecisions) -> Iterator[DecisionDiff]:
    """Yield every account that two plans of the same accounts decide differently."""
    if list(before.account) != list(after.account):
        raise ConfigError("these are plans of other accounts; they cannot be compared one by one")
    same = (before.why == after.why) & (before.depth == after.depth)
    same &= before.score.view(np.uint32) == after.score.view(np.uint32)
    same &= before.age.view(np.uint32) == after.age.view(np.uint32)
    for row in np.flatnonzero(~same).tolist():
        yield DecisionDiff(
            account=before.account[row],
            before=Decision(int(before.why[row])),
            after=Decision(int(after.why[row])),
            depth_before=int(before.depth[row]),
            depth_after=int(after.depth[row]),
        )


def find_gained_and_lost(
    before: PlanDecisions, after: PlanDecisions
) -> tuple[list[str], list[str]]:
    """Return the accounts only the later plan looks up, and those only the earlier does."""
    gained, lost = [], []
    for each in iterate_differences(before, after):
        if each.depth_before == NOT < each.depth_after:
            gained.append(each.account)
        elif each.depth_after == NOT < each.depth_before:
            lost.append(each.account)
    return gained, lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSide:
    """What one of two plans comes to."""

    totals: PlanTotals
    quote: Quote


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayReport:
    """A saved plan, made again."""

    saved: SavedPlan
    differences: tuple[DecisionDiff, ...]  # from what was saved, with nothing changed
    in_ledger: str | None  # the digest there; None: the ledger has no such plan
    before: PlanSide
    after: PlanSide | None = None  # None: nothing was changed
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def matches_ledger(self) -> bool:
        """Return whether the ledger has the digest of the saved decisions."""
        return self.in_ledger == self.saved.record.header["digest"]


async def replay_run(
    store: TenantStores,
    run: str,
    *,
    vendors: Collection[str],
    caps: Mapping[str, int],
    policy: str | None,
) -> ReplayReport:
    """Make a saved plan again, as it was and with other caps or policy; nothing is written.

    `vendors` are those the tenant may call; `caps` are the units of a day under `pull_units` and
    `crawl`, and calls by vendor. Raises ConfigError for a cap that there is not.
    """
    for name in caps:
        if name in PAID_VENDORS and name not in vendors:
            raise ConfigError(f"{name} is off for {store.tenant}, so no lookup calls it; remove it")
        if name not in (PULL_UNITS, CRAWL, *PAID_VENDORS):
            known = ", ".join((PULL_UNITS, CRAWL, *PAID_VENDORS))
            raise ConfigError(f"unknown cap {name[:40]!r}; use one of {known}")
    saved = await load_plan(store, run)
    needs = list_vendor_needs(set(vendors), steps=STEPS)

    def to_side(pulls: PlanningResult) -> PlanSide:
        totals = compute_totals(pulls)
        counts = {Depth.SHALLOW: totals.accounts - totals.deep, Depth.DEEP: totals.deep}
        return PlanSide(totals=totals, quote=compute_quote(counts, needs, {}, at_once=1))

    same = replay_plan(saved.inputs, now=saved.record.at)
    decisions = to_decisions(same)
    report = ReplayReport(
        saved=saved,
        differences=tuple(iterate_differences(saved.decisions, decisions)),
        in_ledger=await find_ledger_digest(store, saved.record.run),
        before=to_side(same),
    )
    if not caps and policy is None:
        return report
    what_if = WhatIf(
        units=caps.get(PULL_UNITS),
        connector_units=caps.get(CRAWL),
        policy=Policy(policy) if policy else None,
        calls={name: calls for name, calls in caps.items() if name in PAID_VENDORS},
    )
    inputs = apply_what_if(saved.inputs, what_if, needs=needs[Depth.DEEP])
    changed = replay_plan(inputs, now=saved.record.at)
    gained, lost = find_gained_and_lost(decisions, to_decisions(changed))
    return replace(report, after=to_side(changed), gained=tuple(gained), lost=tuple(lost))
