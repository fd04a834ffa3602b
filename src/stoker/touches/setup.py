"""Build a tenant's touches from its settings: service, channel, imports, checks of `doctor`."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.accounts.model import CompanyRecord
from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError, StokerError, TransientError
from stoker.base.formats import format_count
from stoker.base.types import TenantId, parse_tenant_id
from stoker.calendar.timezones import get_zone
from stoker.context import TenantContext, TenantStores
from stoker.crm.odoo import open_crm
from stoker.db.database import Check
from stoker.files.durable import Disk, FileLock
from stoker.http.client import build_http_client
from stoker.runs.leases import LEASE_LENGTH, LeaseHolder
from stoker.touches.delivery import (
    Channel,
    CrmChannel,
    DeliveryResult,
    FileChannel,
    WebhookChannel,
    deliver_due,
)
from stoker.touches.model import Touch, WeeklyPlan
from stoker.touches.profiles import (
    ParsedProfiles,
    compute_appeals,
    fetch_profiles,
    leads_to_profiles,
    read_profiles_file,
)
from stoker.touches.queue import get_local_day, get_monday
from stoker.touches.service import ReadAppeals, ReadProfiles, TouchService, TouchStatus
from stoker.touches.settings import PlanRule
from stoker.touches.state_file import StateFile
from stoker.touches.store import TouchStore

if TYPE_CHECKING:
    from stoker.settings import Settings

RECORD_PAGE_SIZE = 200

_ResultT = TypeVar("_ResultT")


def build_touch_service(tenant: TenantContext, *, report: Callable[[str], None]) -> TouchService:
    """Return a tenant's touches: in its store, or in the one file its settings name."""
    own, store, section = tenant.settings, tenant.store, tenant.settings.touches
    appeals: ReadAppeals | None
    if (file := find_state_file(tenant, report=report)) is not None:
        appeals = None  # there is no store that would know leads
        touches = TouchStore(file)
    else:
        appeals = partial(read_lead_appeals, store, min_score=own.score.min_export)
        touches = store.touches
    return TouchService(
        touches,
        rule=section,
        zone=own.scheduling.timezone,
        clock=tenant.clock,
        tenant=tenant.id,
        appeals=appeals,
        source=partial(_read_source, tenant, section.profiles, report)
        if section.profiles
        else None,
    )


def find_state_file(tenant: TenantContext, *, report: Callable[[str], None]) -> StateFile | None:
    """Return the file a tenant's touches are in, None if they are in its store."""
    section = tenant.settings.touches
    if section.state != "file":
        return None
    path = tenant.settings.directory / section.state_file
    zone = tenant.settings.scheduling.timezone
    return StateFile(path, tenant=tenant.id, now=tenant.clock.now, report=report, zone=zone)


class Scheduler:
    """One tenant's touches for a script, the names of `TouchService` as plain methods.

    Close it when done; not for code that runs in an event loop.
    """

    def __init__(self, service: TouchService) -> None:
        self._service = service
        self._runner = asyncio.Runner()

    def check_limits(self) -> tuple[bool, str]:
        """Return whether one more touch may be made now; if not, which counter is full."""
        return self._runner.run(self._service.check_limits())

    def consume(self, amount: int = 1) -> None:
        """Count touches that no plan knows of. One that is marked done counts by itself."""
        self._runner.run(self._service.consume(amount))

    def status(self) -> TouchStatus:
        """Return what is used of each limit, and whether this week has a plan."""
        return self._runner.run(self._service.status())

    def generate_weekly_plan(
        self, week: str | None = None, *, seed: int | None = None
    ) -> WeeklyPlan:
        """Plan a week, this one if none is named, and save it."""
        return self._runner.run(self._service.generate_weekly_plan(week, seed=seed))

    def get_todays_queue(self) -> list[Touch]:
        """Return today's pending touches in time order."""
        return self._runner.run(self._service.get_todays_queue())

    def mark_outcome(self, url: str, outcome: str) -> bool:
        """Record what came of a touch; False when that was known."""
        return self._runner.run(self._service.mark_outcome(url, outcome))

    def close(self) -> None:
        """Close the event loop. Closing twice is once."""
        self._runner.close()

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


