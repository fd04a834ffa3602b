"""Build a tenant's nightly run from its settings: options, capacity and vendors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from stoker.accounts.model import CrmConnection
from stoker.base.clock import Clock
from stoker.base.types import Step, TenantId
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Totals
from stoker.budgets.service import BudgetService
from stoker.budgets.statements import compute_left, list_current_balances
from stoker.budgets.windows import ResetRule
from stoker.context import Backend, TenantStores
from stoker.crm.export import CrmExport, ExporterFactory
from stoker.crm.model import Crm
from stoker.enrichment.forecast import VendorCapacity, compute_capacity
from stoker.enrichment.history import list_recent_lookups, measure_usage
from stoker.enrichment.model import CompanyVendors
from stoker.heat.learn import LookupFeedback
from stoker.nightly.plan import Capacity, NightlyOptions, NightlyPlanner
from stoker.nightly.service import NightlyRun
from stoker.nightly.targets import UNLIMITED, DepthRule
from stoker.vendors.client import VendorClient

if TYPE_CHECKING:
    from stoker.budgets.shared_store import OperatorStore
    from stoker.connectors import VendorFactory
    from stoker.settings import Settings

MIN_WAITING = 200

MIN_BATCH_WAIT = timedelta(seconds=1)

PAID_VENDORS = ("tavily", "openai", "lusha", "zerobounce")

_VendorT = TypeVar("_VendorT")


def build_nightly_options(
    own: Settings,
    *,
    reset: ResetRule,
    limit: int | None = None,
    steps: Sequence[Step] = tuple(Step),
    from_run: str = "",
    again: bool = False,
) -> NightlyOptions:
    """Return what a night is to do, as a tenant's settings and a person say."""
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
        reset=reset,
        from_run=from_run,
        include_done=again,
    )


def build_vendors(connectors: VendorFactory, tenant: TenantId) -> CompanyVendors:
    """Return the vendors a tenant's lookups may ask: those with a key."""
    from stoker.crawl.extract import extract_facts

    def if_on(name: str, make: Callable[[TenantId], _VendorT]) -> _VendorT | None:
        return None if connectors.get_off_reason(name, tenant) else make(tenant)

    return CompanyVendors(
        crawler=connectors.crawler(),
        extract_facts=extract_facts,
        search=if_on("tavily", connectors.search),
        llm=if_on("openai", connectors.extractor),
        rationales=if_on("openai", connectors.rationales),
        people=if_on("lusha", connectors.people),
        reveal=if_on("lusha", connectors.reveal),
        verifier=if_on("zerobounce", connectors.verifier),
    )


def open_crm(
    connectors: VendorFactory,
    tenant: TenantId,
    connection: CrmConnection | None,
    *,
    despite_stops: bool = False,
) -> Crm:
    """Return a tenant's CRM, from its own connection or else from settings.

    Raises ConfigError when it is off.
    """
    if connection is None:
        return connectors.crm(tenant, despite_stops=despite_stops)
    return connectors.crm(
        tenant, url=connection.url, database=connection.database, despite_stops=despite_stops
    )


def build_exporter(
    connectors: VendorFactory, tenant: TenantId, *, own: Settings
) -> ExporterFactory:
    """Return what puts a tenant's results into its CRM."""
    return CrmExport(
        lambda connection: open_crm(connectors, tenant, connection), least=own.score.min_export
    )


def build_nightly_run(
    tenant: TenantId,
    order: NightlyOptions,
    *,
    own: Settings,
    backend: Backend,
    connectors: VendorFactory,
    gate: Callable[[], Awaitable[BudgetService]],
    asking: Callable[[], Awaitable[VendorClient]],
    caps: Callable[[], Awaitable[tuple[Cap, ...]]],
    exports: ExporterFactory | None,
    owner: str,
    clock: Clock,
) -> NightlyRun:
    """Return a tenant's night."""
    capacity = build_capacity_reader(
        tenant, own=own, backend=backend, connectors=connectors, caps=caps, reset=order.reset
    )
    return NightlyRun(
        order,
        planning=NightlyPlanner(order, registry=backend.registry(), means=lambda: capacity(clock)),
        gate=gate,
        asking=asking,
        sources=build_vendors(connectors, tenant),
        exports=exports,
        owner=owner,
        learning=build_learning(own),
    )


def build_learning(own: Settings) -> LookupFeedback:
    """Return how a tenant's looks are learned from."""
    return LookupFeedback(heat=own.heat, tiers=own.heat, beliefs=own.pulls)


def build_capacity_reader(
    tenant: TenantId,
    *,
    own: Settings,
    backend: Backend,
    connectors: VendorFactory,
    caps: Callable[[], Awaitable[tuple[Cap, ...]]],
    reset: ResetRule,
) -> Callable[[Clock], Awaitable[Capacity]]:
    """Return a function that reads a tenant's remaining budget and its vendors' rates."""
    store = backend.tenant(tenant)
    on = [name for name in PAID_VENDORS if not connectors.get_off_reason(name, tenant)]

    async def means(clock: Clock) -> Capacity:
        return await read_capacity(
            store,
            await caps(),
            shared=backend.shared(),
            own=own,
            connectors=on,
            reset=reset,
            clock=clock,
        )

    return means


async def read_capacity(
    store: TenantStores,
    caps: Sequence[Cap],
    *,
    shared: OperatorStore,
    own: Settings,
    connectors: Sequence[str],
    reset: ResetRule,
    clock: Clock,
) -> Capacity:
    """Return what is left of a tenant's caps now, and how fast its vendors may be called.

    For shared caps it sees only what is left, never which tenants used them.
    With it comes what its latest nights took of its vendors.
    """
    now = clock.now()
    changes = {**await shared.list_cap_changes(), **await store.money.list_cap_changes()}
    used: dict[tuple[str, str], Totals] = {
        (each.cap, each.window): each.used
        for each in (*await shared.list_usage(), *await store.money.list_usage())
    }

    def left(names: Sequence[str], among: Iterable[Cap]) -> dict[str, dict[str, int]]:
        return compute_left(names, among, changes, used, reset=reset, now=now)

    capacities, nights = {"crawl": VendorCapacity()}, await list_recent_lookups(store)
    for name, free in left(connectors, caps).items():
        vendor = own.get_connector(name)
        per_minute = vendor.calls * vendor.share / vendor.per_s * 60
        took = measure_usage(nights, name)
        capacities[name] = compute_capacity(name, free=free, per_minute=per_minute, took=took)
    of_all, of_looks = left([""], caps)[""], left(["crawl"], (cap for cap in caps if cap.connector))
    return Capacity(
        tenant_units=of_all.get("pull_units", UNLIMITED),
        connector_units=of_looks["crawl"].get("pull_units", UNLIMITED),
        vendors=capacities,
        balances=list_current_balances(caps, changes, used, reset=reset, now=now),
    )
