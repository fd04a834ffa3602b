import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConflictError, TransientError, UncertainError
from stoker.base.events import ClockWentBack, DuplicateWindow, RunGivenUp, SlotPassed, TenantFailed
from stoker.base.types import TenantId
from stoker.budgets.windows import ResetRule
from stoker.calendar.recurrence import CatchUp, Interval, Window
from stoker.runs.cancel import close_dead_runs
from stoker.runs.leases import MAX_CLOCK_SKEW, LeaseHolder
from stoker.runs.model import PROCESS_DIED, Manifest, Run, RunKey, RunState
from stoker.runs.service import Runner, RunResult
from stoker.scheduling.model import (
    MAX_DEATHS,
    OccurrenceResult,
    OccurrenceState,
)
from stoker.scheduling.service import Scheduler, Task, accept_clock
from stoker.testing import EventRecorder, FakeClock

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")
DAILY = Window.parse("11:00")
DAY = timedelta(days=1)
LAST_DUE = datetime(2030, 1, 1, 11, tzinfo=UTC)  # what a daily task last fell due for
LAPSES = timedelta(seconds=30) + MAX_CLOCK_SKEW  # from when on a dead process is known to be dead


class Counting:
    """Work that counts how often it was done, may take its time, and says when it is enough."""

    kind = "work"

    def __init__(self, takes=0.0, enough=1):
        self.runs, self.takes, self.enough = [], takes, enough
        self.is_enough, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()

    async def __call__(self, run):
        self.runs.append(run.key.at)
        if len(self.runs) >= self.enough:
            self.is_enough.set()
        await asyncio.sleep(self.takes)
        await self.may_end.wait()
        return RunResult()

    def hold(self):
        """Let nothing end that is under way, until `may_end` is set."""
        self.is_enough.clear()
        self.may_end.clear()
        return self


class Failing:
    kind = "work"

    async def __call__(self, run):
        raise TransientError("the vendor is away")


class Shaky:
    """A schedule store of which one verb is done, or not, and then fails."""

    def __init__(self, real, verb, error, *, done, when=lambda *given: True):
        self._real, self._verb, self._build_error = real, verb, error
        self._done, self._when = done, when

    def __getattr__(self, name):
        real = getattr(self._real, name)
        if name != self._verb:
            return real

        async def fails(*given, **named):
            if not self._when(*given):
                return await real(*given, **named)
            if self._done:
                await real(*given, **named)
            raise self._build_error

        return fails


class ShakyBackend(MemoryBackend):
    def __init__(self, verb, error, **how):
        super().__init__()
        self._shaky = lambda real: Shaky(real, verb, error, **how)

    def tenant(self, tenant):
        store = super().tenant(tenant)
        return replace(store, schedule=self._shaky(store.schedule))


class World:
    def __init__(self, *, work=None, schedule=DAILY, tenants=(ACME,), catch_up=CatchUp.LATEST):
        self.backend, self.clock, self.heard = MemoryBackend(), FakeClock(), EventRecorder()
        self.work = work or Counting()
        self.tasks = [
            Task(
                tenant=tenant,
                job=self.work,
                schedule=schedule,
                manifest=Manifest(),
                catch_up=catch_up,
                at_most=10,
            )
            for tenant in tenants
        ]

    def build_runner(self, owner="me", length=timedelta(seconds=30)):
        return Runner(
            leases=LeaseHolder(owner=owner, clock=self.clock, observer=self.heard, length=length)
        )

    def build_scheduler(self, owner="me", tasks=None, length=timedelta(seconds=30), at_once=4):
        return Scheduler(
            tasks or self.tasks,
            backend=self.backend,
            runner=self.build_runner(owner, length),
            at_once=at_once,
        )

    async def run_daemon(self, **how):
        """Run the daemon until there was enough work."""
        stopping = asyncio.Event()
        daemon = asyncio.ensure_future(self.build_scheduler(**how).run_forever(stopping))
        await self.work.is_enough.wait()
        stopping.set()
        await daemon

    def tick(self):
        return [run for _, run in asyncio.run(self.build_scheduler().run_once())]

    def runs(self, tenant=ACME):
        return asyncio.run(self.backend.tenant(tenant).runs.list_runs())

    def list_results(self, tenant=ACME):
        return asyncio.run(self.backend.tenant(tenant).schedule.list_results("work"))


@pytest.fixture
def world():
    return World()


def test_a_task_never_run_is_run_at_once(world):
    [run] = world.tick()

    assert run.state is RunState.DONE
    assert run.instant == datetime(2030, 1, 1, 11, tzinfo=UTC)


