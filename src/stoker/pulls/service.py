"""A tenant's looks for now: everything known about its accounts read, planned, and written down.

Accounts come from the store page by page into columns; who is looked at is `core.pulls`' decision.
What was decided about every single account is kept, with all it was decided by, so that it can be
explained and made again. Nothing here asks a vendor or spends.

A tenant's pulls put together from settings: how looks are chosen, and who carries them out.

Whoever carries them out is a night's own machinery; only the choosing is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import CompanyId
from stoker.base.clock import Clock
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, Json, PullJobId, Step, TenantId
from stoker.budgets.caps import Cap
from stoker.budgets.gate import Gate
from stoker.budgets.windows import ResetRule, WindowKind, window_at
from stoker.context import Backend, Store
from stoker.crm.export import Exports
from stoker.enrichment.forecast import Quote, quote
from stoker.enrichment.model import OF_COMPANIES, Unit
from stoker.enrichment.pull_units import CONNECTOR, UNIT, claimed
from stoker.enrichment.recent_runs import rooms_tonight
from stoker.enrichment.vendor_needs import expected
from stoker.heat.beliefs import BeliefRule
from stoker.heat.model import AccountColumns, AttentionStore, PlanRecord
from stoker.ledger.chain import Note
from stoker.nightly.plan import Means, NightOrder, NightPlan
from stoker.nightly.resume import left_undone
from stoker.nightly.service import Night
from stoker.nightly.setup import PAID, learning_of, means_for, order_of, sources_for
from stoker.nightly.targets import PLENTY
from stoker.pulls.columns import (
    UNCAPPED,
    Policy,
    PullRule,
    Why,
    in_days,
    known_accounts,
    limits_of,
    tick_units,
)
from stoker.pulls.constraints import Hindering, Hindrance, in_the_way, stopped, within_hindrances
from stoker.pulls.explain import CHOSEN_BECAUSE, REASONS
from stoker.pulls.jobs import pull_job_id
from stoker.pulls.plan_record import (
    PlanInputs,
    counts,
    decision_columns,
    decisions_of,
    digest,
    input_columns,
    kept,
    limits_json,
    packed,
    rule_json,
    summary,
)
from stoker.pulls.planner import DEEP, DayPlan, in_turn, plan_day
from stoker.rate_limits.limiter import Traffic
from stoker.runs.model import Run, RunState
from stoker.runs.service import Ending, OpenRun
from stoker.vendors.client import Asking

if TYPE_CHECKING:
    from stoker.connectors import Connectors
    from stoker.settings import Settings

KIND = "pulls"

PLANNED = "PLAN"  # the ledger's kind of lines that tell of one

NOBODY = (
    "no account that fits has a heat yet; find who fits with: stoker nightly --plan, "
    "and give them one with: stoker heat sweep"
)

PAGE = 65_536

CANDIDATES = 10_000

_COLUMNS = tuple(each.name for each in fields(AccountColumns) if each.name != "accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOrder:
    """How a tenant's looks are chosen."""

    rule: PullRule
    beliefs: BeliefRule
    units: int = 1  # of a shallow look
    deep_units: int = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pulls:
    """A plan, and everything it was made of."""

    at: datetime
    inputs: PlanInputs
    plan: DayPlan


