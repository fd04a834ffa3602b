"""Find what is known about one company: its last lookup, its score, the newest plan's decision.

All numbers about a plan are those of the saved plan, not of now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.icp import IcpMatch, match_icp
from stoker.accounts.model import Company, CompanyId, CompanyRecord
from stoker.base.errors import ConfigError
from stoker.budgets.model import Stop
from stoker.budgets.statements import RunCost
from stoker.context import Backend, TenantStores
from stoker.crawl.model import build_corpus_key
from stoker.enrichment.model import WorkItem
from stoker.enrichment.pull_units import CRAWL
from stoker.enrichment.summary import UNFINISHED_STATES, compute_run_cost
from stoker.pulls.columns import Decision
from stoker.pulls.explain import Explanation, explain
from stoker.pulls.flips import Counterfactual, find_counterfactual
from stoker.pulls.saved_plans import find_newest_plan, replay_plan
from stoker.runs.model import Run, RunState, parse_run_name
from stoker.vendors.model import CachedAnswer

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
    )


async def _find_company(backend: Backend, store: TenantStores, wanted: str) -> CompanyRecord:
    if not wanted:
        raise ConfigError("name a company: stoker why TENANT/COMPANY")
    if record := await store.accounts.find_company_record(CompanyId(wanted.upper())):
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