RateLimiter = Scheduler  # the name that programs know which only check limits and count


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
    file = StateFile(path, tenant=name, now=used_clock.now, report=report, zone=zone)
    store = TouchStore(file)
    return Scheduler(
        TouchService(store, rule=rule or PlanRule(), zone=zone, clock=used_clock, tenant=name)
    )


def find_missing_settings(own: Settings) -> str:
    """Return which settings a tenant's channel lacks; empty when it has all it needs.

    An Odoo that the tenant connected itself is in the store and not asked for here.
    """
    section = own.touches
    if section.way == "webhook":
        needs = {"touches.webhook_url": section.webhook_url, "keys.webhook": own.keys.webhook}
        missing = [name for name, value in needs.items() if value is None]
        return f"touches.way is webhook; set {' and '.join(missing)} too" if missing else ""
    if section.way == "odoo" and own.get_value("keys.odoo") is None:
        return "touches.way is odoo; set keys.odoo too"
    return ""


async def open_channel(tenant: TenantContext) -> Channel:
    """Return the channel of a tenant's touches. Raises ConfigError when a setting is missing."""
    own, section = tenant.settings, tenant.settings.touches
    if section.way == "file":
        return FileChannel(own.directory / section.file, tenant=tenant.id)
    if section.way == "odoo":
        crm = open_crm(tenant, await tenant.store.setup.find_connection())
        return CrmChannel(crm, tenant=tenant.id, user=section.odoo_user or "")
    url, secret = section.webhook_url, own.keys.webhook
    if url is None or secret is None:
        raise ConfigError(f"{tenant.id}: {find_missing_settings(own)}")
    http = tenant.process.get(build_http_client)
    return WebhookChannel(http, tenant=tenant.id, url=url, secret=secret.reveal())


async def run_delivery(
    tenant: TenantContext,
    service: TouchService,
    channel: Channel,
    *,
    limit: int | None = None,
    dry: bool = False,
) -> DeliveryResult:
    """Deliver what is due, one process at a time. Raises TransientError while another does."""
    work = deliver_due(service, channel, chance=random.random, limit=limit, dry=dry)
    own, process = tenant.settings, tenant.process
    if own.touches.state == "file":
        return await _run_with_file_lock(own.directory / own.touches.state_file, work)
    holder = LeaseHolder(
        owner=process.owner, clock=service.clock, observer=process.observer, length=LEASE_LENGTH
    )
    lease = await holder.acquire(tenant.store, "touches", task="touches")
    if lease is None:
        work.close()
        raise _build_busy_error(f"{tenant.id}'s touches")
    return await holder.run_while_held(tenant.store, lease, work)