def test_a_task_can_begin_a_while_after_it_is_due(world):
    a_while = timedelta(seconds=7)
    began = world.clock.now()
    world.tasks[0] = replace(world.tasks[0], start_delay=a_while)

    [run] = world.tick()

    assert run.at - began == a_while
    assert world.tick() == []


def test_instants_missed_while_nothing_was_running_are_recorded_and_the_latest_is_run(world):
    world.tick()
    world.clock.advance(3 * DAY)

    [run] = world.tick()

    assert run.instant == datetime(2030, 1, 4, 11, tzinfo=UTC)
    assert [slot.state for slot in world.list_results()] == [
        OccurrenceState.STARTED,
        OccurrenceState.MISSED,
        OccurrenceState.MISSED,
        OccurrenceState.STARTED,
    ]
    assert all(event.reason for event in world.heard.of_type(SlotPassed))
    entries = asyncio.run(world.backend.tenant(ACME).ledger.list_entries())
    assert [entry.kind for entry in entries] == ["STARTED", "MISSED", "MISSED", "STARTED"]


def test_catching_up_on_everything_runs_each_missed_instant_oldest_first():
    world = World(catch_up=CatchUp.ALL)
    world.tick()
    world.clock.advance(3 * DAY)

    assert [run.instant.day for run in world.tick()] == [2, 3, 4]


def test_a_run_that_fails_is_recorded_and_its_instant_is_spent():
    world = going_on(work=Failing())

    [run] = world.tick()

    assert (run.state, run.reason) == (RunState.FAILED, "the vendor is away")
    assert world.tick() == []


async def test_of_two_schedulers_at_the_same_moment_one_runs_and_the_other_says_duplicate_window():
    world = World(work=Counting(takes=0.05))

    runs = await asyncio.gather(
        world.build_scheduler("one").run_once(), world.build_scheduler("two").run_once()
    )

    assert sorted(len(part) for part in runs) == [0, 1]
    assert len(world.work.runs) == 1
    assert len(world.heard.of_type(DuplicateWindow)) == 1


def test_an_instant_that_falls_due_while_a_run_is_going_is_skipped_and_says_why():
    world = World(work=Counting().hold(), schedule=Interval(every=timedelta(hours=1)))

    # Leases longer than the jump, so that the holder is not taken for dead.
    length = timedelta(days=1)

    async def scenario():
        one = world.build_scheduler("one", length=length)
        first = asyncio.ensure_future(one.run_once())
        await world.work.is_enough.wait()
        world.clock.jump(world.clock.now() + timedelta(hours=1))
        second = await world.build_scheduler("two", length=length).run_once()
        world.work.may_end.set()
        return await first, second

    first, second = asyncio.run(scenario())

    assert (len(first), second) == (1, [])
    assert [slot.state for slot in world.list_results()] == [
        OccurrenceState.STARTED,
        OccurrenceState.OVERLAP,
    ]
    assert f"run {first[0][1].name} was still running" in world.list_results()[-1].reason


def test_what_is_being_caught_up_on_is_not_skipped_because_catching_up_takes_long():
    hourly = Interval(every=timedelta(hours=1))
    world = World(work=Counting(), schedule=hourly, catch_up=CatchUp.ALL)
    length = timedelta(days=1)

    async def scenario():
        one, two = (world.build_scheduler(name, length=length) for name in ("one", "two"))
        await one.run_once()
        world.clock.advance(timedelta(hours=3))
        world.work.hold()
        catching_up = asyncio.ensure_future(one.run_once())
        await world.work.is_enough.wait()
        world.clock.jump(world.clock.now() + timedelta(hours=1))
        assert await two.run_once() == []
        world.work.may_end.set()
        return await catching_up

    assert [run.state for _, run in asyncio.run(scenario())] == [RunState.DONE] * 3
    assert {slot.state for slot in world.list_results()} == {OccurrenceState.STARTED}


def test_a_dead_schedulers_lease_is_no_reason_to_skip_what_waits_for_its_turn():
    world = World(work=Counting(takes=0.2, enough=2), tenants=(ACME, UMBRELLA))

    async def scenario():
        store = world.backend.tenant(UMBRELLA)
        dead = world.build_runner("dead")
        lease = await dead.leases.acquire(store, "run/work", task="2029-12-31T11:00:00+00:00")
        await dead.start_run(store, lease, kind="work", manifest=Manifest())
        world.clock.advance(DAY)
        await world.run_daemon(at_once=1)

    asyncio.run(scenario())

    assert OccurrenceState.OVERLAP not in {slot.state for slot in world.list_results(UMBRELLA)}
    assert OccurrenceState.STARTED in {slot.state for slot in world.list_results(UMBRELLA)}


