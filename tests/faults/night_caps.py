"""Nights of three tenants that meet every cap at once, and what vendors charged all the same."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from faults.night_trials import (
    PLENTY,
    VENDORS,
    charged,
    dials,
    settings_text,
    some_companies,
)
from faults.tally import Tally
from kit.wrapped import Wrapped, wrap_store
from night_house import ANYBODY, entity_of, register
from running_box import RunningBox
from stoker.app import open_app, read_settings
from stoker.base.types import TenantId
from stoker.enrichment.runner import run_now
from stoker.nightly.setup import build_nightly_run
from watched_box import RETICENT

TENANTS = tuple(map(TenantId, ("acme", "bolt", "crow")))
CAPS = {
    "tavily_queries": 18,
    "lusha_credits": 5,
    "zerobounce_verifications": 9,
    "openai_daily_tokens": 14_000,
}
LIMITS = {
    ("tavily", "credits"): 18,
    ("lusha", "credits"): 5,
    ("zerobounce", "credits"): 9,
    ("openai", "tokens"): 14_000,
}
"""What each vendor may have charged a tenant's key at most, in the vendor's own units."""


class _Hasty(Wrapped):
    """The naive twin: reads what was spent, spends if there is room, and counts it then."""

    async def reserve(self, request, *, caps, **how):
        spent = {each.cap: each.used.settled for each in await self._inner.list_usage()}
        full = any(
            spent.get(cap.id, 0) + request.amounts.get(cap.unit, 0) > cap.limit
            for cap in caps
            if cap.connector in ("", request.connector)
        )
        given = caps if full else [replace(cap, limit=PLENTY) for cap in caps]
        return await self._inner.reserve(request, caps=given, **how)


def capped(room: Path, *, rounds: int, companies: int = 24, hasty: bool = False) -> Tally:
    """Have nights of three tenants, eight companies at once; tally what was charged above a cap.

    `acked` is how many caps of a tenant refused a call: without that, a zero says nothing.
    """
    tally = Tally()
    with RunningBox(companies=50 * companies, seed=3, dials=dials(), vendors=RETICENT) as box:
        for nth in range(rounds):
            where = room / f"caps-{nth}"
            where.mkdir(parents=True)
            names = {tenant: f"{tenant}-{nth}" for tenant in TENANTS}
            text = settings_text(box.box.address, names, at_once=8, caps=CAPS)
            (where / "stoker.toml").write_text(text)
            tally.acked += asyncio.run(_had(where, box.world, companies, hasty=hasty))
            for tenant, word in names.items():
                tally.n += 1
                for (vendor, unit), most in LIMITS.items():
                    used = charged(box, vendor, word).get(unit, 0)
                    if used > most:
                        tally.broken.append(f"{tenant} used {used} {unit} of {most} at {vendor}")
    return tally


async def _had(where, world, companies, *, hasty):
    """Have the tenants' nights at once; return how many of their caps refused a call."""
    own = read_settings(directory=where, config=None, flags={}, environment={})
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(own, observer=lambda _: None))
        if hasty:
            app = replace(app, backend=wrap_store("budgets", _Hasty)(app.backend))
        await register(app, list(map(entity_of, some_companies(world, companies))))
        for tenant in TENANTS:
            await app.backend.tenant(tenant).accounts.save_rule(ANYBODY)
        runs = await asyncio.gather(
            *(
                run_now(app.for_tenant(tenant), build_nightly_run(app.for_tenant(tenant)))
                for tenant in TENANTS
            )
        )
        return sum(
            any(f"{vendor} was not called" in reason for reason in run.manifest.reasons)
            for run in runs
            for vendor in VENDORS
        )
