import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from kit.virtual_time import LoopClock, run_virtually
from kit.wrapped import Wrapped
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError, TransientError
from stoker.rate_limits import rate_limit as limits
from stoker.rate_limits.rate_limit import (
    MAX_DELAY,
    ConcurrencyLimiter,
    LocalRateLimiter,
    Rate,
    SharedRateLimiter,
    compute_quota_delay,
)
from stoker.testing import FakeClock

untimed = how(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SECOND = timedelta(seconds=1)
RATE = Rate(calls=10, per=SECOND)


@pytest.fixture
def clock():
    return FakeClock()


def own(rate, clock):
    return LocalRateLimiter(rate, clock=clock)


def shared(rate, clock):
    return SharedRateLimiter("lusha", rate, shared=MemoryBackend().shared(), clock=clock)


both = pytest.mark.parametrize("pace_of", [own, shared])

rates = st.builds(
    lambda calls, per, burst: Rate(
        calls=calls, per=timedelta(milliseconds=per), burst=min(burst, calls)
    ),
    st.integers(1, 50),
    st.integers(1, 5000),
    st.integers(1, 50),
)
pauses = st.lists(st.integers(0, 2_000_000).map(lambda us: timedelta(microseconds=us)), max_size=60)


async def turns(pace, clock, pauses):
    """Return when each turn came, with so long a pause before each."""

    came = []
    for pause in pauses:
        clock.advance(pause)
        await pace.acquire()
        came.append(clock.now())
    return came


@both
@untimed
@given(rate=rates, pauses=pauses)
async def test_no_stretch_of_time_ever_sees_more_calls_than_the_rate_allows(pace_of, rate, pauses):
    clock = FakeClock()

    came = await turns(pace_of(rate, clock), clock, pauses)

    for nth, first in enumerate(came):
        assert sum(first <= at < first + rate.per for at in came[nth:]) <= rate.calls


@untimed
@given(rate=rates, pauses=pauses)
async def test_a_pace_of_our_own_gives_the_very_turns_the_core_would(rate, pauses):
    clock, model = FakeClock(), FakeClock()
    came = await turns(own(rate, clock), clock, pauses)

    next_at, expected = None, []
    for pause in pauses:
        model.advance(pause)
        turn = limits.check_rate(rate, next_at, now=model.now())
        if not turn.allowed:
            model.advance(turn.at - model.now())
            turn = limits.check_rate(rate, next_at, now=model.now())
        next_at = turn.next_at
        expected.append(model.now())

    # The wait is rounded up by a microsecond, so that it is never too short.
    lateness = [ours - theirs for ours, theirs in zip(came, expected, strict=True)]
    assert all(timedelta(0) <= late <= timedelta(microseconds=len(came)) for late in lateness)


@both
async def test_callers_go_in_the_order_of_asking(clock, pace_of):
    pace, went = pace_of(RATE, clock), []

    async def caller(number):
        await pace.acquire()
        went.append(number)

    await asyncio.gather(*(caller(number) for number in range(20)))
    assert went == list(range(20))


@both
async def test_a_caller_that_gives_up_takes_nobody_s_turn(clock, pace_of):
    started = FakeClock().now()

    pace = pace_of(RATE, clock)
    await pace.acquire()
    waiting = [asyncio.create_task(pace.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert clock.now() - started <= 2 * RATE.interval + timedelta(milliseconds=1)


class Oversleeps(FakeClock):
    """A clock of a busy machine: every wait is a second too long."""

    async def sleep(self, duration):
        await super().sleep(duration + SECOND)


@both
async def test_waking_up_late_does_not_let_the_next_one_go_early(pace_of):
    clock, rate = Oversleeps(), Rate(calls=10, per=SECOND, burst=2)

    pace, went = pace_of(rate, clock), []

    async def caller():
        await pace.acquire()
        went.append(clock.now())

    await asyncio.gather(*(caller() for _ in range(9)))

    for nth in range(len(went) - rate.burst):
        assert went[nth + rate.burst] - went[nth] >= rate.interval


@both
@pytest.mark.parametrize("burst", [1, 5])
async def test_a_push_back_lets_nothing_go_before_then(clock, pace_of, burst):
    until = clock.now() + 30 * SECOND

    pace = pace_of(Rate(calls=10, per=SECOND, burst=burst), clock)
    await pace.delay_until(until=until)
    await pace.acquire()
    assert clock.now() >= until


@both
@pytest.mark.parametrize("burst", [1, 5])
async def test_a_pace_says_when_the_next_call_could_go_and_uses_nothing_up(clock, pace_of, burst):
    rate = Rate(calls=10, per=SECOND, burst=burst)
    pace = pace_of(rate, clock)
    clock.advance(SECOND)
    start = clock.now()

    told = [await pace.get_next_allowed_at() for _ in range(3)]
    for _ in range(burst):
        await pace.acquire()
    told.append(await pace.get_next_allowed_at())
    went = clock.now()
    await pace.delay_until(until=start + 30 * SECOND)
    told.append(await pace.get_next_allowed_at())

    assert (told[:3], went) == ([start] * 3, start)
    assert told[3:] == [start + rate.interval, start + 30 * SECOND]


@both
async def test_those_who_wait_after_a_burst_go_one_by_one_at_the_steady_pace(clock, pace_of):
    rate = Rate(calls=10, per=SECOND, burst=5)
    pace = pace_of(rate, clock)
    clock.advance(SECOND)
    start = clock.now()

    came = await turns(pace, clock, [timedelta()] * 8)

    assert came[:5] == [start] * 5
    waits = [(at - start) / rate.interval for at in came[5:]]
    assert waits == pytest.approx([1, 2, 3], abs=1e-3)


@both
async def test_a_push_back_reaches_those_who_wait_already(clock, pace_of):
    until = clock.now() + 30 * SECOND

    pace = pace_of(RATE, clock)
    await pace.acquire()
    waiting = asyncio.create_task(pace.acquire())
    await pace.delay_until(until=until)
    await waiting
    assert clock.now() >= until


@both
async def test_a_push_back_into_the_past_makes_nothing_sooner(clock, pace_of):
    start = clock.now()

    pace = pace_of(RATE, clock)
    await pace.acquire()
    await pace.delay_until(until=start - 30 * SECOND)
    await pace.acquire()
    assert clock.now() >= start + RATE.interval


@both
async def test_a_vendor_that_never_wants_to_see_us_again_is_asked_again_in_an_hour(clock, pace_of):
    start = clock.now()

    pace = pace_of(RATE, clock)
    await pace.delay_until(until=start + timedelta(seconds=1e9))
    await pace.acquire()
    assert clock.now() <= start + MAX_DELAY + RATE.interval


async def test_a_store_that_gives_no_turn_lets_nothing_go():
    class Silent:
        async def acquire_call(self, key, rate, *, now):
            raise TransientError("the database is locked")

    with pytest.raises(TransientError):
        await SharedRateLimiter("lusha", RATE, shared=Silent(), clock=FakeClock()).acquire()


# What a vendor says is left


@untimed
@given(
    left=st.integers(0, 10_000),
    seconds=st.integers(0, 100_000),
    share=st.floats(0.1, 1.0),
)
def test_what_a_vendor_has_left_only_slows_us_down_and_never_beyond_its_reset(left, seconds, share):
    rate, now = Rate(calls=100, per=SECOND, share=share), FakeClock().now()
    resets_at = now + seconds * SECOND

    until = compute_quota_delay(rate, left=left, resets_at=resets_at, now=now)

    assert until is None or now + rate.interval < until <= resets_at


@pytest.mark.parametrize("left", [0, -1])
def test_nothing_left_means_nothing_before_the_reset(left):
    now = FakeClock().now()

    assert compute_quota_delay(RATE, left=left, resets_at=now + SECOND, now=now) == now + SECOND


def test_of_what_is_left_only_our_share_is_counted_on():
    now = FakeClock().now()
    rate = Rate(calls=100, per=SECOND, share=0.5)

    until = compute_quota_delay(rate, left=18, resets_at=now + 100 * SECOND, now=now)

    assert until == now + 10 * SECOND


def test_plenty_left_does_not_slow_us_down():
    now = FakeClock().now()

    assert compute_quota_delay(RATE, left=1000, resets_at=now + SECOND, now=now) is None


# Places


class Street:
    """Processes that share places with so many seats."""

    def __init__(self, places=2, lease=timedelta(seconds=60)):
        self.clock = FakeClock()
        self.store = MemoryBackend().shared()
        self.places, self.lease = places, lease
        self.inside = self.most = 0

    def process(self, owner):
        return ConcurrencyLimiter(
            "lusha",
            self.places,
            shared=self.store,
            owner=owner,
            clock=self.clock,
            lease=self.lease,
        )

    async def visit(self, process):
        async with process.acquire():
            self.inside += 1
            self.most = max(self.most, self.inside)
            for _ in range(3):
                await asyncio.sleep(0)
            self.inside -= 1


async def test_no_more_calls_than_places_go_at_once_however_many_processes_there_are():
    street = Street(places=2)

    processes = [street.process(f"p{nth}") for nth in range(4)]
    await asyncio.gather(*(street.visit(process) for process in processes * 5))
    assert street.most == 2


async def test_a_place_is_left_also_when_the_call_fails():
    street = Street(places=1)

    for owner in ("one", "other"):
        with pytest.raises(TransientError):
            async with street.process(owner).acquire():
                raise TransientError("503")
    assert street.clock.elapsed() < street.lease  # nobody waited for it to come free by itself


async def test_a_place_once_left_is_not_taken_again():
    street = Street(places=1, lease=timedelta(seconds=0.003))

    await street.visit(street.process("one"))
    await asyncio.sleep(0.02)  # more than enough for a sign of life, if there were one
    now = street.clock.now()
    assert await street.store.acquire_slot(
        "lusha", places=1, owner="other/1", until=now + street.lease, now=now
    )


async def test_giving_up_while_waiting_leaves_the_places_as_they_were():
    street = Street(places=1)

    one = street.process("one")
    async with one.acquire():
        waiting = asyncio.create_task(street.visit(street.process("other")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await street.visit(street.process("third"))
    assert street.most == 1


async def test_the_place_of_a_process_that_died_comes_free():
    street = Street(places=1)

    now = street.clock.now()
    assert await street.store.acquire_slot(
        "lusha", places=1, owner="dead/1", until=now + street.lease, now=now
    )
    await street.visit(street.process("alive"))  # waiting turns the clock
    assert (street.clock.now() - now) >= street.lease


async def test_a_place_is_kept_for_as_long_as_the_call_takes():
    street = Street(places=1, lease=timedelta(seconds=0.03))

    async with street.process("one").acquire():
        for _ in range(12):
            await asyncio.sleep(0.01)
            street.clock.advance(timedelta(seconds=0.005))
            now = street.clock.now()
            assert not await street.store.acquire_slot(
                "lusha", places=1, owner="other/1", until=now + street.lease, now=now
            )


class LosesBeats(Wrapped):
    """A shared store that is away when a place is taken for the second and the third time."""

    asked = 0

    async def acquire_slot(self, *given, **named):
        self.asked += 1
        if self.asked in (2, 3):
            raise TransientError("away")
        return await self._inner.acquire_slot(*given, **named)


def test_two_lost_heartbeats_cost_no_place():
    async def scenario():
        street = Street(places=1)
        street.clock, real, street.store = LoopClock(), street.store, LosesBeats(street.store)
        async with street.process("one").acquire():
            await asyncio.sleep(street.lease.total_seconds() + 1)
            now = street.clock.now()
            return await real.acquire_slot(
                "lusha", places=1, owner="other/1", until=now + street.lease, now=now
            )

    assert run_virtually(scenario()) is False


class SlowHeartbeats(Wrapped):
    """A shared store whose writes go on in a thread: cancelling the caller does not stop them."""

    def __init__(self, inner):
        super().__init__(inner)
        self._acquired, self.under_way = False, asyncio.Event()

    async def acquire_slot(self, *given, **named):
        if not self._acquired:
            self._acquired = True
            return await self._inner.acquire_slot(*given, **named)
        self.under_way.set()
        return await asyncio.shield(asyncio.ensure_future(self._late(*given, **named)))

    async def _late(self, *given, **named):
        await asyncio.sleep(1)
        return await self._inner.acquire_slot(*given, **named)


def test_a_heartbeat_under_way_does_not_take_a_released_slot_again():
    async def scenario():
        street = Street(places=1)
        street.clock, real = LoopClock(), street.store
        street.store = SlowHeartbeats(real)
        async with street.process("one").acquire():
            await street.store.under_way.wait()
        await asyncio.sleep(2)  # the late heartbeat is written by now
        now = street.clock.now()
        return await real.acquire_slot(
            "lusha", places=1, owner="other/1", until=now + street.lease, now=now
        )

    assert run_virtually(scenario()) is True


def test_there_is_at_least_one_place():
    with pytest.raises(ConfigError, match="at least one place"):
        Street(places=0).process("one")


class SlowRelease(Wrapped):
    """A shared store that takes its time to release a slot."""

    def __init__(self, inner):
        super().__init__(inner)
        self.releasing, self.may_release, self.released = (asyncio.Event() for _ in range(3))

    async def release_slot(self, *given, **named):
        self.releasing.set()
        await self.may_release.wait()
        await self._inner.release_slot(*given, **named)
        self.released.set()


async def test_a_slot_is_released_however_often_its_holder_is_cancelled():
    street, inside = Street(places=1), asyncio.Event()
    store = street.store = SlowRelease(street.store)

    async def call():
        async with street.process("one").acquire():
            inside.set()
            await asyncio.Event().wait()

    calling = asyncio.create_task(call())
    for reached in (inside, store.releasing):
        await reached.wait()
        calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    store.may_release.set()
    async with asyncio.timeout(5):
        await store.released.wait()
