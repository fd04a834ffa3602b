"""One clock per host, in one process or in many."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.backends.sqlite import MemoryBackend
from stoker.rate_limits import host_delays
from stoker.rate_limits.host_delays import LocalHostPacer, SharedHostPacer
from stoker.testing import FakeClock

GAP = timedelta(seconds=0.5)


def own(clock):
    return LocalHostPacer(clock=clock)


def shared(clock):
    return SharedHostPacer(shared=MemoryBackend().shared(), clock=clock)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=[own, shared])
def hosts(request, clock):
    return request.param(clock)


async def visits(hosts, clock, host, count, *, gap=GAP):
    times = []
    for _ in range(count):
        await hosts.acquire(host, gap=gap)
        times.append(clock.now())
    return times


def test_requests_to_one_host_are_a_gap_apart_whoever_makes_them(clock, hosts):
    async def crowd():
        found = await asyncio.gather(*(visits(hosts, clock, "a.test", 3) for _ in range(4)))
        return sorted(time for times in found for time in times)

    assert all(later - earlier >= GAP for earlier, later in pairwise(asyncio.run(crowd())))


async def test_hosts_do_not_wait_for_each_other(clock, hosts):
    await hosts.acquire("a.test", gap=timedelta(minutes=5))
    before = clock.now()
    await hosts.acquire("b.test", gap=timedelta(minutes=5))
    assert (clock.now() - before) == timedelta(0)


async def test_a_host_that_asks_us_to_wait_is_left_alone_until_then_and_never_sooner(clock, hosts):
    until = clock.now() + timedelta(seconds=40)

    await hosts.delay_until("a.test", until=until)
    await hosts.delay_until("a.test", until=clock.now())
    [at] = await visits(hosts, clock, "a.test", 1)
    assert at >= until


async def test_a_host_that_wants_us_gone_for_ever_is_asked_again_after_an_hour(clock, hosts):
    began = clock.now()

    await hosts.delay_until("a.test", until=began + timedelta(days=400))
    [at] = await visits(hosts, clock, "a.test", 1, gap=timedelta(days=400))
    assert at - began <= timedelta(hours=1, seconds=1)


async def test_a_gap_longer_than_an_hour_is_an_hour(clock, hosts):
    first, second = await visits(hosts, clock, "a.test", 2, gap=timedelta(days=400))
    assert second - first == timedelta(hours=1)


@given(st.lists(st.floats(0.01, 30), min_size=2, max_size=8))
async def test_each_request_is_its_own_gap_after_the_one_before(gaps):
    clock = FakeClock()
    hosts = LocalHostPacer(clock=clock)

    async def walk():
        times = []
        for gap in gaps:
            await hosts.acquire("a.test", gap=timedelta(seconds=gap))
            times.append(clock.now())
        return times

    times = await walk()
    for (earlier, later), gap in zip(pairwise(times), gaps[1:], strict=True):
        assert later - earlier >= timedelta(seconds=gap)


async def asked_of(hosts, word, number, *, gap=GAP):
    for each in range(number):
        await hosts.acquire(f"{word}{each}.test", gap=gap)


async def test_hosts_that_may_be_asked_again_are_let_go(clock):
    hosts = LocalHostPacer(clock=clock)

    for hour in range(20):
        await asked_of(hosts, f"h{hour}-", host_delays.MAX_HOSTS)
        clock.advance(host_delays.MIN_LIFETIME)
    assert len(hosts._hosts) <= 2 * host_delays.MAX_HOSTS


async def test_a_host_whose_gap_or_push_back_is_not_over_is_not_let_go(clock):
    hosts = LocalHostPacer(clock=clock)
    slow, pushed, new = timedelta(minutes=20), timedelta(minutes=30), host_delays.MIN_LIFETIME

    began = clock.now()
    await hosts.delay_until("pushed.test", until=began + pushed)
    await hosts.acquire("slow.test", gap=slow)
    await asked_of(hosts, "h", host_delays.MAX_HOSTS)
    clock.advance(timedelta(minutes=10))
    await hosts.acquire("new.test", gap=GAP)
    asked_at = clock.now()
    await asked_of(hosts, "n", 2 * host_delays.MAX_HOSTS)
    assert "h0.test" not in hosts._hosts
    # Its robots.txt was the first we asked it for, and says what gap it wants.
    await hosts.acquire("new.test", gap=new)
    times = {"new": clock.now() - asked_at}
    for host in ("slow", "pushed"):
        await hosts.acquire(f"{host}.test", gap=GAP if host == "pushed" else slow)
        times[host] = clock.now() - began
    assert times == {"new": new, "slow": slow, "pushed": pushed}
