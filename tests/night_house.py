"""A whole installation for nights: settings, a store, the make-believe internet, a register."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from itertools import islice

from stoker.accounts.icp import IcpRule
from stoker.app import open_app, read_settings, system_clock
from stoker.base.types import TenantId
from stoker.budgets.caps import CapChange
from stoker.enrichment.runner import run_now
from stoker.heat.service import build_heat_sweep
from stoker.http.client import Request as HttpRequest
from stoker.http.client import build_http_client
from stoker.nightly.setup import build_nightly_run
from stoker.pulls.service import build_pull_run
from stoker.registry.model import Entity, Load
from stoker.sandbox.server import Sandbox
from stoker.sandbox.sites.layout import build_layout
from stoker.sandbox.world.site_faults import SiteFault
from stoker.testing import EventRecorder

ACME, BOLT = TenantId("acme"), TenantId("bolt")
ANYBODY = IcpRule(industries=(), employees=(0, 10_000), years=(1900, 2100))
PLENTY = 1_000_000
VENDORS = ("tavily", "openai", "lusha", "zerobounce")
RATES = "\n".join(f"[{name}]\ncalls = 100000\nburst = 1000\n" for name in (*VENDORS, "odoo"))
SETTINGS = f"""
storage.backend = "{{backend}}"
sandbox.address = "{{address}}"
crawl.gap_s = 0.001
crawl.timeout_s = 2
scheduling.company_concurrency = {{at_once}}
caps.pull_units_per_day = {PLENTY}
caps.money_per_day_minor = {PLENTY}
caps.openai_daily_tokens = {PLENTY * 100}
{{more}}
{RATES}
[tenants.acme]
[tenants.bolt]
"""


def entity_of(company) -> Entity:
    """A company of the make-believe world, as the register knows it."""
    return Entity(
        uen=company.uen,
        name=company.name,
        kind="Local Company",
        status=company.status,
        live=True,
        registered_on=company.incorporated,
        ssic=company.ssic,
        postal_code=company.postal_code,
        digest=f"{company.index:032x}",
    )


async def register(app, entities, *, release="2025-12-31"):
    """Put entities into the register as a load does."""
    now = app.clock.now()
    load = Load(id=f"load {release}", release=release, part="A", source="a test", began_at=now)
    registry = app.backend.registry()
    await registry.begin_load(load)
    await registry.load_entities(load, entities, now=now)
    await registry.end_load(load, now=now)


class Days:
    """The session's clock, as many days ahead as a test sets."""

    def __init__(self):
        self._clock, self.proceed = system_clock(), timedelta(0)

    def now(self):
        return self._clock.now() + self.proceed

    def elapsed(self):
        return self._clock.elapsed()

    async def sleep(self, duration):
        await self._clock.sleep(duration)


class House:
    """What a test has in hand: the sandbox, the app, what was told."""

    def __init__(self, box, app, told):
        self.box, self.app, self.told = box, app, told

    async def night(self, tenant=ACME, **how):
        """Carry out a tenant's night as a person would, and return its run."""
        return await run_now(
            self.app.for_tenant(tenant), build_nightly_run(self.app.for_tenant(tenant), **how)
        )

    async def nights(self, *tenants, **how):
        return await asyncio.gather(*(self.night(tenant, **how) for tenant in tenants))

    async def plan(self, tenant=ACME, **how):
        """Return the plan of such a run, which changes nothing."""
        run = build_nightly_run(self.app.for_tenant(tenant), **how)
        return await run.plan(self.store(tenant), clock=self.app.clock, observer=self.told)

    async def limit(self, cap, limit, tenant=ACME):
        now = self.app.clock.now()
        await self.store(tenant).budgets.change_cap(CapChange(cap=cap, limit=limit), now=now)

    async def records(self, tenant=ACME):
        return await self.store(tenant).accounts.list_company_records(limit=1000)

    async def sweep(self):
        return await build_heat_sweep(self.app.for_tenant(ACME)).recompute(
            self.store(), clock=self.app.clock
        )

    async def pull(self):
        """Carry out the tenant's pulls, and return the run."""
        return await run_now(self.app.for_tenant(ACME), build_pull_run(self.app.for_tenant(ACME)))

    def store(self, tenant=ACME):
        return self.app.backend.tenant(tenant)

    async def units(self, run, tenant=ACME):
        return await self.store(tenant).work_items.list_items(run.name)

    def charged(self):
        return {vendor: dict(said) for vendor, said in self.box.charges.items()}


class Crm:
    """The tenant's database, looked at from the server's side and edited by a colleague."""

    def __init__(self, here, tenant):
        self._house, self._tenant = here, tenant

    async def ask(self, model, method, **arguments):
        reply = await self._house.app.get(build_http_client).send(
            HttpRequest(
                method="POST",
                url=f"http://odoo.test/json/2/{model}/{method}",
                headers={
                    "content-type": "application/json",
                    "Authorization": f"bearer odoo-{self._tenant}-human-mei",
                    "X-Odoo-Database": self._tenant,
                },
                body=json.dumps(arguments).encode(),
                deadline=timedelta(seconds=5),
            )
        )
        return json.loads(reply.body)

    async def records(self, model="res.partner", *, archived=False):
        context = {"active_test": not archived}
        found = await self.ask(model, "search_read", domain=[], context=context)
        ids = [each["id"] for each in found]
        named = await self.ask(model, "get_external_id", ids=ids)
        by_id = {named[str(each["id"])]: each for each in found}
        assert len(by_id) == len(found), "a record is there twice"
        return by_id


def text_for(box, *, backend="memory", at_once=8, more=""):
    return SETTINGS.format(backend=backend, address=box.address, at_once=at_once, more=more)


def chosen(world, number, troubles):
    """The first so many companies of the world; without troubles, those whose sites are fine."""
    everybody = map(world.get_company, range(world.size))
    quick = (each for each in everybody if not build_layout(world, each).crawl_delay)
    wanted = (each for each in quick if troubles or each.trouble is SiteFault.FINE)
    return list(islice(wanted, number))


@asynccontextmanager
async def house(
    tmp_path,
    *,
    companies=12,
    seed=1,
    dials=None,
    clock=None,
    box=None,
    troubles=True,
    ruled=(ACME, BOLT),
    environment=None,
    picked=None,
    **how,
):
    """Open an installation whose register has so many companies of the world, or those picked."""
    async with AsyncExitStack() as stack:
        if box is None:
            turned = {"zerobounce.calls": PLENTY, **(dials or {})}
            box = await stack.enter_async_context(Sandbox(companies=1000, seed=seed, dials=turned))
        (tmp_path / "stoker.toml").write_text(text_for(box, **how))
        own = read_settings(
            directory=tmp_path, config=None, flags={}, environment=environment or {}
        )
        told = EventRecorder()
        app = await stack.enter_async_context(open_app(own, observer=told, clock=clock))
        if not await app.backend.registry().list_loads():
            listed = picked or chosen(box.world, companies, troubles)
            await register(app, [entity_of(each) for each in listed])
        for tenant in ruled:
            await app.backend.tenant(tenant).accounts.save_rule(ANYBODY)
        yield House(box, app, told)
