"""A tenant's nights teach its quotes: the third night takes about what it was quoted."""

import asyncio
from datetime import timedelta

import pytest

from night_house import ACME, BOLT, house
from stoker.engine.clock import SystemClock
from stoker.sandbox.box import Sandbox
from watched_box import RETICENT

A_NIGHT = 30


class Days(SystemClock):
    """The machine's clock, some days ahead."""

    ahead = timedelta(0)

    def now(self):
        return super().now() + self.ahead


async def quoted(here, tenant=ACME):
    night = here.app.night(tenant, limit=A_NIGHT)
    plan = await night.plan(here.store(tenant), clock=here.app.clock, observer=here.told)
    return plan.quote


@pytest.mark.parametrize("reticent", [False, True])
def test_after_two_nights_the_third_takes_about_what_it_was_quoted(tmp_path, reticent):
    async def scenario():
        clock = Days()
        vendors = {"vendors": RETICENT} if reticent else {}
        async with (
            Sandbox(companies=1000, dials={"zerobounce.calls": 1_000_000}, **vendors) as box,
            house(tmp_path, companies=100, box=box, clock=clock, backend="sqlite") as here,
        ):
            told = []
            for _ in range(3):
                before = [await quoted(here), await quoted(here)]
                run = await here.night(limit=A_NIGHT)
                told.append((before, run))
                clock.ahead += timedelta(days=1)
            return told, await quoted(here, BOLT)

    told, somebody_elses = asyncio.run(scenario())
    assert [quote.nights for (quote, _), _ in told] == [0, 1, 2]
    assert all(quote == again for (quote, again), _ in told)
    (quote, _), run = told[-1]
    assert run.manifest.counts["deep"] == A_NIGHT
    used = {name: amount for name, amount in run.manifest.cost.items() if amount}
    assert {"zerobounce/calls", "openai/tokens", "tavily/calls"} <= used.keys()
    for name, amount in used.items():
        assert abs(quote.cost[name] - amount) <= 0.25 * amount, (name, quote.cost[name], amount)
    assert somebody_elses.nights == 0
