"""One process's traffic: the same pace, place and turnstile for whoever asks twice."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.rate_limits.limiter import CallLimiter, VendorLimit, VendorLimits
from stoker.rate_limits.rate_limit import LocalRateLimiter, Rate, SharedRateLimiter
from stoker.testing import FakeClock

ACME, BOLT = TenantId("acme"), TenantId("bolt")
SECOND = timedelta(seconds=1)
WAYS = {
    "lusha": VendorLimit(rate=Rate(calls=1, per=SECOND), concurrency=2),
    "odoo": VendorLimit(rate=Rate(calls=1, per=SECOND), concurrency=1, own_key=True),
    "fast": VendorLimit(rate=Rate(calls=1000, per=SECOND), concurrency=1),
}


def way(connector):
    if connector not in WAYS:
        raise ConfigError(f"there are no settings for connector {connector!r}")
    return WAYS[connector]


def traffic(clock, *, shared=None, weights=None, owner="me"):
    return VendorLimits(way, shared=shared, owner=owner, clock=clock, weights=weights)


@pytest.fixture(params=["alone", "shared"])
def going(request):
    """Traffic of a process alone, and of one that shares its keys; with its clock."""
    clock = FakeClock()
    shared = MemoryBackend().shared() if request.param == "shared" else None
    return traffic(clock, shared=shared), clock


def test_there_is_one_limiter_per_vendor_key(going):
    get = going[0].get_limiter
    assert get("lusha", tenant=ACME) is get("lusha", tenant=BOLT) is get("lusha")
    assert get("odoo", tenant=ACME) is get("odoo", tenant=ACME) is not get("odoo", tenant=BOLT)
    with pytest.raises(ConfigError, match="a key of its own; say whose"):
        get("odoo")


def test_only_processes_that_share_keys_ask_the_store():
    alone = traffic(FakeClock()).get_limiter("lusha")
    many = traffic(FakeClock(), shared=MemoryBackend().shared()).get_limiter("lusha")
    assert (type(alone.rate), type(many.rate)) == (LocalRateLimiter, SharedRateLimiter)
    assert (alone.slots is None, many.slots is None) == (True, False)


async def calls(ours, clock, tenant, connector, count, *, cost=1, sent=None):
    passages = CallLimiter(ours, tenant, clock=clock)
    times = []
    for _ in range(count):
        async with passages.acquire_slot(connector, cost):
            times.append(clock.now())
            if sent is not None:
                sent.append(tenant)
    return times


async def test_tenants_with_one_key_share_its_rate_and_tenants_with_keys_of_their_own_do_not(going):
    ours, clock = going

    async def both(connector):
        a, b = await asyncio.gather(
            calls(ours, clock, ACME, connector, 4), calls(ours, clock, BOLT, connector, 4)
        )
        return sorted(a + b)

    times = await both("lusha")
    assert all(later - earlier >= SECOND for earlier, later in pairwise(times))
    own = await calls(ours, clock, ACME, "odoo", 4)
    assert own[-1] - own[0] >= 3 * SECOND


async def test_two_processes_that_share_a_key_keep_one_rate():
    clock, shared = FakeClock(), MemoryBackend().shared()
    one, two = (traffic(clock, shared=shared, owner=owner) for owner in ("one", "two"))

    found = await asyncio.gather(
        calls(one, clock, ACME, "lusha", 4), calls(two, clock, ACME, "lusha", 4)
    )
    times = sorted(found[0] + found[1])
    assert times[-1] - times[0] >= 7 * SECOND


async def test_two_processes_that_share_a_key_share_its_places():
    clock, shared = FakeClock(), MemoryBackend().shared()
    inside, most = set(), 0

    async def call(owner, ours):
        nonlocal most
        for _ in range(5):
            async with CallLimiter(ours, ACME, clock=clock).acquire_slot("fast"):
                inside.add(owner)
                most = max(most, len(inside))
                await asyncio.sleep(0.002)
                inside.discard(owner)

    crowd = {name: traffic(clock, shared=shared, owner=name) for name in ("one", "two")}
    await asyncio.gather(*(call(name, ours) for name, ours in crowd.items()))
    assert most == 1


async def test_tenants_wait_by_turns_whatever_the_others_queue(going):
    ours, clock = going
    sent = []

    many = [calls(ours, clock, ACME, "fast", 1, sent=sent) for _ in range(20)]
    few = [calls(ours, clock, BOLT, "fast", 1, sent=sent) for _ in range(4)]
    await asyncio.gather(*many, *few)
    assert max(place for place, who in enumerate(sent) if who == BOLT) <= 9


async def test_weights_are_shares_of_what_waits():
    clock, sent = FakeClock(), []
    ours = traffic(clock, weights={ACME: 3})

    crowds = [calls(ours, clock, who, "fast", 1, sent=sent) for who in [ACME] * 12 + [BOLT] * 12]
    await asyncio.gather(*crowds)
    assert sent[1:13].count(ACME) >= 8  # the first went in before anybody waited


async def test_a_vendor_that_asks_us_to_wait_is_heeded_by_every_tenant_with_the_key(going):
    ours, clock = going
    until = clock.now() + 30 * SECOND

    await CallLimiter(ours, ACME, clock=clock).delay_until("lusha", until)
    await CallLimiter(ours, ACME, clock=clock).delay_until("lusha", clock.now())  # never sooner
    [at] = await calls(ours, clock, BOLT, "lusha", 1)
    assert at >= until


class Standing(FakeClock):
    """Time stands still; a bell rings when somebody would sleep."""

    def __init__(self):
        super().__init__()
        self.somebody_sleeps = asyncio.Event()

    async def sleep(self, duration):
        self.somebody_sleeps.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("way_there", ["acquire_slot", "acquire_head"])
async def test_a_vendor_rests_for_those_who_wait_for_it_and_a_rate_is_no_rest(shares, way_there):
    clock = Standing()
    ours = traffic(clock, shared=MemoryBackend().shared() if shares else None)
    passages, others = (CallLimiter(ours, each, clock=clock) for each in (ACME, BOLT))

    async def goes():
        async with getattr(passages, way_there)("lusha"):
            raise AssertionError("it went")

    async def waits():
        clock.somebody_sleeps.clear()
        waiting = asyncio.create_task(goes())
        await clock.somebody_sleeps.wait()
        found = await passages.list_cooldowns(), await others.list_cooldowns()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return *found, await passages.list_cooldowns()

    async with passages.acquire_slot("lusha"):
        of_rate = await waits()
    until = clock.now() + 30 * SECOND
    await passages.delay_until("lusha", until)
    of_rate, until, resting, besides = (
        of_rate,
        until,
        await waits(),
        await others.list_cooldowns(besides=["lusha"]),
    )
    assert of_rate == ({}, {}, {})
    assert resting == ({"lusha": until}, {}, {})
    assert besides == {"lusha": until}


async def test_what_a_vendor_says_is_left_slows_us_down_and_never_speeds_us_up(going):
    ours, clock = going
    passages = CallLimiter(ours, ACME, clock=clock)

    async def told(left):
        resets_at = clock.now() + 60 * SECOND
        await passages.apply_quota("lusha", left=left, resets_at=resets_at)
        before = clock.now()
        [at] = await calls(ours, clock, ACME, "lusha", 1)
        return at - before

    assert await told(10_000) <= SECOND
    clock.advance(10 * SECOND)
    assert await told(2) >= 20 * SECOND


async def test_a_place_is_left_whatever_becomes_of_the_call(going):
    ours, clock = going
    passages = CallLimiter(ours, ACME, clock=clock)

    for _ in range(5):
        with pytest.raises(ConfigError):
            async with passages.acquire_slot("lusha"):
                raise ConfigError("no")
    gave_up = asyncio.create_task(calls(ours, clock, ACME, "lusha", 1))
    await asyncio.sleep(0)
    gave_up.cancel()
    await asyncio.gather(gave_up, return_exceptions=True)
    assert len(await asyncio.wait_for(calls(ours, clock, ACME, "lusha", 3), 60)) == 3


async def test_a_connector_without_settings_is_refused_before_anything_waits(going):
    ours, clock = going

    async def ask():
        async with CallLimiter(ours, ACME, clock=clock).acquire_slot("tavly"):
            raise AssertionError("it went")

    with pytest.raises(ConfigError, match="tavly"):
        await ask()


async def test_whoever_leaves_the_front_has_used_nothing_up_and_whoever_goes_lets_the_next_one_come(
    going,
):
    ours, clock = going
    passages = CallLimiter(ours, ACME, clock=clock)
    seen = []

    async def one(name, *, goes):
        async with passages.acquire_head("lusha") as front:
            seen.append((name, clock.elapsed()))
            if goes:
                async with front.proceed():
                    assert front.proceed() is None
                    await asyncio.sleep(0.05)
                    seen.append((f"{name} is through", clock.elapsed()))

    await one("left", goes=False)
    await asyncio.gather(one("first", goes=True), one("second", goes=True))
    assert seen == [
        ("left", 0 * SECOND),
        ("first", 0 * SECOND),
        ("second", SECOND),  # while the first call is still under way: there are two places
        ("first is through", SECOND),
        ("second is through", SECOND),
    ]
