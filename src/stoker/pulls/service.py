"""Plan a tenant's lookups: read its accounts, plan, and save the plan.

Accounts are read page by page into columns, and `planner` decides. The decision about every account
is saved with all inputs, so that it can be explained and replayed. Nothing here calls a vendor or
spends. Pulls are carried out by `NightlyRun`; only the planner differs.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConfigError, PermanentError, StokerError
from stoker.base.types import Depth, PullJobId, Step, TenantId, to_utc
from stoker.budgets.service import build_reset_rule
from stoker.budgets.windows import WindowKind, compute_window
from stoker.context import TenantContext
from stoker.enrichment.forecast import (
    Quote,
    add_first_lookup_shares,
    compute_quote,
    list_vendor_needs,
)
from stoker.enrichment.model import COMPANY_STEPS, CRAWL, PULL_UNITS, WorkItem
from stoker.enrichment.pipeline import find_paid
from stoker.heat.model import AccountColumns
from stoker.heat.store import HeatStore
from stoker.nightly.plan import Capacity, NightlyPlan, read_capacity
from stoker.nightly.resume import find_unfinished_work
from stoker.nightly.service import NightlyRun
from stoker.nightly.setup import (
    build_exporter,
    build_learning,
    build_nightly_options,
    build_vendors,
)
from stoker.nightly.targets import UNLIMITED
from stoker.pulls.columns import (
    CHOSEN_BECAUSE,
    NO_CAP,
    REASONS,
    Decision,
    PullLimits,
    to_epoch_days,
)
from stoker.pulls.constraints import (
    compute_period_units,
    is_stopped,
    limit_deep_lookups,
    read_constraints,
)
from stoker.pulls.planner import DEEP, PullPlan, list_in_order, plan_pulls
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.store import (
    PlanningResult,
    PlanSnapshot,
    find_owed,
    save_plan,
)
from stoker.pulls.worth import build_accounts
from stoker.rate_limits.limiter import build_vendor_limits
from stoker.runs.model import Run, RunState
from stoker.runs.service import RunHandle, RunResult
from stoker.scheduling.service import Task, build_task

if TYPE_CHECKING:
    pass

KIND = "pulls"

NO_ACCOUNTS = (
    "no account that fits has a heat yet; find who fits with: stoker nightly --plan, "
    "and give them one with: stoker heat sweep"
)

PAGE_SIZE = 65_536

CANDIDATES_PAGE = 10_000

_MIN_BUCKET = timedelta(minutes=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_COLUMNS = tuple(
    each.name for each in fields(AccountColumns) if each.name not in ("accounts", "recovery")
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedPulls:
    """One tenant's plan, its expected cost, and the run it is saved under."""

    tenant: TenantId
    pulls: PlanningResult
    quote: Quote
    run: str = ""  # empty: it is not saved


