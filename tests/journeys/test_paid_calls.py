"""Two tenants pay one vendor through everything that is built from settings, and caps hold.

The vendor keeps its own count and does not always tell the truth; its count is the judge.
"""

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

import pg
from metered_vendor import LYING, MeteredVendor, Mood, buy
from stoker.app import open_app, read_settings
from stoker.base.errors import StokerError
from stoker.base.events import OutcomeUncertain, Overrun
from stoker.base.types import TenantId
from stoker.budgets.caps import CapChange
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.reservations import OPEN_STATUSES
from stoker.budgets.service import SettledCall, build_budget
from stoker.budgets.verify import find_shared_mismatches, verify_ledger, verify_operator_ledger
from stoker.rate_limits.limiter import build_call_limiter, build_vendor_limits
from stoker.testing import EventRecorder

ACME, BOLT = TenantId("acme"), TenantId("bolt")
OWN, SHARED = "tenant_connector/lusha/credits/day", "connector/lusha/credits/day"
OWN_LIMIT, SHARED_LIMIT = 12, 20
SETTINGS = """
[lusha]
calls = 100000
burst = 1000
concurrency = 3
[tenants.acme]
[tenants.bolt]
"""


@pytest.fixture(params=["sqlite", "postgres"])
def own(request, tmp_path):
    """The settings of an installation with a store of this kind, made and empty."""
    (tmp_path / "stoker.toml").write_text(f'storage.backend = "{request.param}"\n{SETTINGS}')
    environment = {}
    if request.param == "postgres":
        _, app_url = pg.fresh_database(request.getfixturevalue("postgres"))
        environment["STOKER_STORAGE_POSTGRES_URL"] = app_url
    return read_settings(directory=tmp_path, config=None, flags={}, environment=environment)


async def pay(app, tenant, key, port):
    """Buy once, as any part of the product does; what went wrong comes back as it was raised."""
    request = SpendRequest(key=f"{tenant}/{key}", connector="lusha", amounts={"credits": 1})
    gate, passages = (
        await app.for_tenant(tenant).open(build_budget),
        app.for_tenant(tenant).get(build_call_limiter),
    )

    async def step():
        return await buy(port, key=request.key, patience=0.3)

    try:
        return await gate.spend(request, step, slot=passages.acquire_slot("lusha", 1))
    except StokerError as error:
        return error


async def crowd(workers, port, *, keys):
    """Let every worker buy for both tenants at once, some of the same keys."""
    wanted = [(app, tenant, key) for app in workers for tenant in (ACME, BOLT) for key in keys]
    random.Random(7).shuffle(wanted)
    return await asyncio.gather(*(pay(app, tenant, key, port) for app, tenant, key in wanted))


async def limited(app, *, own=OWN_LIMIT):
    now = app.clock.now()
    for tenant in (ACME, BOLT):
        change = CapChange(cap=OWN, limit=own)
        await app.backend.tenant(tenant).budgets.change_cap(change, now=now)
    await app.backend.shared().change_cap(CapChange(cap=SHARED, limit=SHARED_LIMIT), now=now)


def charged(vendor, tenant):
    return sum(count for key, count in vendor.till.by_key.items() if key.startswith(f"{tenant}/"))


async def sound(app):
    """Everything adds up, by the ledgers alone."""
    verdicts = [await verify_ledger(app.backend.tenant(tenant)) for tenant in (ACME, BOLT)]
    orders = await verify_operator_ledger(app.backend.shared())
    problems = [problem for verdict in (*verdicts, orders) for problem in verdict.problems]
    return problems + await find_shared_mismatches(app.backend.shared(), verdicts)


async def run(own, journey):
    told = EventRecorder()
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(open_app(own, observer=told)) for _ in range(2)]
        return await journey(workers, told)


