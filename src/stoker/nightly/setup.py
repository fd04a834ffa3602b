"""Build a tenant's nightly run from its settings: options, capacity and vendors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from stoker.base.types import Step
from stoker.budgets.service import build_reset_rule
from stoker.context import TenantContext
from stoker.crawl.service import build_crawler
from stoker.crm.export import CrmExporter
from stoker.crm.odoo import open_crm
from stoker.enrichment.model import CompanyVendors
from stoker.heat.service import LookupFeedback
from stoker.leads.rationale import build_rationales
from stoker.nightly.plan import NightlyOptions, NightlyPlanner, read_capacity
from stoker.nightly.service import NightlyRun
from stoker.nightly.targets import DepthRule
from stoker.runs.service import RunHandle
from stoker.scheduling.service import Task, build_task
from stoker.vendors.lusha import build_people, build_reveal
from stoker.vendors.openai import build_extractor
from stoker.vendors.table import OdooSettings, ZeroBounceSettings, get_off_reason
from stoker.vendors.tavily import build_page_reader, build_search
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
    scheduling, verifier = own.scheduling, own.get_vendor(ZeroBounceSettings)
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

    crawler = tenant.process.get(build_crawler)
    return CompanyVendors(
        crawler=crawler,
        extract_facts=crawler.extract_facts,
        search=if_on("tavily", build_search),
        pages=if_on("tavily", build_page_reader),
        llm=if_on("openai", build_extractor),
        rationales=if_on("openai", build_rationales),
        people=if_on("lusha", build_people),
        reveal=if_on("lusha", build_reveal),
        verifier=if_on("zerobounce", build_verifier),
    )


def build_exporter(tenant: TenantContext) -> Callable[[RunHandle], CrmExporter]:
    """Return what puts a tenant's results into its CRM."""
    own = tenant.settings
    return partial(
        CrmExporter,
        opens=partial(open_crm, tenant),
        least=own.score.min_export,
        rule=own.get_vendor(OdooSettings),
    )


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
    return LookupFeedback(heat=own.heat, beliefs=own.pulls)
