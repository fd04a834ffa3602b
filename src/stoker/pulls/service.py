"""Plan a tenant's lookups: read its accounts, plan, and save the plan.

Accounts are read page by page into columns, and `planner` decides. The decision about every account
is saved with all inputs, so that it can be explained and replayed. Nothing here calls a vendor or
spends. Pulls are carried out by `NightlyRun`; only the planner differs.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import CompanyId
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, PullJobId, Step, TenantId, to_utc
from stoker.budgets.caps import Cap
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.context import Backend, TenantStores
from stoker.crm.export import ExporterFactory
from stoker.enrichment.forecast import (
    Quote,
    add_first_lookup_shares,
    compute_quote,
    list_vendor_needs,
)
from stoker.enrichment.model import COMPANY_STEPS, WorkItem
from stoker.enrichment.pull_units import CRAWL, PULL_UNITS, is_paid
from stoker.heat.model import AccountColumns
from stoker.heat.settings import ChangeRateRule
from stoker.heat.store import HeatStore
from stoker.nightly.plan import Capacity, NightlyOptions, NightlyPlan
from stoker.nightly.resume import find_unfinished_work
from stoker.nightly.service import NightlyRun
from stoker.nightly.setup import (
    PAID_VENDORS,
    build_capacity_reader,
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
    compute_period_units,
    to_epoch_days,
)
from stoker.pulls.constraints import ConstraintReader, is_stopped, limit_deep_lookups
from stoker.pulls.planner import DEEP, PullPlan, list_in_order, plan_pulls
from stoker.pulls.saved_plans import PlanningResult, PlanSnapshot, save_plan
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.worth import build_accounts
from stoker.rate_limits.limiter import VendorLimits
from stoker.runs.model import Run, RunState
from stoker.runs.service import RunHandle, RunResult
from stoker.vendors.client import VendorClient

if TYPE_CHECKING:
    from stoker.connectors import VendorFactory
    from stoker.settings import Settings

KIND = "pulls"

NO_ACCOUNTS = (
    "no account that fits has a heat yet; find who fits with: stoker nightly --plan, "
    "and give them one with: stoker heat sweep"
)

PAGE_SIZE = 65_536

CANDIDATES_PAGE = 10_000

_MIN_BUCKET = timedelta(minutes=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_COLUMNS = tuple(each.name for each in fields(AccountColumns) if each.name != "accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """How a tenant's lookups are chosen."""

    rule: PullRule
    beliefs: ChangeRateRule
    units: int = 1  # of a shallow lookup
    deep_units: int = 3


