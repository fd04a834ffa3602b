"""A tenant's night, put together from settings: its order, its means, and whom it may ask.

Knows which setting means what for a night. What a night does is the engine's business, and how a
connector is made is `connecting`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from stoker.accounts.model import CrmConnection
from stoker.base.clock import Clock
from stoker.base.types import Step, TenantId
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Used
from stoker.budgets.gate import Gate
from stoker.budgets.model import SharedStore
from stoker.budgets.statements import left_of
from stoker.budgets.windows import ResetRule
from stoker.context import Backend, Store
from stoker.crm.export import CrmExport, Exports
from stoker.crm.upsert import Crm
from stoker.enrichment.forecast import Room
from stoker.enrichment.history import taken
from stoker.enrichment.model import CompanySources
from stoker.enrichment.recent_runs import latest_nights
from stoker.enrichment.vendor_needs import room
from stoker.heat.learn import Learning
from stoker.nightly.plan import Means, NightOrder, Planning
from stoker.nightly.service import Night
from stoker.nightly.targets import PLENTY, DepthRule
from stoker.vendors.client import Asking

if TYPE_CHECKING:
    from stoker.connectors import Connectors
    from stoker.settings import Settings

PARKED = 200

GATHERS_FOR = timedelta(seconds=1)

PAID = ("tavily", "openai", "lusha", "zerobounce")

_Made = TypeVar("_Made")


def order_of(
    own: Settings,
    *,
    reset: ResetRule,
    limit: int | None = None,
    steps: Sequence[Step] = tuple(Step),
    from_run: str = "",
    again: bool = False,
) -> NightOrder:
    """Return what a night is to do, as a tenant's settings and a person say."""
    scheduling, verifier = own.scheduling, own.zerobounce
    return NightOrder(
        rule_name=own.icp.rule_name,
        companies=scheduling.daily_cap_per_tenant,
        limit=limit,
        depths=DepthRule(
            shallow_units=own.pull_units("crawl", deep=False),
            deep_units=own.pull_units("crawl", deep=True),
        ),
        score=own.score.rule(),
        steps=tuple(steps),
        at_once=scheduling.company_concurrency,
        # As many as may wait while batches of addresses go at their vendor's pace.
        parked=max(PARKED, 25 * scheduling.company_concurrency),
        gathers_for=max(GATHERS_FOR, timedelta(seconds=verifier.per_s / verifier.calls)),
        # As many as end at about the same time; more would come late, fewer cost a CRM more calls.
        sent_together=max(3, min(50, scheduling.company_concurrency)),
        corpus_limit=own.extract.corpus_char_limit,
        keeps_corpus=own.crawl.persist_corpus,
        may_take=timedelta(minutes=scheduling.deadline_minutes),
        reset=reset,
        from_run=from_run,
        again=again,
    )


def sources_for(connectors: Connectors, tenant: TenantId) -> CompanySources:
    """Return whom a tenant's night may ask: everybody there is a key for."""
    from stoker.crawl.extract import plainly_extracted
    from stoker.crawl.visit import site_named

    def if_on(name: str, make: Callable[[TenantId], _Made]) -> _Made | None:
        return None if connectors.why_off(name, tenant) else make(tenant)

    return CompanySources(
        visits=connectors.crawler(),
        site_named=site_named,
        plain=plainly_extracted,
        search=if_on("tavily", connectors.search),
        model=if_on("openai", connectors.extractor),
        rationales=if_on("openai", connectors.rationales),
        people=if_on("lusha", connectors.people),
        reveal=if_on("lusha", connectors.reveal),
        verifier=if_on("zerobounce", connectors.verifier),
    )


def crm_at(
    connectors: Connectors,
    tenant: TenantId,
    connection: CrmConnection | None,
    *,
    despite_stops: bool = False,
) -> Crm:
    """Return a tenant's CRM: where the tenant said, or else where settings say.

    Raises ConfigError when it is off.
    """
    if connection is None:
        return connectors.crm(tenant, despite_stops=despite_stops)
    return connectors.crm(
        tenant, url=connection.url, database=connection.database, despite_stops=despite_stops
    )


def exports_for(connectors: Connectors, tenant: TenantId, *, own: Settings) -> Exports:
    """Return what puts a tenant's results into its CRM."""
    return CrmExport(
        lambda connection: crm_at(connectors, tenant, connection), least=own.score.min_export
    )


def night_for(
    tenant: TenantId,
    order: NightOrder,
    *,
    own: Settings,
    backend: Backend,
    connectors: Connectors,
    gate: Callable[[], Awaitable[Gate]],
    asking: Callable[[], Awaitable[Asking]],
    caps: Callable[[], Awaitable[tuple[Cap, ...]]],
    exports: Exports | None,
    owner: str,
    clock: Clock,
) -> Night:
    """Return a tenant's night."""
    means = means_for(
        tenant, own=own, backend=backend, connectors=connectors, caps=caps, reset=order.reset
    )
    return Night(
        order,
        planning=Planning(order, registry=backend.registry(), means=lambda: means(clock)),
        gate=gate,
        asking=asking,
        sources=sources_for(connectors, tenant),
        exports=exports,
        owner=owner,
        learning=learning_of(own),
    )


def learning_of(own: Settings) -> Learning:
    """Return how a tenant's looks are learned from."""
    return Learning(heat=own.heat.rule(), tiers=own.heat.tiers(), beliefs=own.pulls.beliefs())


def means_for(
    tenant: TenantId,
    *,
    own: Settings,
    backend: Backend,
    connectors: Connectors,
    caps: Callable[[], Awaitable[tuple[Cap, ...]]],
    reset: ResetRule,
) -> Callable[[Clock], Awaitable[Means]]:
    """Return what says, when asked, what a tenant has left and how fast vendors may be called."""
    store = backend.tenant(tenant)
    on = [name for name in PAID if not connectors.why_off(name, tenant)]

    async def means(clock: Clock) -> Means:
        return await means_of(
            store,
            await caps(),
            shared=backend.shared(),
            own=own,
            connectors=on,
            reset=reset,
            clock=clock,
        )

    return means


async def means_of(
    store: Store,
    caps: Sequence[Cap],
    *,
    shared: SharedStore,
    own: Settings,
    connectors: Sequence[str],
    reset: ResetRule,
    clock: Clock,
) -> Means:
    """Return what is left of a tenant's caps now, and how fast its vendors may be called.

    Of caps it shares, what others have left of them; who they are and what they took is not told.
    With it comes what its latest nights took of its vendors.
    """
    now = clock.now()
    changes = {**await shared.cap_changes(), **await store.money.cap_changes()}
    used: dict[tuple[str, str], Used] = {
        (each.cap, each.window): each.used
        for each in (*await shared.usage(), *await store.money.usage())
    }

    def left(names: Sequence[str], among: Iterable[Cap]) -> dict[str, dict[str, int]]:
        return left_of(names, among, changes, used, reset=reset, now=now)

    rooms, nights = {"crawl": Room()}, await latest_nights(store)
    for name, free in left(connectors, caps).items():
        said = own.connector(name)
        per_minute = said.calls * said.share / said.per_s * 60
        took = taken(nights, name)
        rooms[name] = room(name, free=free, per_minute=per_minute, took=took)
    of_all, of_looks = left([""], caps)[""], left(["crawl"], (cap for cap in caps if cap.connector))
    return Means(
        tenant_units=of_all.get("pull_units", PLENTY),
        connector_units=of_looks["crawl"].get("pull_units", PLENTY),
        rooms=rooms,
    )