async def _run_with_file_lock(path: Path, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    # The operating system releases this lock with the process, so no lease has to expire.
    lock = FileLock(path.with_name(f".{path.name}.run.lock"), patience=timedelta(0))
    with ExitStack() as held:
        try:
            Disk().make_folder(path.parent)
            held.enter_context(lock.acquire())
        except StokerError as error:
            work.close()
            if error.__cause__ is None:
                raise _build_busy_error(f"the touches in {path.name}") from error
            raise
        return await work


def _build_busy_error(what: str) -> TransientError:
    return TransientError(f"another process delivers {what}; nothing was done, try again")


async def read_profiles(tenant: TenantContext, source: str | None) -> ParsedProfiles:
    """Return the profiles in a file, a sheet or (None) the tenant's leads.

    Without those of erased persons, which the store knows; with touches in a file there is none.
    """
    parsed = await _read_profiles(tenant, source)
    if tenant.settings.touches.state == "file":
        return parsed
    suppressed = await tenant.store.accounts.read_suppressions()
    kept = tuple(each for each in parsed.profiles if not suppressed.has_profile(each.url))
    return replace(parsed, profiles=kept)


def build_source(tenant: TenantContext, *, report: Callable[[str], None]) -> ReadProfiles | None:
    """Return what reads touches.profiles; None where the tenant names no list."""
    source = tenant.settings.touches.profiles
    return partial(_read_source, tenant, source, report) if source else None


async def _read_source(
    tenant: TenantContext, source: str, report: Callable[[str], None]
) -> ParsedProfiles | None:
    """Return the profiles of touches.profiles; report what is wrong, and plan without."""
    try:
        parsed = await read_profiles(tenant, source)
    except (ConfigError, TransientError) as error:
        report(f"touches.profiles was not read, known profiles are planned: {error}")
        return None
    if parsed.bad_rows:
        first = parsed.bad_rows[0]
        report(
            f"touches.profiles: {format_count(len(parsed.bad_rows), 'row')} rejected, "
            f"{first.where} because {first.reason}"
        )
    return parsed


async def _read_profiles(tenant: TenantContext, source: str | None) -> ParsedProfiles:
    own, now = tenant.settings, tenant.clock.now()
    if source is None:
        return leads_to_profiles(await _list_leads(tenant.store, min_score=own.score.min_export))
    zone = get_zone(own.scheduling.timezone)
    if source.lower().startswith(("https://", "http://")):
        return await fetch_profiles(
            tenant.process.get(build_http_client), source, zone=zone, now=now
        )
    return await read_profiles_file(own.directory / source, zone=zone, now=now)


async def read_lead_appeals(store: TenantStores, *, min_score: float) -> dict[str, float]:
    """Return the appeal of a tenant's leads by now, by their addresses."""
    leads = await _list_leads(store, min_score=min_score)
    heats = {}
    for lead in leads:
        if (heat := await store.heat.find_heat(lead.company.id)) is not None:
            heats[lead.company.id] = heat.score
    return compute_appeals(leads, heats)


async def _list_leads(store: TenantStores, *, min_score: float) -> list[CompanyRecord]:
    leads: list[CompanyRecord] = []
    while page := await store.accounts.list_company_records(
        after=leads[-1].company.id if leads else "", limit=RECORD_PAGE_SIZE, least=min_score
    ):
        leads += page
    return leads


def check_touches(settings: Settings, now: datetime) -> list[Check]:
    """Return one check for each active tenant: its rule, its channel, a state file of its own."""
    own = {tenant: settings.for_tenant(tenant) for tenant in settings.list_active_tenants()}
    sections = [each.touches for each in own.values()]
    files = Counter(each.state_file for each in sections if each.state == "file")
    shared = {file for file, tenants in files.items() if tenants > 1}
    return [_check_tenant(tenant, each, now, shared) for tenant, each in own.items()]


def _check_tenant(tenant: TenantId, own: Settings, now: datetime, shared: set[Path]) -> Check:
    from stoker.touches.planning.planner import compute_week_budgets

    what, section, zone = f"touches, {tenant}", own.touches, own.scheduling.timezone
    try:
        section.check()
    except ConfigError as error:
        return Check(what=what, ok=False, detail=str(error))
    if missing := find_missing_settings(own):
        return Check(what=what, ok=False, detail=missing)
    in_file = section.state == "file"
    if in_file and section.state_file in shared:
        return Check(
            what=what,
            ok=False,
            detail=f"another tenant keeps its touches in {section.state_file} too; give each a "
            "touches.state_file of its own",
        )
    _, notes = compute_week_budgets(
        get_monday(get_local_day(now, zone)), rule=section, seed=0, zone=zone
    )
    place = section.state_file if in_file else "the store"
    detail = f"{section.target} a week, delivered by {section.way}, kept in {place}"
    # What does not fit is planned as far as it does, and every plan has a note: no error.
    return Check(what=what, ok=True, detail="; ".join([detail, *(n.message for n in notes[-1:])]))
