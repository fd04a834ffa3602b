"""A tenant that asks the make-believe vendors through everything real: client, gate, turns."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from stoker.backends.sqlite import MemoryBackend
from stoker.base.clock import SystemClock
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.http.client import HttpClient
from stoker.rate_limits.limiter import CallLimiter, VendorLimit, VendorLimits
from stoker.rate_limits.rate_limit import Rate
from stoker.sandbox.http import Response
from stoker.sandbox.server import HANDLERS as VENDORS_THERE_ARE
from stoker.sandbox.server import Sandbox
from stoker.testing import EventRecorder
from stoker.vendors.client import VendorClient
from stoker.vendors.lusha import LushaPeople, LushaReveal, build_lusha_api
from stoker.vendors.tavily import TavilyPageReader, TavilySearch, build_tavily_api
from stoker.vendors.zerobounce import ZeroBounce

ACME = TenantId("acme")
CANARY = "canary-5c1d77"
KEY = f"tvly-{CANARY}"
VENDORS = ("tavily", "lusha", "zerobounce")
A_LOT = 1_000_000
LEASE = timedelta(seconds=60)


def caps_for(vendor: str, limit: int) -> list[Cap]:
    return [
        Cap(
            scope=Scope.TENANT_CONNECTOR,
            connector=vendor,
            unit=unit,
            window=WindowKind.DAY,
            limit=limit,
        )
        for unit in ("calls", "tokens" if vendor == "openai" else "credits")
    ]


class Quick(SystemClock):
    """The machine's clock, but nobody waits long: what would be slept is written down."""

    def __init__(self):
        super().__init__()
        self.slept = []

    async def sleep(self, duration):
        self.slept.append(duration)
        await super().sleep(min(duration, timedelta(milliseconds=1)))


class Failing:
    """A part of a store that fails when told to, before it does what it was asked; it counts."""

    def __init__(self, part, **fails):
        self._part, self._fails, self.asked = part, fails, Counter()

    def __getattr__(self, verb):
        self.asked[verb] += 1
        if self._fails.get(verb):
            raise self._fails[verb].pop(0)
        return getattr(self._part, verb)


class Desk:
    """One process of a tenant: its connectors, and its way of asking."""

    def __init__(
        self,
        box,
        http,
        backend,
        clock,
        *,
        limit=A_LOT,
        deadline=2.0,
        key=KEY,
        owner="one",
        capped=VENDORS,
        store=lambda real: real,
        tenant=ACME,
        traffic=None,
    ):
        self.box, self.http, self.backend, self.clock = box, http, backend, clock
        self.store = store(backend.tenant(tenant))
        self.told = EventRecorder()
        patience = timedelta(seconds=deadline)
        searching = build_tavily_api(
            http, key=key, base_url="http://tavily.test", deadline=patience
        )
        contacts = build_lusha_api(http, key=key, base_url="http://lusha.test", deadline=patience)
        self.search, self.reading = TavilySearch(searching), TavilyPageReader(searching)
        self.people, self.reveal = LushaPeople(contacts), LushaReveal(contacts)
        self.verifier = ZeroBounce(
            http, key=key, base_url="http://zerobounce.test", deadline=patience
        )
        self.budget = BudgetService(
            self.store.budgets,
            caps=[cap for vendor in capped for cap in caps_for(vendor, limit)],
            reset=ResetRule(),
            owner=owner,
            clock=clock,
            lease=LEASE,
            tenant=tenant,
            observer=self.told,
        )
        rate = Rate(calls=A_LOT, per=timedelta(seconds=1), burst=A_LOT // 2)
        self.vendor_limits = traffic or VendorLimits(
            lambda _: VendorLimit(rate=rate, concurrency=16), shared=None, owner=owner, clock=clock
        )
        self.get_limiter = CallLimiter(self.vendor_limits, tenant, clock=clock)
        self.get_vendor_client = VendorClient(
            self.store,
            budget=self.budget,
            limiter=self.get_limiter,
            clock=clock,
            observer=self.told,
            chance=random.Random(1).random,
        )

    def charged(self, vendor):
        return self.box.charges.get(vendor, {}).get("credits", 0)

    async def counted(self, vendor, unit="credits"):
        """What the store counts against the vendor's cap: settled, and promised."""
        named = f"tenant_connector/{vendor}/{unit}/day"
        usage = [each for each in await self.store.budgets.list_usage() if each.cap == named]
        return sum(each.used.settled for each in usage), sum(each.used.reserved for each in usage)


class Saying:
    """A vendor that always says the same, over a real connection; it keeps what it was asked."""

    def __init__(self, said, *, status=200, headers=None):
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        self._told = Response(status=status, headers=headers or {}, body=body)
        self.asked = []

    def __call__(self, asked):
        self.asked.append(asked)
        return self._told

    @property
    def bodies(self):
        return [json.loads(asked.body) for asked in self.asked]

    def everywhere(self):
        return {f"{vendor}.test": lambda *_: self for vendor in VENDORS}


@asynccontextmanager
async def desk(dials=None, *, says=None, backend=None, companies=200, **how) -> AsyncIterator[Desk]:
    """Open a desk; `says` is a vendor that stands in the place of every other."""
    async with AsyncExitStack() as stack:
        turned = {"zerobounce.calls": A_LOT, **(dials or {})}
        vendors = says.everywhere() if says else VENDORS_THERE_ARE
        box = await stack.enter_async_context(
            Sandbox(companies=companies, dials=turned, vendors=vendors)
        )
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        stack.push_async_callback(http.close)
        clock = how.pop("clock", None) or Quick()
        yield Desk(box, http, backend or MemoryBackend(), clock, **how)


async def at_desk(work, dials=None, **how):
    """Do something at a desk, and return what it returns."""

    async with desk(dials, **how) as here:
        return await work(here)
