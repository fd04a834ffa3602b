"""Build a tenant's touch service and its delivery channel from settings."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.accounts.model import CompanyRecord
from stoker.accounts.store import AccountStore
from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError, StokerError, TransientError
from stoker.base.events import Observer
from stoker.base.types import TenantId, parse_tenant_id
from stoker.context import TenantStores
from stoker.files.durable import Disk, FileLock
from stoker.nightly.setup import open_crm
from stoker.runs.leases import LeaseHolder
from stoker.touches.channels import FileChannel, Webhook
from stoker.touches.delivery import Channel, CrmChannel, DeliveryResult, WebhookChannel, deliver_due
from stoker.touches.profiles import ParsedProfiles, compute_appeals, leads_to_profiles
from stoker.touches.service import ReadAppeals, TouchService
from stoker.touches.settings import PlanRule
from stoker.touches.state_file import TouchStateFile
from stoker.touches.sync_api import Scheduler

if TYPE_CHECKING:
    from stoker.connectors import VendorFactory
    from stoker.settings import Settings

RECORD_PAGE_SIZE = 200

LEASE_LENGTH = timedelta(seconds=30)

_ResultT = TypeVar("_ResultT")


def build_touch_service(
    store: TenantStores,
    *,
    own: Settings,
    clock: Clock,
    directory: Path,
    report: Callable[[str], None],
) -> TouchService:
    """Return a tenant's touches: in its store, or in the one file its settings name."""
    section = own.touches
    touches = store.touches
    appeals: ReadAppeals | None = partial(read_lead_appeals, store, least=own.score.min_export)
    if section.state == "file":
        appeals = None  # there is no store that would know leads
        touches = TouchStateFile(
            directory / section.state_file, tenant=store.tenant, now=clock.now, report=report
        )
    return TouchService(
        touches,
        rule=section,
        zone=own.scheduling.timezone,
        clock=clock,
        tenant=store.tenant,
        appeals=appeals,
    )


def scheduler_in_file(
    path: Path,
    *,
    zone: str,
    report: Callable[[str], None],
    rule: PlanRule | None = None,
    tenant: str = "default",
    clock: Clock | None = None,
) -> Scheduler:
    """Return touches for a script that has no store: everything is in this one file."""
    used_clock, name = clock or SystemClock(), parse_tenant_id(tenant)
    file = TouchStateFile(path, tenant=name, now=used_clock.now, report=report)
    return Scheduler(
        TouchService(file, rule=rule or PlanRule(), zone=zone, clock=used_clock, tenant=name)
    )


def find_missing_settings(own: Settings) -> str:
    """Say which settings a tenant's way for touches lacks; empty when it has all it needs.

    An Odoo that the tenant named itself stands in the store and is not asked for here.
    """
    section = own.touches
    if section.way == "webhook":
        needs = {"touches.webhook_url": section.webhook_url, "keys.webhook": own.keys.webhook}
        missing = [name for name, value in needs.items() if value is None]
        return f"touches.way is webhook; set {' and '.join(missing)} too" if missing else ""
    if section.way == "odoo" and own.keys.odoo is None:
        return "touches.way is odoo; set keys.odoo too"
    return ""


async def open_channel(
    store: TenantStores, *, own: Settings, connectors: VendorFactory, directory: Path
) -> Channel:
    """Return the way a tenant's touches leave. Raises ConfigError when a setting is missing."""
    section, tenant = own.touches, store.tenant
    if section.way == "file":
        return FileChannel(directory / section.file, tenant=tenant)
    if section.way == "odoo":
        crm = open_crm(connectors, tenant, await store.accounts.find_connection())
        return CrmChannel(crm, tenant=tenant, user=section.odoo_user or "")
    return WebhookChannel(_open_webhook(own, connectors, tenant), tenant=tenant)


async def run_delivery(
    store: TenantStores,
    touching: TouchService,
    way: Channel,
    *,
    own: Settings,
    directory: Path,
    owner: str,
    observer: Observer,
    limit: int | None = None,
    dry: bool = False,
) -> DeliveryResult:
    """Hand over what is due, one process at a time. Raises TransientError while another does."""
    work = deliver_due(touching, way, chance=random.random, limit=limit, dry=dry)
    if own.touches.state == "file":
        return await _run_with_file_lock(directory / own.touches.state_file, work)
    return await _run_with_lease(store, work, owner=owner, clock=touching.clock, observer=observer)


async def _run_with_lease(
    store: TenantStores,
    work: Coroutine[Any, Any, _ResultT],
    *,
    owner: str,
    clock: Clock,
    observer: Observer,
) -> _ResultT:
    holder = LeaseHolder(owner=owner, clock=clock, observer=observer, length=LEASE_LENGTH)
    lease = await holder.acquire(store, "touches", task="touches")
    if lease is None:
        work.close()
        raise _build_busy_error(f"{store.tenant}'s touches")
    return await holder.run_while_held(store, lease, work)


async def _run_with_file_lock(path: Path, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    # The operating system ends this turn with the process, so no lease has to run out.
    turn = FileLock(path.with_name(f".{path.name}.run.lock"), patience=timedelta(0))
    with ExitStack() as held:
        try:
            Disk().make_folder(path.parent)
            held.enter_context(turn.acquire())
        except StokerError as error:
            work.close()
            if error.__cause__ is None:
                raise _build_busy_error(f"the touches in {path.name}") from error
            raise
        return await work


def _build_busy_error(what: str) -> TransientError:
    return TransientError(f"another process hands {what} over; nothing was done, try again")


async def read_leads_as_profiles(accounts: AccountStore, *, least: float) -> ParsedProfiles:
    """Return a tenant's leads as profiles, those scored at least so much."""
    return leads_to_profiles([each async for each in _read_leads(accounts, least=least)])


async def read_lead_appeals(store: TenantStores, *, least: float) -> dict[str, float]:
    """Return the appeal of a tenant's leads by now, by their addresses."""
    leads = [each async for each in _read_leads(store.accounts, least=least)]
    heats = {}
    for lead in leads:
        if (heat := await store.attention.find_heat(lead.company.id)) is not None:
            heats[lead.company.id] = heat.score
    return compute_appeals(leads, heats)


async def _read_leads(accounts: AccountStore, *, least: float) -> AsyncIterator[CompanyRecord]:
    after = ""
    while page := await accounts.list_company_records(
        after=after, limit=RECORD_PAGE_SIZE, least=least
    ):
        after = page[-1].company.id
        for record in page:
            yield record


def _open_webhook(own: Settings, connectors: VendorFactory, tenant: TenantId) -> Webhook:
    url, secret = own.touches.webhook_url, own.keys.webhook
    if url is None or secret is None:
        raise ConfigError(f"{tenant}: {find_missing_settings(own)}")
    return Webhook(connectors.http(), url=url, secret=secret.reveal())