async def begun_by_the_dead(world, *, tenant=ACME, kind="work", instant=LAST_DUE, owner="dead"):
    """Begin a run, and its instant, as a process that is then killed in the middle of it."""
    store = world.backend.tenant(tenant)
    runner = world.build_runner(owner)
    lease = await runner.leases.acquire(store, f"run/{kind}", task="killed")
    run = await runner.start_run(store, lease, kind=kind, manifest=Manifest(), instant=instant)
    if instant is not None:
        slot = OccurrenceResult(
            schedule=kind,
            due_at=instant,
            state=OccurrenceState.STARTED,
            decided_at=world.clock.now(),
            run_at=run.at,
        )
        assert await store.schedule.record_result(slot, fence=lease)
    return run


async def closed(world, killed):
    """Let somebody who only looks close a run whose process died."""
    world.clock.advance(LAPSES)
    other = Run(key=RunKey(world.clock.now(), 1), kind="upkeep")
    store, runner = world.backend.tenant(ACME), world.build_runner()
    ended = await close_dead_runs(store, by=other, runner=runner)
    assert [run.at for run in ended] == [killed.at]
    return [run.state for run in ended]


def going_on(**how):
    """Return a world whose task goes on with what a dead process left."""
    world = World(**how)
    world.tasks = [replace(task, resume_window=ResetRule()) for task in world.tasks]
    return world


def test_a_run_whose_process_was_killed_is_closed_and_gone_on_with_though_nothing_is_due():
    world = going_on()
    killed = asyncio.run(begun_by_the_dead(world))
    world.clock.advance(LAPSES)

    [run] = world.tick()

    assert (run.state, run.instant) == (RunState.DONE, None)
    assert run.manifest.goes_on_with == killed.at
    assert [(each.at, each.state) for each in world.runs()] == [
        (run.at, RunState.DONE),
        (killed.at, RunState.FAILED),
    ]
    assert [event.run for event in world.heard.of_type(RunGivenUp)] == [killed.name]
    assert [slot.run_at for slot in world.list_results()] == [
        killed.at
    ]  # an instant is started once
    assert world.tick() == []


def test_what_is_gone_on_with_begins_at_once_also_where_others_begin_later():
    world = going_on()
    world.tasks = [replace(task, start_delay=timedelta(hours=1)) for task in world.tasks]
    asyncio.run(begun_by_the_dead(world))
    world.clock.advance(LAPSES)
    now = world.clock.now()

    [run] = world.tick()

    assert run.at == now


async def test_a_daemon_that_watches_takes_over_before_the_lease_is_over_by_the_clock():
    world = going_on()
    began = world.clock.now()
    await begun_by_the_dead(world)
    await world.run_daemon()

    assert world.work.runs[0] - began < LAPSES


def test_what_is_due_as_well_is_all_that_is_begun():
    world = going_on(schedule=Interval(every=timedelta(hours=1)))
    asyncio.run(begun_by_the_dead(world))
    world.clock.advance(timedelta(hours=1))

    [run] = world.tick()

    assert run.instant == world.clock.now().replace(microsecond=0)
    assert world.tick() == []


def test_a_run_that_is_still_carried_out_is_left_alone():
    world = going_on()
    running = asyncio.run(begun_by_the_dead(world))
    world.clock.advance(LAPSES - timedelta(seconds=1))

    assert world.tick() == []
    assert world.runs() == [running]


def test_work_that_its_next_instant_does_is_closed_and_not_begun_again(world):
    killed = asyncio.run(begun_by_the_dead(world))
    world.clock.advance(LAPSES)

    assert world.tick() == []
    [run] = world.runs()
    assert (run.at, run.state, run.reason) == (killed.at, RunState.FAILED, PROCESS_DIED)


def test_a_run_killed_by_hand_or_on_another_day_is_closed_and_not_gone_on_with():
    by_hand, yesterday = going_on(), going_on()
    by_hand.tick()
    asyncio.run(begun_by_the_dead(by_hand, instant=None))
    by_hand.clock.advance(LAPSES)
    asyncio.run(begun_by_the_dead(yesterday))
    yesterday.clock.advance(timedelta(hours=13))

    for world in (by_hand, yesterday):
        assert world.tick() == []
        assert world.runs()[0].reason == PROCESS_DIED