class PullPlanner:
    """Plans one tenant's pulls, as the nightly planner plans a nightly run."""

    def __init__(
        self,
        order: PullOptions,
        *,
        night: NightlyOptions,
        capacity: Callable[[], Awaitable[Capacity]],
        constraint_reader: ConstraintReader,
    ) -> None:
        self._order = order
        self._night = night
        self._read_capacity = capacity
        self._constraint_reader = constraint_reader

    async def plan(self, run: RunHandle) -> NightlyPlan:
        """Choose lookups, save the decision about every account, and return the work items."""
        rule = await run.store.accounts.find_rule(self._night.rule_name)
        if rule is None:
            raise ConfigError(
                f"there is no rule {self._night.rule_name!r} that says which companies to look "
                "for; set it with: stoker icp set"
            )
        capacity = await self._read_capacity()
        earlier = await find_unfinished_work(
            run, kind=KIND, reset=self._night.reset, killed_only=True
        )
        if earlier is not None and earlier.items:
            capacity = await self._build_capacity(
                run.store, earlier.items, capacity, run.clock.now()
            )
            return self._to_nightly_plan(earlier.items, capacity, rule, taken_over_from=earlier.run)
        with run.time_step("plan") as step:
            pulls = await self.preview_plan(run.store, now=run.clock.now(), capacity=capacity)
            step.items = len(pulls.inputs.ids)
        name = Run(key=run.key, kind=run.kind).name
        await save_plan(run.store, name, pulls)
        units = to_work_items(pulls)
        many = len(pulls.inputs.ids)
        capacity = await self._build_capacity(run.store, units, capacity, run.clock.now())
        nightly_plan = self._to_nightly_plan(units, capacity, rule)
        return replace(nightly_plan, candidates=many, empty_reason="" if many else NO_ACCOUNTS)

    async def preview_plan(
        self, store: TenantStores, *, now: datetime, capacity: Capacity | None = None
    ) -> PlanningResult:
        """Return the plan for this moment without saving it."""
        capacity = capacity or await self._read_capacity()
        inputs = await self._read_inputs(store, now, capacity)
        plan = plan_pulls(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
        while repeated := await self._find_repeated(store, inputs, plan, now):
            # An account already pulled in this time bucket makes room for the next one.
            barred = inputs.accounts.barred.copy()
            barred[repeated] = Decision.DUPLICATE_PULL_JOB_ID
            inputs = replace(inputs, accounts=replace(inputs.accounts, barred=barred))
            plan = plan_pulls(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
        return PlanningResult(at=now, inputs=inputs, plan=plan)

    async def quote_plan(
        self, store: TenantStores, *, now: datetime
    ) -> tuple[PlanningResult, Quote]:
        """Return the plan for this moment and its expected cost, without saving it."""
        capacity = await self._read_capacity()
        pulls = await self.preview_plan(store, now=now, capacity=capacity)
        units = to_work_items(pulls)
        capacity = await self._build_capacity(store, units, capacity, now)
        return pulls, self._build_quote(units, capacity)

    async def _build_capacity(
        self, store: TenantStores, units: tuple[WorkItem, ...], capacity: Capacity, now: datetime
    ) -> Capacity:
        return replace(
            capacity, vendors=await add_first_lookup_shares(store, units, capacity.vendors, now=now)
        )

    async def _read_inputs(
        self, store: TenantStores, now: datetime, capacity: Capacity
    ) -> PlanSnapshot:
        columns, order = await self._read_columns(store), self._order
        day = compute_window(WindowKind.DAY, now, reset=self._night.reset)
        constraints = await self._constraint_reader.list_constraints(
            store, now=now, rule=order.rule, units=order.units
        )

        def of_tick(left: int) -> int:
            return compute_period_units(left, now=now, until=day.end, rule=order.rule)

        looks = capacity.connector_units
        limits = PullLimits(
            budget=of_tick(capacity.tenant_units),
            connector_cap=of_tick(looks) if looks < UNLIMITED else NO_CAP,
        )
        accounts = build_accounts(
            columns,
            now=to_epoch_days(now),
            units=order.units,
            deep_units=order.deep_units,
            barred=Decision.PAUSED if is_stopped(constraints) else Decision.FREE,
            rule=order.rule,
            beliefs=order.beliefs,
        )
        return PlanSnapshot(
            ids=columns.accounts,
            accounts=accounts,
            limits=limit_deep_lookups(limits, constraints),
            rule=order.rule,
            constraints=constraints,
        )

    async def _read_columns(self, store: TenantStores) -> AccountColumns:
        """Return every account with a heat that matches the tenant's ICP rule."""
        columns, fits, after = await _read_all_columns(store.attention), set[str](), ""
        while page := await store.accounts.list_candidates(
            rule=self._night.rule_name, after=after, limit=CANDIDATES_PAGE
        ):
            fits.update(each.id for each in page)
            after = page[-1].id
        rows = [row for row, account in enumerate(columns.accounts) if account in fits]
        if len(rows) == len(columns.accounts):
            return columns
        chosen = {name: getattr(columns, name)[rows] for name in _COLUMNS}
        return AccountColumns(accounts=[columns.accounts[row] for row in rows], **chosen)

    async def _find_repeated(
        self, store: TenantStores, inputs: PlanSnapshot, plan: PullPlan, now: datetime
    ) -> list[int]:
        repeated = []
        for row in plan.chosen.tolist():
            depth = Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW
            if await is_paid(store.money, self.build_job_id(store, inputs.ids[row], depth, now)):
                repeated.append(row)
        return repeated

    def build_job_id(
        self, store: TenantStores, account: str, depth: Depth, now: datetime
    ) -> PullJobId:
        """Return the id of a pull in the time bucket of `now`."""
        return build_pull_job_id(
            tenant=store.tenant,
            account=CompanyId(account),
            connector=CRAWL,
            depth=depth,
            at=now,
            bucket=self._order.rule.tick,
        )

    def _to_nightly_plan(
        self,
        units: tuple[WorkItem, ...],
        capacity: Capacity,
        rule: IcpRule,
        *,
        taken_over_from: str = "",
    ) -> NightlyPlan:
        return NightlyPlan(
            rule=rule,
            items=units,
            count_by_depth=Counter(unit.depth for unit in units),
            quote=self._build_quote(units, capacity),
            resumed_from=taken_over_from,
        )

    def _build_quote(self, units: tuple[WorkItem, ...], capacity: Capacity) -> Quote:
        many = Counter(unit.depth for unit in units)
        needs = list_vendor_needs(set(capacity.vendors), steps=self._night.steps)
        quote = compute_quote(many, needs, capacity.vendors, at_once=self._night.concurrency)
        order = self._order
        pulls = many[Depth.SHALLOW] * order.units + many[Depth.DEEP] * order.deep_units
        return (
            replace(quote, cost={f"{CRAWL}/{PULL_UNITS}": pulls, **quote.cost}) if pulls else quote
        )


@dataclass(frozen=True, kw_only=True)
class SavePlanJob:
    """Saves one tenant's plan as a run of its own, without any lookup."""

    pulls: PlanningResult

    @property
    def kind(self) -> str:
        """What its runs are listed under."""
        return "plan"

    async def __call__(self, run: RunHandle) -> RunResult:
        """Save the plan under the run's name."""
        pulls = self.pulls
        with run.time_step("keep") as step:
            await save_plan(run.store, Run(key=run.key, kind=run.kind).name, pulls)
            step.items = len(pulls.inputs.ids)
        looks = Counter(unit.depth for unit in to_work_items(pulls))
        return RunResult(
            state=RunState.DONE,
            counts={
                "accounts": len(pulls.inputs.ids),
                "selected": sum(looks.values()),
                "deep": looks[Depth.DEEP],
            },
        )


def to_work_items(pulls: PlanningResult) -> tuple[WorkItem, ...]:
    """Return the chosen lookups in order, each with its reason."""
    inputs, plan = pulls.inputs, pulls.plan
    return tuple(
        WorkItem(
            company=CompanyId(inputs.ids[row]),
            rank=place,
            depth=Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW,
            reason=_format_reason(plan, row),
        )
        for place, row in enumerate(list_in_order(plan).tolist())
    )


async def _read_all_columns(attention: HeatStore) -> AccountColumns:
    pages, after = [await attention.read_columns(limit=PAGE_SIZE)], ""
    while len(pages[-1].accounts) == PAGE_SIZE:
        after = pages[-1].accounts[-1]
        pages.append(await attention.read_columns(after=after, limit=PAGE_SIZE))
    if len(pages) == 1:
        return pages[0]
    joined = {name: np.concatenate([getattr(page, name) for page in pages]) for name in _COLUMNS}
    return AccountColumns(
        accounts=[account for page in pages for account in page.accounts], **joined
    )


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


def build_pull_options(own: Settings, *, policy: str | None = None) -> PullOptions:
    """Return how a tenant's lookups are chosen, by its settings and the given policy."""
    rule = replace(own.pulls, tiers=own.heat)
    return PullOptions(
        rule=replace(rule, policy=Policy(policy)) if policy else rule,
        beliefs=own.pulls,
        units=own.get_pull_units("crawl", deep=False),
        deep_units=own.get_pull_units("crawl", deep=True),
    )


def build_pull_planner(
    tenant: TenantId,
    *,
    own: Settings,
    policy: str | None,
    backend: Backend,
    connectors: VendorFactory,
    caps: Callable[[], Awaitable[tuple[Cap, ...]]],
    reset: ResetRule,
    traffic: VendorLimits,
    clock: Clock,
) -> PullPlanner:
    """Return the planner of a tenant's pulls."""
    night = build_nightly_options(own, reset=reset, steps=STEPS)
    capacity = build_capacity_reader(
        tenant, own=own, backend=backend, connectors=connectors, caps=caps, reset=reset
    )
    return PullPlanner(
        build_pull_options(own, policy=policy),
        night=night,
        capacity=lambda: capacity(clock),
        constraint_reader=ConstraintReader(
            [name for name in PAID_VENDORS if not connectors.get_off_reason(name, tenant)],
            steps=night.steps,
            caps=caps,
            reset=reset,
            traffic=traffic,
            may_take=night.time_limit,
        ),
    )


def build_pull_run(
    tenant: TenantId,
    *,
    planning: PullPlanner,
    own: Settings,
    backend: Backend,
    connectors: VendorFactory,
    gate: Callable[[], Awaitable[BudgetService]],
    asking: Callable[[], Awaitable[VendorClient]],
    exports: ExporterFactory | None,
    owner: str,
    reset: ResetRule,
) -> NightlyRun:
    """Return a tenant's pulls as the job of a run."""
    store = backend.tenant(tenant)

    def pull_id(account: CompanyId, depth: Depth, now: datetime) -> PullJobId:
        return planning.build_job_id(store, account, depth, now)

    return NightlyRun(
        build_nightly_options(own, reset=reset, steps=STEPS),
        planning=planning,
        gate=gate,
        asking=asking,
        sources=build_vendors(connectors, tenant),
        exports=exports,
        owner=owner,
        learning=build_learning(own),
        pull_id=pull_id,
        kind=KIND,
    )
