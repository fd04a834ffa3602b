"""A tenant's touches put together from settings: where they are kept, and the way they leave."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.accounts.model import AccountStore, Dossier
from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError, StokerError, TransientError
from stoker.base.events import Observer
from stoker.base.types import TenantId, tenant_id
from stoker.context import Store
from stoker.files.durable import Disk, Turn
from stoker.nightly.setup import crm_at
from stoker.runs.leases import Leaseholder
from stoker.touches.deliver import ByCrm, ByWebhook, HandedOver, Way, hand_over
from stoker.touches.delivery import ByFile, Webhook
from stoker.touches.model import PlanRule
from stoker.touches.profiles import ProfilesRead, appeals_of, profiles_of
from stoker.touches.service import Appeals, Touching
from stoker.touches.state_file import TouchStateFile
from stoker.touches.sync_api import Scheduler

if TYPE_CHECKING:
    from stoker.connectors import Connectors
    from stoker.settings import Settings

DOSSIERS_A_PAGE = 200

LEASE_LENGTH = timedelta(seconds=30)

_Result = TypeVar("_Result")


def touching_for(
    store: Store, *, own: Settings, clock: Clock, directory: Path, report: Callable[[str], None]
) -> Touching:
    """Return a tenant's touches: in its store, or in the one file its settings name."""
    said = own.touches
    touches = store.touches
    appeals: Appeals | None = partial(lead_appeals, store, least=own.score.min_export)
    if said.state == "file":
        appeals = None  # there is no store that would know leads
        touches = TouchStateFile(
            directory / said.state_file, tenant=store.tenant, now=clock.now, report=report
        )
    return Touching(
        touches,
        rule=said.rule(),
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
    told, name = clock or SystemClock(), tenant_id(tenant)
    file = TouchStateFile(path, tenant=name, now=told.now, report=report)
    return Scheduler(Touching(file, rule=rule or PlanRule(), zone=zone, clock=told, tenant=name))


def why_none_leave(own: Settings) -> str:
    """Say which settings a tenant's way for touches lacks; empty when it has all it needs.

    An Odoo that the tenant named itself stands in the store and is not asked for here.
    """
    said = own.touches
    if said.way == "webhook":
        needs = {"touches.webhook_url": said.webhook_url, "keys.webhook": own.keys.webhook}
        missing = [name for name, value in needs.items() if value is None]
        return f"touches.way is webhook; set {' and '.join(missing)} too" if missing else ""
    if said.way == "odoo" and own.keys.odoo is None:
        return "touches.way is odoo; set keys.odoo too"
    return ""


async def way_for(store: Store, *, own: Settings, connectors: Connectors, directory: Path) -> Way:
    """Return the way a tenant's touches leave. Raises ConfigError when a setting is missing."""
    said, tenant = own.touches, store.tenant
    if said.way == "file":
        return ByFile(directory / said.file, tenant=tenant)
    if said.way == "odoo":
        crm = crm_at(connectors, tenant, await store.accounts.connection())
        return ByCrm(crm, tenant=tenant, user=said.odoo_user or "")
    return ByWebhook(_webhook(own, connectors, tenant), tenant=tenant)


async def handed_over(
    store: Store,
    touching: Touching,
    way: Way,
    *,
    own: Settings,
    directory: Path,
    owner: str,
    observer: Observer,
    limit: int | None = None,
    dry: bool = False,
) -> HandedOver:
    """Hand over what is due, one process at a time. Raises TransientError while another does."""
    work = hand_over(touching, way, chance=random.random, limit=limit, dry=dry)
    if own.touches.state == "file":
        return await _alone_with_file(directory / own.touches.state_file, work)
    return await _alone(store, work, owner=owner, clock=touching.clock, observer=observer)


async def _alone(
    store: Store,
    work: Coroutine[Any, Any, _Result],
    *,
    owner: str,
    clock: Clock,
    observer: Observer,
) -> _Result:
    holder = Leaseholder(owner=owner, clock=clock, observer=observer, length=LEASE_LENGTH)
    lease = await holder.take(store, "touches", task="touches")
    if lease is None:
        work.close()
        raise _another(f"{store.tenant}'s touches")
    try:
        return await holder.while_held(store, lease, work)
    finally:
        await holder.give_back(store, lease)


async def _alone_with_file(path: Path, work: Coroutine[Any, Any, _Result]) -> _Result:
    # The operating system ends this turn with the process, so no lease has to run out.
    turn = Turn(path.with_name(f".{path.name}.run.lock"), patience=timedelta(0))
    with ExitStack() as held:
        try:
            Disk().make_folder(path.parent)
            held.enter_context(turn.taken())
        except StokerError as error:
            work.close()
            if error.__cause__ is None:
                raise _another(f"the touches in {path.name}") from error
            raise
        return await work


def _another(what: str) -> TransientError:
    return TransientError(f"another process hands {what} over; nothing was done, try again")


async def leads_as_profiles(accounts: AccountStore, *, least: float) -> ProfilesRead:
    """Return a tenant's leads as profiles, those scored at least so much."""
    return profiles_of([each async for each in _dossiers(accounts, least=least)])


async def lead_appeals(store: Store, *, least: float) -> dict[str, float]:
    """Return the appeal of a tenant's leads by now, by their addresses."""
    leads = [each async for each in _dossiers(store.accounts, least=least)]
    heats = {}
    for lead in leads:
        if (heat := await store.attention.heat(lead.company.id)) is not None:
            heats[lead.company.id] = heat.score
    return appeals_of(leads, heats)


async def _dossiers(accounts: AccountStore, *, least: float) -> AsyncIterator[Dossier]:
    after = ""
    while page := await accounts.dossiers(after=after, limit=DOSSIERS_A_PAGE, least=least):
        after = page[-1].company.id
        for dossier in page:
            yield dossier


def _webhook(own: Settings, connectors: Connectors, tenant: TenantId) -> Webhook:
    url, secret = own.touches.webhook_url, own.keys.webhook
    if url is None or secret is None:
        raise ConfigError(f"{tenant}: {why_none_leave(own)}")
    return Webhook(connectors.http(), url=url, secret=secret.reveal())
