"""A tenant's pulls put together from settings: how looks are chosen, and who carries them out.

Whoever carries them out is a night's own machinery; only the choosing is another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from stoker.config.settings import Settings
from stoker.connecting import Connectors
from stoker.core.budget_windows import ResetRule
from stoker.core.caps import Cap
from stoker.core.companies import CompanyId
from stoker.core.model import TenantId
from stoker.core.nights import OF_COMPANIES, Depth, Step
from stoker.core.pull_columns import Policy
from stoker.core.pull_jobs import PullJobId
from stoker.engine.asking import Asking
from stoker.engine.hindering import Hindering
from stoker.engine.night import Night
from stoker.engine.night_exports import Exports
from stoker.engine.paying import Gate
from stoker.engine.pull_planning import KIND, PullOrder, PullPlanning
from stoker.engine.traffic import Traffic
from stoker.nightly import PAID, learning_of, means_for, order_of, sources_for
from stoker.ports import Backend, Clock

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