def test_what_somebody_else_has_closed_is_gone_on_with_too():
    world = going_on()

    killed = asyncio.run(begun_by_the_dead(world))

    assert asyncio.run(closed(world, killed)) == [RunState.FAILED]
    assert [run.state for run in world.tick()] == [RunState.DONE]


@pytest.mark.parametrize("deaths", [MAX_DEATHS - 1, MAX_DEATHS])
def test_work_that_kills_its_process_again_and_again_waits_for_its_next_instant(deaths):
    world = going_on()
    for nth in range(deaths):
        instant = None if nth else LAST_DUE
        asyncio.run(closed(world, asyncio.run(begun_by_the_dead(world, instant=instant))))

    assert len(world.tick()) == (deaths < MAX_DEATHS)
    assert [run.reason for run in world.runs()][-deaths:] == [PROCESS_DIED] * deaths


async def test_of_two_schedulers_one_goes_on_with_what_a_third_left():
    world = going_on(work=Counting(takes=0.05))
    await begun_by_the_dead(world)
    world.clock.advance(LAPSES)

    runs = await asyncio.gather(
        world.build_scheduler("one").run_once(), world.build_scheduler("two").run_once()
    )

    assert sorted(len(part) for part in runs) == [0, 1]
    assert world.heard.of_type(TenantFailed) == []


class Napping(FakeClock):
    """A clock that keeps how long it was slept by."""

    def __init__(self):
        super().__init__()
        self.naps = []

    async def sleep(self, duration):
        self.naps.append(duration)
        await super().sleep(duration)


def test_a_daemon_just_started_is_not_late_for_what_falls_due_soon():
    world = World(work=Counting(enough=2))
    world.clock = Napping()
    world.tick()
    world.clock.jump(datetime(2030, 1, 2, 10, 59, 50, tzinfo=UTC))

    asyncio.run(world.run_daemon())

    assert world.clock.naps[0] == timedelta(seconds=10)


def test_runs_that_begin_in_the_same_second_never_end_before_they_start(world):
    world.tasks.append(replace(world.tasks[0], job=Brief()))

    runs = world.tick()

    assert len({run.at for run in runs}) == 2
    assert all(run.ended_at >= run.at for run in runs)


class Brief(Counting):
    """Work of another kind."""

    kind = "brief"


async def test_what_is_brief_does_not_wait_for_long_work_of_another_kind():
    long, brief = Counting(takes=3600), Brief()
    world = World(work=long, tenants=(ACME, UMBRELLA))
    world.tasks += [replace(task, job=brief) for task in world.tasks]

    brief.enough = 2

    stopping = asyncio.Event()
    daemon = asyncio.ensure_future(world.build_scheduler(at_once=1).run_forever(stopping))
    await asyncio.wait_for(brief.is_enough.wait(), timeout=120)
    began = len(long.runs)
    stopping.set()
    await daemon
    assert began == 1  # of the long ones, one at a time


def test_an_instant_whose_record_was_made_though_the_answer_was_lost_is_run(world):
    world.backend = ShakyBackend("record_result", UncertainError("cut off"), done=True)

    [run] = world.tick()

    assert run.state is RunState.DONE
    assert [slot.run_at for slot in world.list_results()] == [run.at]


def test_an_instant_whose_record_was_not_made_leaves_no_run_going_and_stays_due(world):
    world.backend = ShakyBackend("record_result", ConflictError("fenced off"), done=False)

    assert world.tick() == []
    [run] = asyncio.run(world.backend.tenant(ACME).runs.list_runs())
    assert run.state is RunState.CANCELLED
    assert world.list_results() == []


def test_a_lease_that_cannot_be_given_back_does_not_hide_the_run(world):
    world.backend = ShakyBackend(
        "swap_lease",
        TransientError("away"),
        done=False,
        when=lambda seen, wanted: not wanted.owner,
    )

    [run] = world.tick()

    assert run.state is RunState.DONE
    assert world.heard.of_type(TenantFailed) == []


def test_one_tenants_trouble_does_not_reach_another():
    world = World(tenants=(ACME, UMBRELLA))

    class Broken(MemoryBackend):
        def tenant(self, tenant):
            if tenant == ACME:
                raise TransientError("the disk is full")
            return super().tenant(tenant)

    world.backend = Broken()

    [run] = world.tick()

    assert run.state is RunState.DONE
    assert [(e.tenant, e.error) for e in world.heard.of_type(TenantFailed)] == [
        (ACME, "the disk is full")
    ]