class PullPlanning:
    """Plans one tenant's looks; what a night's planning is to a night, this is to pulls."""

    def __init__(
        self,
        order: PullOrder,
        *,
        night: NightOrder,
        means: Callable[[], Awaitable[Means]],
        hindering: Hindering,
    ) -> None:
        self._order = order
        self._night = night
        self._means = means
        self._hindering = hindering

    async def plan(self, run: OpenRun) -> NightPlan:
        """Choose looks, keep the decision about every account, and return the chosen as units.

        A run that died is taken over instead: what it had chosen and not ended is done first.
        """
        rule = await run.store.accounts.rule(self._night.rule_name)
        if rule is None:
            raise ConfigError(
                f"there is no rule {self._night.rule_name!r} that says which companies to look "
                "for; set it with: stoker icp set"
            )
        means = await self._means()
        earlier = await left_undone(run, kind=KIND, reset=self._night.reset, killed_only=True)
        if earlier is not None and earlier.units:
            means = await self._tonight(run.store, earlier.units, means, run.clock.now())
            return self._told(earlier.units, means, rule, taken_over_from=earlier.run)
        with run.step("plan") as step:
            pulls = await self.pulls(run.store, now=run.clock.now(), means=means)
            step.items = len(pulls.inputs.ids)
        name = Run(key=run.key, kind=run.kind).name
        await keep(run.store, name, pulls)
        units = units_of(pulls)
        many = len(pulls.inputs.ids)
        means = await self._tonight(run.store, units, means, run.clock.now())
        told = self._told(units, means, rule)
        return replace(told, candidates=many, nobody="" if many else NOBODY)

    async def pulls(self, store: Store, *, now: datetime, means: Means | None = None) -> Pulls:
        """Return the plan for this moment, keeping nothing."""
        means = means or await self._means()
        inputs = await self._inputs(store, now, means)
        plan = plan_day(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
        while asked_for := await self._asked_for(store, inputs, plan, now):
            # Whoever was asked for in this stretch of time gives way to the next in line.
            barred = inputs.accounts.barred.copy()
            barred[asked_for] = Why.DUPLICATE_PULL_JOB_ID
            inputs = replace(inputs, accounts=replace(inputs.accounts, barred=barred))
            plan = plan_day(inputs.accounts, inputs.limits, now=now, rule=inputs.rule)
        return Pulls(at=now, inputs=inputs, plan=plan)

    async def quoted(self, store: Store, *, now: datetime) -> tuple[Pulls, Quote]:
        """Return the plan for this moment and what it is expected to take, keeping nothing."""
        means = await self._means()
        pulls = await self.pulls(store, now=now, means=means)
        units = units_of(pulls)
        return pulls, self._quote(units, await self._tonight(store, units, means, now))

    async def _tonight(
        self, store: Store, units: tuple[Unit, ...], means: Means, now: datetime
    ) -> Means:
        return replace(means, rooms=await rooms_tonight(store, units, means.rooms, now=now))

    async def _inputs(self, store: Store, now: datetime, means: Means) -> PlanInputs:
        columns, order = await self._columns(store), self._order
        day = window_at(WindowKind.DAY, now, reset=self._night.reset)
        known = {name: getattr(columns, name) for name in _COLUMNS}
        found = await self._hindering.found(store, now=now, rule=order.rule, units=order.units)

        def of_tick(left: int) -> int:
            return tick_units(left, now=now, until=day.end, rule=order.rule)

        looks = means.connector_units
        limits = limits_of(
            [of_tick(means.tenant_units)],
            connector_cap=[[of_tick(looks) if looks < PLENTY else UNCAPPED]],
        )
        accounts = known_accounts(
            **known,
            now=in_days(now),
            units=order.units,
            deep_units=order.deep_units,
            barred=Why.PAUSED if stopped(found) else Why.FREE,
            rule=order.rule,
            beliefs=order.beliefs,
        )
        return PlanInputs(
            ids=columns.accounts,
            accounts=accounts,
            limits=within_hindrances(limits, found),
            rule=order.rule,
            hindrances=found,
        )

    async def _columns(self, store: Store) -> AccountColumns:
        """Return everybody with a heat who is one the tenant looks for, by its rule."""
        columns, fits, after = await _columns(store.attention), set[str](), ""
        while page := await store.accounts.candidates(
            rule=self._night.rule_name, after=after, limit=CANDIDATES
        ):
            fits.update(each.id for each in page)
            after = page[-1].id
        rows = [row for row, account in enumerate(columns.accounts) if account in fits]
        if len(rows) == len(columns.accounts):
            return columns
        chosen = {name: getattr(columns, name)[rows] for name in _COLUMNS}
        return AccountColumns(accounts=[columns.accounts[row] for row in rows], **chosen)

    async def _asked_for(
        self, store: Store, inputs: PlanInputs, plan: DayPlan, now: datetime
    ) -> list[int]:
        found = []
        for row in plan.chosen.tolist():
            depth = Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW
            if await claimed(store.money, self.job_id(store, inputs.ids[row], depth, now)):
                found.append(row)
        return found

    def job_id(self, store: Store, account: str, depth: Depth, now: datetime) -> PullJobId:
        """Return the id of a pull in the stretch of time that `now` falls in."""
        return pull_job_id(
            tenant=store.tenant,
            account=CompanyId(account),
            connector=CONNECTOR,
            depth=depth,
            at=now,
            bucket=self._order.rule.tick,
        )

    def _told(
        self, units: tuple[Unit, ...], means: Means, rule: IcpRule, *, taken_over_from: str = ""
    ) -> NightPlan:
        return NightPlan(
            rule=rule,
            units=units,
            looks=Counter(unit.depth for unit in units),
            quote=self._quote(units, means),
            taken_over_from=taken_over_from,
        )

    def _quote(self, units: tuple[Unit, ...], means: Means) -> Quote:
        many = Counter(unit.depth for unit in units)
        needs = expected(set(means.rooms), steps=self._night.steps)
        told = quote(many, needs, means.rooms, at_once=self._night.at_once)
        order = self._order
        pulls = many[Depth.SHALLOW] * order.units + many[Depth.DEEP] * order.deep_units
        return replace(told, cost={f"{CONNECTOR}/{UNIT}": pulls, **told.cost}) if pulls else told


@dataclass(frozen=True, kw_only=True)
class PlanOnly:
    """One tenant's plan as work of its own: kept, and nobody is looked at."""

    pulls: Pulls

    @property
    def kind(self) -> str:
        """What its runs are listed under."""
        return "plan"

    async def __call__(self, run: OpenRun) -> Ending:
        """Keep the plan under the run's name."""
        pulls = self.pulls
        with run.step("keep") as step:
            await keep(run.store, Run(key=run.key, kind=run.kind).name, pulls)
            step.items = len(pulls.inputs.ids)
        looks = Counter(unit.depth for unit in units_of(pulls))
        return Ending(
            state=RunState.DONE,
            counts={
                "accounts": len(pulls.inputs.ids),
                "selected": sum(looks.values()),
                "deep": looks[Depth.DEEP],
            },
        )


def units_of(pulls: Pulls) -> tuple[Unit, ...]:
    """Return the chosen looks in order, each with why it was chosen."""
    inputs, plan = pulls.inputs, pulls.plan
    price = float(plan.price[0]) if len(plan.price) else 0.0
    return tuple(
        Unit(
            company=CompanyId(inputs.ids[row]),
            place=place,
            depth=Depth.DEEP if plan.depth[row] == DEEP else Depth.SHALLOW,
            because=_because(plan, row, price),
        )
        for place, row in enumerate(in_turn(plan).tolist())
    )


def hindered(pulls: Pulls) -> list[Hindrance]:
    """Return what stood in the way of looks that a plan would have made otherwise."""
    refused = {Why(each) for each in np.unique(pulls.plan.why).tolist()}
    withheld = bool((pulls.plan.withheld != Why.FREE).any())
    return in_the_way(pulls.inputs.hindrances, refused, withheld=withheld)


async def keep(store: Store, run: str, pulls: Pulls) -> None:
    """Keep a plan for a run: every decision, all it was made of, and a line in the ledger.

    The same plan again changes nothing; another one for the same run is a ConflictError.
    """
    inputs, plan = pulls.inputs, pulls.plan
    made_of = input_columns(inputs)
    decided = decisions_of(plan, inputs.accounts, inputs.ids, tenant=0, now=in_days(pulls.at))
    parts, columns = kept(decided), packed(made_of)
    header: dict[str, Json] = {
        **summary(plan, inputs.limits, inputs.rule, tenant=0),
        "accounts": len(inputs.ids),
        "counts": counts(decided),
        "unkept": len(plan.unkept),
        "digest": digest(decision_columns(decided)),
        "inputs_digest": digest(made_of),
        "decision_parts": len(parts),
        "input_parts": len(columns),
        "limits": limits_json(inputs.limits),
        "rule": rule_json(inputs.rule),
        "hindrances": [each.as_json() for each in inputs.hindrances],
    }
    told = hindered(pulls)
    record = PlanRecord(run=run, at=pulls.at, policy=inputs.rule.policy.value, header=header)
    if await store.attention.keep_plan(record, [*parts, *columns]):
        await store.ledger.append(
            [
                Note(
                    at=pulls.at,
                    kind=PLANNED,
                    subject=run,
                    reason="",
                    data={
                        "run": run,
                        "hindrances": [each.as_json() for each in told],
                        **{
                            name: header[name]
                            for name in (
                                "policy",
                                "budget",
                                "spent",
                                "price",
                                "gap",
                                "accounts",
                                "counts",
                                "unkept",
                                "digest",
                                "inputs_digest",
                            )
                        },
                    },
                )
            ]
        )


async def _columns(attention: AttentionStore) -> AccountColumns:
    pages, after = [await attention.columns(limit=PAGE)], ""
    while len(pages[-1].accounts) == PAGE:
        after = pages[-1].accounts[-1]
        pages.append(await attention.columns(after=after, limit=PAGE))
    if len(pages) == 1:
        return pages[0]
    joined = {name: np.concatenate([getattr(page, name) for page in pages]) for name in _COLUMNS}
    return AccountColumns(
        accounts=[account for page in pages for account in page.accounts], **joined
    )


def _because(plan: DayPlan, row: int, price: float) -> str:
    why, withheld = Why(int(plan.why[row])), Why(int(plan.withheld[row]))
    sentence = CHOSEN_BECAUSE[why]
    if why is not Why.FLOOR and 0 < price < np.inf:
        sentence = f"{sentence}, {float(plan.score[row]) / price:.1f} times as much"
    return f"{sentence}; not deep: {REASONS[withheld].sentence}" if withheld else sentence


STEPS = (*OF_COMPANIES, Step.EXPORT)


def pull_order(own: Settings, *, policy: str | None = None) -> PullOrder:
    """Return how a tenant's looks are chosen, as its settings and a person say."""
    rule = own.pulls.rule(tiers=own.heat.tiers())
    return PullOrder(
        rule=replace(rule, policy=Policy(policy)) if policy else rule,
        beliefs=own.pulls.beliefs(),
        units=own.pull_units("crawl", deep=False),
        deep_units=own.pull_units("crawl", deep=True),
    )


def planning_for(
    tenant: TenantId,
    *,
    own: Settings,
    policy: str | None,
    backend: Backend,
    connectors: Connectors,
    caps: Callable[[], Awaitable[tuple[Cap, ...]]],
    reset: ResetRule,
    traffic: Traffic,
    clock: Clock,
) -> PullPlanning:
    """Return what plans a tenant's pulls."""
    night = order_of(own, reset=reset, steps=STEPS)
    means = means_for(
        tenant, own=own, backend=backend, connectors=connectors, caps=caps, reset=reset
    )
    return PullPlanning(
        pull_order(own, policy=policy),
        night=night,
        means=lambda: means(clock),
        hindering=Hindering(
            [name for name in PAID if not connectors.why_off(name, tenant)],
            steps=night.steps,
            caps=caps,
            reset=reset,
            traffic=traffic,
            may_take=night.may_take,
        ),
    )


def pulls_for(
    tenant: TenantId,
    *,
    planning: PullPlanning,
    own: Settings,
    backend: Backend,
    connectors: Connectors,
    gate: Callable[[], Awaitable[Gate]],
    asking: Callable[[], Awaitable[Asking]],
    exports: Exports | None,
    owner: str,
    reset: ResetRule,
) -> Night:
    """Return a tenant's pulls as work that a run carries out."""
    store = backend.tenant(tenant)

    def pull_id(account: CompanyId, depth: Depth, now: datetime) -> PullJobId:
        return planning.job_id(store, account, depth, now)

    return Night(
        order_of(own, reset=reset, steps=STEPS),
        planning=planning,
        gate=gate,
        asking=asking,
        sources=sources_for(connectors, tenant),
        exports=exports,
        owner=owner,
        learning=learning_of(own),
        pull_id=pull_id,
        kind=KIND,
    )
