import asyncio

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.rate_limits.limiter import FairQueue

untimed = how(deadline=None, suppress_health_check=[HealthCheck.too_slow])
A, B, C = TenantId("a"), TenantId("b"), TenantId("c")


class Counter:
    """What goes through a turnstile, in order."""

    def __init__(self, turnstile):
        self.get_fair_queue = turnstile
        self.went = []
        self.inside = self.most = 0

    async def visit(self, tenant, *, cost=1):
        async with self.get_fair_queue.acquire(tenant, cost=cost):
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.went.append((tenant, cost))
            await asyncio.sleep(0)
            self.inside -= 1


async def through(visits, *, at_once=1, quantum=1, weights=None):
    counter = Counter(FairQueue(at_once=at_once, quantum=quantum, weights=weights))
    await asyncio.gather(*(counter.visit(who, cost=cost) for who, cost in visits))
    return counter


visit_lists = st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 9)), max_size=40)


@untimed
@given(visit_lists, st.integers(1, 5))
async def test_everybody_goes_in_once_and_never_more_at_once_than_allowed(visits, at_once):
    counter = await through(visits, at_once=at_once)

    assert sorted(counter.went) == sorted(visits)
    assert counter.most <= at_once


async def test_who_gives_up_leaves_the_line_and_lets_nobody_in_for_it():
    counter = Counter(FairQueue(at_once=1, quantum=1))
    async with counter.get_fair_queue.acquire(A, cost=1):
        waiting = [asyncio.create_task(counter.visit(who)) for who in (B, C)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        assert len(counter.get_fair_queue) == 1
        waiting.append(asyncio.create_task(counter.visit(B)))
        await asyncio.sleep(0)
        assert counter.went == []
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (counter.went, counter.most, len(counter.get_fair_queue)) == ([(C, 1), (B, 1)], 1, 0)


async def test_who_gives_up_at_the_very_moment_of_being_let_in_makes_room_too():
    counter = Counter(FairQueue(at_once=1, quantum=1))
    async with counter.get_fair_queue.acquire(A, cost=1):
        waiting = [asyncio.create_task(counter.visit(who)) for who in (B, C)]
        await asyncio.sleep(0)
    waiting[0].cancel()  # it has been let in, but has not noticed yet
    await asyncio.gather(*waiting, return_exceptions=True)
    assert counter.went == [(C, 1)]


async def test_work_that_fails_makes_room_for_the_next():
    counter = Counter(FairQueue(at_once=1, quantum=1))
    with pytest.raises(RuntimeError):
        async with counter.get_fair_queue.acquire(A, cost=1):
            raise RuntimeError("nobody expected this")
    await counter.visit(B)
    assert counter.went == [(B, 1)]


def test_a_turnstile_lets_at_least_one_in():
    with pytest.raises(ConfigError, match="at least one"):
        FairQueue(at_once=0, quantum=1)