def test_a_clock_that_went_back_starts_nothing_and_says_so():
    world = World(schedule=Interval(every=timedelta(minutes=1)))
    world.tick()
    world.clock.jump(world.clock.now() - timedelta(hours=1))

    assert world.tick() == []
    assert len(world.heard.of_type(ClockWentBack)) == 1


def test_a_clock_that_was_once_far_ahead_stops_nothing_for_good_once_somebody_vouches_for_it(world):
    right = world.clock.now()
    world.clock.jump(datetime(2038, 1, 1, 12, tzinfo=UTC))
    world.tick()
    world.clock.jump(right)
    assert world.tick() == []

    asyncio.run(accept_clock(world.backend.tenant(ACME), now=right))

    [run] = world.tick()
    assert run.instant == datetime(2030, 1, 1, 11, tzinfo=UTC)
    assert world.tick() == []


def test_an_intervals_next_run_is_a_whole_interval_after_the_last_one_began():
    world = World(schedule=Interval(every=timedelta(hours=1)))
    world.clock.jump(datetime(2030, 1, 1, 12, 59, tzinfo=UTC))
    world.tick()
    world.clock.advance(timedelta(minutes=59))
    assert world.tick() == []
    world.clock.advance(timedelta(hours=3))

    [run] = world.tick()

    assert run.instant == world.clock.now()
    world.clock.advance(timedelta(minutes=59))
    assert world.tick() == []
    assert [slot.state.value for slot in world.list_results()] == [
        "STARTED",
        "MISSED",
        "MISSED",
        "STARTED",
    ]


def test_a_day_of_missed_minutes_is_recorded_minute_by_minute():
    world = World(schedule=Interval(every=timedelta(minutes=1)))
    world.tick()
    world.clock.advance(timedelta(days=1))

    world.tick()

    assert len(world.list_results()) == 24 * 60 + 1


def test_yesterdays_instant_does_not_run_again_when_the_clock_goes_back_over_midnight():
    world = World(schedule=Window.parse("00:00"))
    world.clock.jump(datetime(2030, 1, 2, 0, 0, 1, tzinfo=UTC))
    world.tick()
    for _ in range(5):
        world.clock.jump(datetime(2030, 1, 1, 23, 59, 59, tzinfo=UTC))
        assert world.tick() == []
        world.clock.jump(datetime(2030, 1, 2, 0, 0, 1, tzinfo=UTC))
        assert world.tick() == []

    assert len(world.work.runs) == 1


def test_a_task_started_by_hand_runs_though_it_is_not_due(world):
    world.tick()

    store = world.backend.tenant(ACME)
    run = asyncio.run(world.build_runner().run_now(store, world.work, manifest=Manifest()))

    assert (run.state, run.instant) == (RunState.DONE, None)
    assert len(world.list_results()) == 1


async def test_a_task_is_not_started_by_hand_while_it_is_running():
    world = World(work=Counting().hold())

    going = asyncio.ensure_future(world.build_scheduler("one").run_once())
    await world.work.is_enough.wait()
    store = world.backend.tenant(ACME)
    with pytest.raises(ConflictError, match="running for acme already"):
        await world.build_runner("two").run_now(store, world.work, manifest=Manifest())
    world.work.may_end.set()
    await going


async def test_a_daemon_runs_what_falls_due_until_it_is_told_to_stop():
    world = World(work=Counting(enough=5), schedule=Interval(every=timedelta(minutes=10)))

    await world.run_daemon()

    gaps = {late - early for early, late in zip(world.work.runs, world.work.runs[1:], strict=False)}
    assert gaps == {timedelta(minutes=10)}


async def test_a_daemon_that_is_stopped_ends_its_run_as_cancelled():
    world = World(work=Counting(takes=3600))

    await world.run_daemon()

    [run] = await world.backend.tenant(ACME).runs.list_runs()
    assert run.state is RunState.CANCELLED


async def test_a_daemon_gives_way_once_nothing_is_under_way_and_ends_no_run_for_it():
    world, giving_way = World(work=Counting().hold()), asyncio.Event()
    daemon = asyncio.create_task(
        world.build_scheduler().run_forever(asyncio.Event(), giving_way=giving_way)
    )
    await world.work.is_enough.wait()
    giving_way.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert not daemon.done()
    world.work.may_end.set()
    await daemon
    [run] = await world.backend.tenant(ACME).runs.list_runs()
    assert run.state is RunState.DONE