class PullPlanner:
    """Plans one tenant's pulls, as the nightly planner plans a nightly run."""

    def __init__(self, tenant: TenantContext, *, policy: str | None = None) -> None:
        own = tenant.settings
        self._tenant = tenant
        self._rule: PullRule = replace(own.pulls, tiers=own.heat)
        if policy is not None:
            self._rule = replace(self._rule, policy=Policy(policy))
        self._night = build_nightly_options(own, steps=STEPS)
        self._units = {
            depth: own.get_pull_units(CRAWL, deep=depth is Depth.DEEP) for depth in Depth
        }

    async def plan(self, run: RunHandle) -> NightlyPlan:
        """Choose lookups, save the decision about every account, and return the work items."""
        rule = await run.store.accounts.find_rule(self._night.rule_name)
        if rule is None:
            raise ConfigError(
                f"there is no rule {self._night.rule_name!r} that says which companies to look "
                "for; set it with: stoker icp set"
            )
        capacity, now = await read_capacity(self._tenant), run.clock.now()
        earlier = await find_unfinished_work(
            run, kind=KIND, reset=self._night.reset, killed_only=True
        )
        if earlier is not None and earlier.items:
            return NightlyPlan(
                rule=rule,
                items=earlier.items,
                count_by_depth=_count_by_depth(earlier.items),
                quote=await self._quote_items(earlier.items, capacity, now),
                resumed_from=earlier.run,
            )
        with run.time_step("plan") as step:
            pulls = await self._make_plan(now, capacity)
            step.items = len(pulls.inputs.ids)
        await save_plan(run.store, Run(key=run.key, kind=run.kind).name, pulls)
        items = to_work_items(pulls)
        return NightlyPlan(
            rule=rule,
            items=items,
            count_by_depth=_count_by_depth(items),
            quote=await self._quote_items(items, capacity, now),
            candidates=len(pulls.inputs.ids),
            empty_reason="" if pulls.inputs.ids else NO_ACCOUNTS,
        )

    async def quote_plan(self, *, now: datetime) -> PlannedPulls:
        """Return the plan for this moment and its expected cost, without saving it."""
        capacity = await read_capacity(self._tenant)
        pulls = await self._make_plan(now, capacity)
        quote = await self._quote_items(to_work_items(pulls), capacity, now)
        return PlannedPulls(tenant=self._tenant.id, pulls=pulls, quote=quote)

    async def read_price_inputs(self, *, now: datetime) -> tuple[PlanSnapshot, int]:
        """Return a plan's inputs as if nothing was stopped, and the units of a whole day."""
        capacity = await read_capacity(self._tenant)
        inputs = await self._read_inputs(now, capacity)
        free = np.full(len(inputs.ids), Decision.FREE, np.uint8)
        caps = [
            balance.limit or 0
            for cap, balance, _ in capacity.balances
            if cap.unit == PULL_UNITS
            and cap.window is WindowKind.DAY
            and cap.connector in ("", CRAWL)
        ]
        return replace(inputs, accounts=replace(inputs.accounts, barred=free)), min(
            [UNLIMITED, *caps]
        )

    async def _make_plan(self, now: datetime, capacity: Capacity) -> PlanningResult:
        inputs = await self._read_inputs(now, capacity)
        plan = plan_pulls(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
        while repeated := await self._find_repeated(inputs, plan, now):
            # An account already pulled in this time bucket makes room for the next one.
            barred = inputs.accounts.barred.copy()
            barred[repeated] = Decision.DUPLICATE_PULL_JOB_ID
            inputs = replace(inputs, accounts=replace(inputs.accounts, barred=barred))
            plan = plan_pulls(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
        return PlanningResult(at=now, inputs=inputs, plan=plan)

    async def _read_inputs(self, now: datetime, capacity: Capacity) -> PlanSnapshot:
        columns, rule = await self._read_columns(), self._rule
        needs = list_vendor_needs(set(capacity.vendors), steps=self._night.steps)
        constraints = await read_constraints(
            self._tenant.store,
            capacity.balances,
            needs[Depth.DEEP],
            limits=self._tenant.process.get(build_vendor_limits),
            within=min(self._night.time_limit, rule.tick),
            now=now,
            rule=rule,
            units=self._units[Depth.SHALLOW],
        )
        day = compute_window(WindowKind.DAY, now, reset=self._night.reset)
        budget, cap = (
            compute_period_units(left, now=now, until=day.end, rule=rule)
            for left in (capacity.tenant_units, capacity.connector_units)
        )
        limits = PullLimits(
            budget=budget,
            connector_cap=cap if capacity.connector_units < UNLIMITED else NO_CAP,
            owed=await find_owed(self._tenant.store) if rule.share else 0,
        )
        accounts = build_accounts(
            columns,
            now=to_epoch_days(now),
            units=self._units[Depth.SHALLOW],
            deep_units=self._units[Depth.DEEP],
            barred=Decision.PAUSED if is_stopped(constraints) else Decision.FREE,
            rule=rule,
            beliefs=self._tenant.settings.pulls,
        )
        return PlanSnapshot(
            ids=columns.accounts,
            accounts=accounts,
            limits=limit_deep_lookups(limits, constraints),
            rule=rule,
            constraints=constraints,
        )

    async def _read_columns(self) -> AccountColumns:
        """Return every account with a heat that matches the tenant's ICP rule."""
        store = self._tenant.store
        columns, fits, after = await _read_all_columns(store.heat), set[str](), ""
        while page := await store.accounts.list_candidates(
            rule=self._night.rule_name, after=after, limit=CANDIDATES_PAGE
        ):
            fits.update(each.id for each in page)
            after = page[-1].id
        rows = [row for row, account in enumerate(columns.accounts) if account in fits]
        if len(rows) == len(columns.accounts):
            return columns
        chosen = {name: getattr(columns, name)[rows] for name in _COLUMNS}
        return replace(columns, accounts=[columns.accounts[row] for row in rows], **chosen)

    async def _find_repeated(
        self, inputs: PlanSnapshot, plan: PullPlan, now: datetime
    ) -> list[int]:
        jobs = {
            row: self.build_job_id(CompanyId(inputs.ids[row]), _to_depth(plan, row), now)
            for row in plan.chosen.tolist()
        }
        paid = await find_paid(self._tenant.store.budgets, jobs.values())
        return [row for row, job in jobs.items() if job in paid]

    def build_job_id(self, account: CompanyId, depth: Depth, now: datetime) -> PullJobId:
        """Return the id of a pull in the time bucket of `now`."""
        return build_pull_job_id(
            tenant=self._tenant.id,
            account=account,
            connector=CRAWL,
            depth=depth,
            at=now,
            bucket=self._rule.tick,
        )

    async def _quote_items(
        self, items: tuple[WorkItem, ...], capacity: Capacity, now: datetime
    ) -> Quote:
        vendors = await add_first_lookup_shares(
            self._tenant.store, items, capacity.vendors, now=now
        )
        needs = list_vendor_needs(set(vendors), steps=self._night.steps)
        counts = _count_by_depth(items)
        quote = compute_quote(counts, needs, vendors, at_once=self._night.concurrency)
        units = sum(self._units[depth] * number for depth, number in counts.items())
        if not units:
            return quote
        return replace(quote, cost={f"{CRAWL}/{PULL_UNITS}": units, **quote.cost})


@dataclass(kw_only=True)
class PlanJob:
    """Makes one tenant's plan and saves it as a run of its own, without any lookup."""

    planner: PullPlanner
    kind: str = "plan"
    planned: PlannedPulls | None = None  # once it is saved
    error: StokerError | None = None  # why it is not

    async def __call__(self, run: RunHandle) -> RunResult:
        """Plan, quote and save under the run's name."""
        name = Run(key=run.key, kind=run.kind).name
        try:
            with run.time_step("plan") as step:
                planned = await self.planner.quote_plan(now=run.clock.now())
                step.items = len(planned.pulls.inputs.ids)
            with run.time_step("keep") as step:
                await save_plan(run.store, name, planned.pulls)
                step.items = len(planned.pulls.inputs.ids)
        except StokerError as error:
            self.error = error
            raise
        self.planned = replace(planned, run=name)
        plan = planned.pulls.plan
        counts = {
            "accounts": len(planned.pulls.inputs.ids),
            "selected": len(plan.chosen),
            "deep": int((plan.depth == DEEP).sum()),
        }
        return RunResult(state=RunState.DONE, counts=counts)

    def get_planned(self, run: Run) -> PlannedPulls:
        """Return the plan that the run saved. Raises what ended it instead."""
        if self.planned is None:
            raise self.error or PermanentError(f"run {run.name} ended {run.state}: {run.reason}")
        return self.planned


def to_work_items(pulls: PlanningResult) -> tuple[WorkItem, ...]:
    """Return the chosen lookups in order, each with its reason."""
    inputs, plan = pulls.inputs, pulls.plan
    return tuple(
        WorkItem(
            company=CompanyId(inputs.ids[row]),
            rank=place,
            depth=_to_depth(plan, row),
            reason=_format_reason(plan, row),
        )
        for place, row in enumerate(list_in_order(plan).tolist())
    )


def _to_depth(plan: PullPlan, row: int) -> Depth:
    return Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW


def _count_by_depth(items: Iterable[WorkItem]) -> Counter[Depth]:
    return Counter(item.depth for item in items)


async def _read_all_columns(attention: HeatStore) -> AccountColumns:
    pages, after = [await attention.read_columns(limit=PAGE_SIZE)], ""
    while len(pages[-1].accounts) == PAGE_SIZE:
        after = pages[-1].accounts[-1]
        pages.append(await attention.read_columns(after=after, limit=PAGE_SIZE))
    if len(pages) == 1:
        return pages[0]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(page, name) for page in pages]) for name in _COLUMNS
    }
    everyone = [account for page in pages for account in page.accounts]
    return replace(pages[0], accounts=everyone, **joined)