async def test_two_tenants_and_two_workers_never_spend_more_than_their_caps(own):
    with MeteredVendor(price=1, knows_keys=False, moods=LYING, seed=3) as vendor:

        async def journey(workers, told):
            await limited(workers[0])
            answers = await crowd(workers, vendor.port, keys=range(25))
            holds = [
                hold
                for tenant in (ACME, BOLT)
                for hold in await workers[0]
                .backend.tenant(tenant)
                .budgets.list_reservations(phases=list(OPEN_STATUSES))
            ]
            return answers, holds, await sound(workers[1]), told

        answers, unsure, problems, told = await run(own, journey)

    for tenant in (ACME, BOLT):
        assert charged(vendor, tenant) <= OWN_LIMIT
    assert vendor.till.charged <= SHARED_LIMIT
    assert max(vendor.till.by_key.values()) == 1  # no key was paid for twice
    refused = {answer.reason for answer in answers if isinstance(answer, Refusal)}
    assert refused <= {"CAP_CONNECTOR_DAY", "CAP_SHARED_DAY"}
    assert refused
    assert {hold.key for hold in unsure} == {event.key for event in told.of_type(OutcomeUncertain)}
    assert problems == []


async def test_a_cap_added_and_a_stop_bind_gates_that_are_already_open(own):
    with MeteredVendor(price=1, knows_keys=False) as vendor:

        async def journey(workers, told):
            one, other = workers
            await limited(one, own=1000)
            assert isinstance(await pay(one, ACME, "before", vendor.port), SettledCall)
            hourly = "tenant_connector/lusha/credits/hour"
            change = CapChange(cap=hourly, limit=2)
            await other.backend.tenant(ACME).budgets.change_cap(change, now=other.clock.now())
            answers = [await pay(one, ACME, f"k{number}", vendor.port) for number in range(3)]
            assert [type(answer) for answer in answers] == [SettledCall, SettledCall, Refusal]
            assert (answers[2].cap, answers[2].used) == (hourly, 2)
            assert isinstance(await pay(one, BOLT, "free", vendor.port), SettledCall)
            now = other.clock.now()
            await other.backend.shared().stop("lusha", reason="the bill", now=now)
            for app in workers:
                refused = await pay(app, BOLT, "stopped", vendor.port)
                assert (refused.reason, "the bill" in refused.message) == ("STOPPED", True)
            await other.backend.shared().resume("lusha", now=other.clock.now())
            assert isinstance(await pay(one, BOLT, "stopped", vendor.port), SettledCall)
            return await sound(one)

        assert await run(own, journey) == []


async def test_an_overcharge_is_reported_and_binds_the_next_reservation(own):
    with MeteredVendor(price=1, knows_keys=False, moods={Mood.DEARER: 1}) as vendor:

        async def journey(workers, told):
            await limited(workers[0], own=4)
            answers = [await pay(workers[0], ACME, number, vendor.port) for number in range(4)]
            return answers, told.of_type(Overrun)

        answers, overruns = await run(own, journey)

    assert [type(answer) for answer in answers] == [SettledCall, SettledCall, Refusal, Refusal]
    assert [event.over for event in overruns] == ["1 credits", "1 credits"]


async def test_a_vendors_request_to_wait_binds_every_worker(own):
    async def journey(workers, told):
        one, other = workers
        until = one.clock.now() + timedelta(seconds=0.4)
        await one.for_tenant(ACME).get(build_call_limiter).delay_until("lusha", until)
        async with other.for_tenant(BOLT).get(build_call_limiter).acquire_slot("lusha"):
            return other.clock.now() >= until

    assert await run(own, journey)


async def test_an_app_has_one_gate_per_tenant_and_one_limiter_per_vendor_key(own):
    async def journey(workers, told):
        app = workers[0]
        assert await app.for_tenant(ACME).open(build_budget) is await app.for_tenant(ACME).open(
            build_budget
        )
        assert await app.for_tenant(ACME).open(build_budget) is not await app.for_tenant(BOLT).open(
            build_budget
        )
        assert (
            app.get(build_vendor_limits).get_limiter("lusha", tenant=ACME).rate
            is app.get(build_vendor_limits).get_limiter("lusha", tenant=BOLT).rate
        )
        assert app.owner != workers[1].owner
        return app

    app = await run(own, journey)
    with pytest.raises(StokerError, match="closing"):
        await app.for_tenant(ACME).open(build_budget)
