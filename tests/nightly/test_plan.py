"""A night's plan: who is in it, who waits and until when, and why there is nobody."""

from datetime import UTC, datetime, time

import pytest

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import Company, CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError
from stoker.base.types import Depth, TenantId
from stoker.budgets.windows import ResetRule
from stoker.enrichment.model import KIND
from stoker.nightly.plan import Capacity, NightlyOptions, NightlyPlanner
from stoker.runs.model import RunKey
from stoker.runs.service import RunHandle
from stoker.testing import EventRecorder, FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ANYBODY = IcpRule(industries=(), employees=(0, 10_000), years=(1900, 2100))
NOBODY = IcpRule(industries=(), employees=(0, 10_000), years=(1900, 1901))
FROM_SIX = ResetRule(zone="Asia/Singapore", at=time(6, 0))
TOMORROW_AT_SIX = datetime(2030, 1, 1, 22, tzinfo=UTC)


async def planned(*, known=3, rule=ANYBODY, pull_units=1000, **order):
    """Plan a night for a tenant that knows so many companies, nothing of any of them."""

    backend, clock = MemoryBackend(), FakeClock(NOON)
    store = backend.tenant(TenantId("acme"))
    there = [
        Company(id=CompanyId(f"c{number}"), name=f"Company {number}", year=2020)
        for number in range(known)
    ]
    await store.accounts.upsert_companies(there, now=NOON)
    if rule is not None:
        await store.accounts.save_rule(rule)

    async def means(_run=""):
        return Capacity(tenant_units=pull_units)

    planning = NightlyPlanner(
        NightlyOptions(reset=FROM_SIX, **order), registry=backend.registry(), read_capacity=means
    )
    run = RunHandle(
        key=RunKey(NOON, 1), kind=KIND, store=store, clock=clock, observer=EventRecorder()
    )
    return await planning.plan(run)


async def test_whoever_no_pull_units_are_left_for_waits_until_the_tenants_next_day():
    plan = await planned(known=3, pull_units=4)
    assert [unit.depth for unit in plan.items] == [Depth.DEEP, Depth.SHALLOW]
    assert (plan.over_budget, plan.cap_resets_at) == (1, TOMORROW_AT_SIX)


@pytest.mark.parametrize("order", [{}, {"max_companies": 2}, {"limit": 1}])
async def test_a_night_that_can_pay_for_everybody_it_has_a_place_for_waits_for_nothing(order):
    plan = await planned(known=3, **order)
    assert plan.over_cap == 3 - len(plan.items)
    assert (plan.over_budget, plan.cap_resets_at) == (0, None)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, ""),
        ({"known": 0}, "stoker registry import"),
        ({"rule": NOBODY}, "no company matches ICP 'default'; see it with: stoker icp show"),
        ({"limit": 0}, "the limit is 0"),
    ],
)
async def test_a_night_without_anybody_to_look_at_says_why_and_what_to_do(how, why):
    plan = await planned(**how)
    assert why in plan.empty_reason
    assert bool(plan.empty_reason) is not bool(plan.items)


async def test_without_a_rule_there_is_no_plan_and_one_is_told_how_to_set_it():
    with pytest.raises(ConfigError, match="stoker icp set"):
        await planned(rule=None)