def _format_reason(plan: PullPlan, row: int) -> str:
    why, withheld = Decision(int(plan.why[row])), Decision(int(plan.depth_refusal[row]))
    sentence = CHOSEN_BECAUSE[why]
    if why is not Decision.FLOOR and 0 < plan.price < np.inf:
        sentence = f"{sentence}, {float(plan.score[row]) / plan.price:.1f} times as much"
    return f"{sentence}; not deep: {REASONS[withheld].message}" if withheld else sentence


def to_time_bucket(at: datetime, *, bucket: timedelta) -> datetime:
    """Return the start of the stretch of time, counted from 1970, that this moment falls in."""
    if bucket < _MIN_BUCKET:
        raise ConfigError(f"pulls are the same within a minute or longer, not {bucket}")
    at = to_utc(at, what="the time of a pull")
    return at - (at - _EPOCH) % bucket


def build_pull_job_id(
    *,
    tenant: TenantId,
    account: CompanyId,
    connector: str,
    depth: Depth,
    at: datetime,
    bucket: timedelta,
) -> PullJobId:
    """Return the id of a pull: the same for the same pull in the same stretch of time, always."""
    start = to_time_bucket(at, bucket=bucket)
    # As JSON, so that no two different pulls can read the same.
    named = json.dumps([tenant, account, connector, depth.value, start.isoformat()])
    return PullJobId(hashlib.sha256(named.encode()).hexdigest()[:32])


STEPS = (*COMPANY_STEPS, Step.EXPORT)


def build_pull_run(tenant: TenantContext, *, policy: str | None = None) -> NightlyRun:
    """Return a tenant's pulls as the job of a run."""
    planner = PullPlanner(tenant, policy=policy)
    return NightlyRun(
        tenant,
        build_nightly_options(tenant.settings, steps=STEPS),
        planner=planner,
        vendors=build_vendors(tenant),
        exporter=build_exporter(tenant),
        after_lookup=build_learning(tenant.settings),
        pull_id=planner.build_job_id,
        kind=KIND,
    )


def build_pull_task(tenant: TenantContext) -> Task:
    """Return a tenant's pulls as a task, due once a period; a run whose process died is resumed."""
    reset, period = build_reset_rule(tenant.settings), tenant.settings.pulls.tick
    return build_task(tenant, build_pull_run(tenant), every=period, resume_window=reset)
