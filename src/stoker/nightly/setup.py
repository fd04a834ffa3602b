"""Build a tenant's nightly run from its settings: options, capacity and vendors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from stoker.base.types import Step
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Totals
from stoker.budgets.service import build_reset_rule, list_caps
from stoker.budgets.statements import compute_left, list_current_balances
from stoker.context import TenantContext
from stoker.crawl.extract import extract_facts
from stoker.crawl.service import build_crawler
from stoker.crm.export import CrmExport
from stoker.crm.odoo import open_crm
from stoker.enrichment.forecast import VendorCapacity, compute_capacity
from stoker.enrichment.history import list_recent_lookups, measure_usage
from stoker.enrichment.model import CompanyVendors
from stoker.heat.service import LookupFeedback
from stoker.leads.rationale import build_rationales
from stoker.nightly.depth import DepthRule
from stoker.nightly.plan import Capacity, NightlyOptions, NightlyPlanner
from stoker.nightly.service import NightlyRun
from stoker.nightly.targets import UNLIMITED
from stoker.scheduling.service import Task, build_task
from stoker.vendors.lusha import build_people, build_reveal
from stoker.vendors.openai import build_extractor
from stoker.vendors.table import get_off_reason, list_paid_vendors
from stoker.vendors.tavily import build_search
from stoker.vendors.zerobounce import build_verifier

if TYPE_CHECKING:
    from stoker.settings import Settings

MIN_WAITING = 200

MIN_BATCH_WAIT = timedelta(seconds=1)

_VendorT = TypeVar("_VendorT")


def build_nightly_options(
    own: Settings,
    *,
    limit: int | None = None,
    steps: Sequence[Step] = tuple(Step),
    from_run: str = "",
    again: bool = False,
) -> NightlyOptions:
    """Return what a run does, by the tenant's settings and the command's options."""
    scheduling, verifier = own.scheduling, own.zerobounce
    return NightlyOptions(
        rule_name=own.icp.rule_name,
        max_companies=scheduling.daily_cap_per_tenant,
        limit=limit,
        depths=DepthRule(
            shallow_units=own.get_pull_units("crawl", deep=False),
            deep_units=own.get_pull_units("crawl", deep=True),
        ),
        score=own.score,
        steps=tuple(steps),
        concurrency=scheduling.company_concurrency,
        # As many as may wait while batches of addresses go at their vendor's pace.
        max_waiting=max(MIN_WAITING, 25 * scheduling.company_concurrency),
        batch_wait=max(MIN_BATCH_WAIT, timedelta(seconds=verifier.per_s / verifier.calls)),
        # As many as end at about the same time; more would come late, fewer cost a CRM more calls.
        export_batch_size=max(3, min(50, scheduling.company_concurrency)),
        corpus_limit=own.extract.corpus_char_limit,
        keep_corpus=own.crawl.persist_corpus,
        time_limit=timedelta(minutes=scheduling.deadline_minutes),
        reset=build_reset_rule(own),
        from_run=from_run,
        include_done=again,
    )


def build_vendors(tenant: TenantContext) -> CompanyVendors:
    """Return the vendors a tenant's lookups may ask: those with a key."""

    def if_on(name: str, build: Callable[[TenantContext], _VendorT]) -> _VendorT | None:
        return None if get_off_reason(tenant.settings, name) else tenant.get(build)

    return CompanyVendors(
        crawler=tenant.process.get(build_crawler),
        extract_facts=extract_facts,
        search=if_on("tavily", build_search),
        llm=if_on("openai", build_extractor),
        rationales=if_on("openai", build_rationales),
        people=if_on("lusha", build_people),
        reveal=if_on("lusha", build_reveal),
        verifier=if_on("zerobounce", build_verifier),
    )


def build_exporter(tenant: TenantContext) -> CrmExport:
    """Return what puts a tenant's results into its CRM."""
    return CrmExport(partial(open_crm, tenant), least=tenant.settings.score.min_export)


def build_nightly_run(
    tenant: TenantContext,
    *,
    limit: int | None = None,
    steps: Sequence[Step] = tuple(Step),
    from_run: str = "",
    again: bool = False,
) -> NightlyRun:
    """Return a tenant's nightly run: at most so many companies, only these steps."""
    options = build_nightly_options(
        tenant.settings, limit=limit, steps=steps, from_run=from_run, again=again
    )
    return NightlyRun(
        tenant,
        options,
        planner=NightlyPlanner(
            options,
            registry=tenant.process.backend.registry(),
            read_capacity=partial(read_capacity, tenant),
        ),
        vendors=build_vendors(tenant),
        exporter=build_exporter(tenant),
        after_lookup=build_learning(tenant.settings),
    )


def build_nightly_task(
    tenant: TenantContext, night: NightlyRun, *, start_delay: timedelta = timedelta(0)
) -> Task:
    """Return a tenant's nightly run or pulls as a task; a run whose process died is resumed."""
    reset = build_reset_rule(tenant.settings)
    return build_task(tenant, night, resume_window=reset, start_delay=start_delay)


def build_learning(own: Settings) -> LookupFeedback:
    """Return how lookups update a tenant's change rates."""
    return LookupFeedback(heat=own.heat, tiers=own.heat, beliefs=own.pulls)


async def read_capacity(tenant: TenantContext) -> Capacity:
    """Return what is left of a tenant's caps now, and how fast its vendors may be called.

    For shared caps it sees only what is left, never which tenants used them.
    With it comes what its latest nights took of its vendors.
    """
    now, own, store = tenant.clock.now(), tenant.settings, tenant.store
    caps, shared = await list_caps(tenant), tenant.process.backend.shared()
    reset = build_reset_rule(own)
    changes = {**await shared.list_cap_changes(), **await store.budgets.list_cap_changes()}
    used: dict[tuple[str, str], Totals] = {
        (each.cap, each.window): each.used
        for each in (*await shared.list_usage(), *await store.budgets.list_usage())
    }

    def left(names: Sequence[str], among: Iterable[Cap]) -> dict[str, dict[str, int]]:
        return compute_left(names, among, changes, used, reset=reset, now=now)

    capacities, nights = {"crawl": VendorCapacity()}, await list_recent_lookups(store)
    for name, free in left(list_paid_vendors(own), caps).items():
        rate = own.get_connector(name).to_rate()
        per_minute = rate.calls * rate.share / rate.per.total_seconds() * 60
        took = measure_usage(nights, name)
        capacities[name] = compute_capacity(name, free=free, per_minute=per_minute, took=took)
    of_all, of_looks = left([""], caps)[""], left(["crawl"], (cap for cap in caps if cap.connector))
    return Capacity(
        tenant_units=of_all.get("pull_units", UNLIMITED),
        connector_units=of_looks["crawl"].get("pull_units", UNLIMITED),
        vendors=capacities,
        balances=list_current_balances(caps, changes, used, reset=reset, now=now),
    )
