"""A tenant's nights teach its quotes: the third night takes about what it was quoted."""

from datetime import timedelta

import pytest

from night_house import BOLT, Days, house
from stoker.budgets.caps import CapChange
from stoker.sandbox.server import Sandbox
from watched_box import RETICENT

A_NIGHT = 30


@pytest.mark.parametrize("reticent", [False, True])
async def test_after_two_nights_the_third_takes_about_what_it_was_quoted(tmp_path, reticent):
    clock, told = Days(), []
    vendors = {"vendors": RETICENT} if reticent else {}
    async with (
        Sandbox(companies=1000, dials={"zerobounce.calls": 1_000_000}, **vendors) as box,
        house(tmp_path, companies=100, box=box, clock=clock, backend="sqlite", at_once=30) as here,
    ):
        for _ in range(3):
            before = [(await here.plan(limit=A_NIGHT)).quote for _ in range(2)]
            told.append((before, await here.night(limit=A_NIGHT)))
            clock.proceed += timedelta(days=1)
        of_another = (await here.plan(BOLT, limit=A_NIGHT)).quote

    assert [quote.nights for (quote, _), _ in told] == [0, 1, 2]
    assert all(quote == again for (quote, again), _ in told)
    (quote, _), run = told[-1]
    assert run.manifest.counts["deep"] == A_NIGHT
    used = {name: amount for name, amount in run.manifest.cost.items() if amount}
    assert {"zerobounce/calls", "openai/tokens", "tavily/calls"} <= used.keys()
    for name, amount in used.items():
        assert abs(quote.cost[name] - amount) <= 0.25 * amount, (name, quote.cost[name], amount)
    assert of_another.nights == 0


def about(quote, run):
    """Say of what a night took far more or less than it was quoted."""
    return {
        name: (quote.cost.get(name, 0), amount)
        for name, amount in run.manifest.cost.items()
        if abs(quote.cost.get(name, 0) - amount) > max(0.25 * amount, 2)
    }


async def test_a_night_that_a_cap_had_cut_and_its_reruns_do_not_make_the_next_one_look_cheap(
    tmp_path,
):
    cap = "tenant_connector/openai/calls/day"

    async with house(tmp_path, companies=80, troubles=False) as here:
        await here.limit(cap, 12)
        cut = await here.night(limit=A_NIGHT)
        rest = await here.plan(limit=5)
        rerun = await here.night(limit=5)
        await here.limit(cap, 1000)
        everybody = await here.plan(again=True)
        told = await here.plan(limit=A_NIGHT, again=True)
        run = await here.night(limit=A_NIGHT, again=True)

    assert cut.manifest.cost["openai/calls"] == 12
    assert (rest.quote.calls["openai"], round(rest.quote.refused["openai"])) == (0, 5)
    assert not rerun.manifest.cost.get("openai/calls")
    assert told.quote.nights == 1
    # Of 80, 50 are new and 18 were refused; the other 12 were read.
    assert abs(everybody.quote.calls["openai"] - (50 + 18)) < 2
    assert run.manifest.cost["openai/calls"] == A_NIGHT
    assert about(told.quote, run) == {}


async def test_who_is_looked_at_again_is_quoted_next_to_nothing_and_new_ones_in_full(tmp_path):
    async with house(tmp_path, companies=60, troubles=False) as here:
        name = (await here.night(limit=20)).name
        quote = (await here.plan(limit=20)).quote
        second = await here.night(limit=20)
        same = await here.plan(from_run=name, again=True)
        run = await here.night(from_run=name, again=True)
        others = await here.plan(limit=20)

    assert about(quote, second) == {}
    assert run.manifest.counts["deep"] == same.deep == 20
    for name, amount in quote.cost.items():
        if name != "crawl/pull_units":
            # Only addresses that the first night left are verified now.
            share = 0.25 if name.startswith("zerobounce/") else 0.2
            assert same.quote.cost[name] <= share * amount + 1
    assert about(same.quote, run) == {}
    assert others.quote.cost["openai/calls"] >= 18


async def test_caps_that_tenants_share_and_the_tighter_of_two_are_in_the_quote(tmp_path):
    shared, wide, tight = (
        "connector/tavily/calls/day",
        "tenant_connector/openai/money:USD/day",
        "tenant/*/money:USD/day",
    )

    async with house(tmp_path, companies=30, troubles=False) as here:
        change, now = CapChange(cap=shared, limit=6), here.app.clock.now()
        await here.app.backend.shared().change_cap(change, now=now)
        await here.limit(wide, 100_000)
        await here.limit(tight, 1)
        before = (await here.plan(limit=10)).quote
        run = await here.night(limit=10)
        others = (await here.plan(BOLT, limit=10)).quote
    assert (before.calls["tavily"], before.refused["tavily"]) == (6, 8)  # of 1.4 a look
    assert (before.cost["openai/money:USD"], before.refused["openai"]) == (1, 9)
    assert run.manifest.cost["tavily/calls"] == 6
    assert run.manifest.cost["openai/money:USD"] <= 1
    assert (others.calls["tavily"], others.refused["tavily"]) == (0, 14)
