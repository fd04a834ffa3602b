"""A10: wall clocks that jump under a scheduler, and what must be true of its decisions after.

The naive twin remembers only the date it last ran on, as many a script does.
"""

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from faults.tally import Tally, twice
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import TenantId
from stoker.calendar.recurrence import Cron, Interval, Schedule, Window
from stoker.ledger.chain import find_first_break
from stoker.runs.leases import LeaseHolder
from stoker.runs.model import Manifest, RunState
from stoker.runs.service import RunHandle, Runner, RunResult
from stoker.scheduling.model import OccurrenceState
from stoker.scheduling.service import Scheduler, Task
from stoker.testing import EventRecorder, FakeClock

ACME = TenantId("acme")
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
JUMPS = 5  # in one trial; a clock that went to 2038 and came back has nothing more to tell
SCHEDULES: list[Schedule] = [
    Window.parse("00:00"),
    Window.parse("11:00"),
    Cron("*/20 * * * *", "UTC"),
    Cron("30 1 * * *", "America/New_York"),
    Interval(timedelta(minutes=45)),
]


def jumps(rng: random.Random, now: datetime) -> Iterator[datetime]:
    """Yield what the wall clock shows next, a few times: the jumps an operator fears."""
    kind = rng.choice(["back", "on", "day", "flap", "flap", "1970", "2038"])
    midnight = now.replace(hour=0, minute=0, second=0) + timedelta(days=1)
    yield from {
        "back": [now - HOUR, now],
        "on": [now + HOUR, now],
        "day": [now + timedelta(days=1), now],
        "flap": [midnight - SECOND, midnight + SECOND, midnight - SECOND, midnight + SECOND],
        "1970": [datetime(1970, 1, 1, tzinfo=UTC), now],
        "2038": [datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), now],
    }[kind]


class _Quick:
    kind = "nightly"

    async def __call__(self, run: RunHandle) -> RunResult:
        return RunResult()


def jump_trials(*, n: int, rng: random.Random) -> Tally:
    """Let the clock jump at least n times, a few in each fresh store; judge every store."""
    tally = Tally()
    while tally.n < n:
        schedule = rng.choice(SCHEDULES)
        tally += asyncio.run(_one_store(schedule, rng))
    return tally


async def _one_store(schedule: Schedule, rng: random.Random) -> Tally:
    start = datetime(2030, 3, 9, tzinfo=UTC) + timedelta(seconds=rng.randrange(172_800))
    tally, clock, backend = Tally(), FakeClock(start), MemoryBackend()
    task = Task(tenant=ACME, job=_Quick(), schedule=schedule, manifest=Manifest())

    def restarted(owner: int) -> Scheduler:
        # Restarted after every jump: what it must remember, it must have written down.
        holder = LeaseHolder(owner=f"p{owner}", clock=clock, observer=EventRecorder(), length=HOUR)
        return Scheduler([task], backend=backend, runner=Runner(leases=holder))

    await restarted(0).run_once()
    for _ in range(JUMPS):
        for shown in jumps(rng, clock.now()):
            clock.jump(shown)
            await restarted(tally.n).run_once()
            clock.advance(timedelta(seconds=rng.randrange(1_800)))
            await restarted(tally.n).run_once()
            tally.n += 1
    store = backend.tenant(ACME)
    runs = await store.runs.list_runs()
    tally.acked = len(runs)
    ran = [run.instant for run in runs if run.state is RunState.DONE]
    tally.broken += [f"{schedule}: {at} ran {times} times" for at, times in twice(ran)]
    entries = await store.ledger.list_entries(limit=100_000)
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        tally.broken.append(f"{schedule}: the ledger's numbers have gaps")
    if find_first_break(entries) is not None:
        tally.broken.append(f"{schedule}: the ledger's chain does not hold")
    started = [slot for slot in await store.schedule.list_results("nightly") if slot.run_at]
    if sorted(slot.due_at for slot in started) != sorted(at for at in ran if at):
        tally.broken.append(f"{schedule}: what ran is not what was written down as STARTED")
    if any(slot.state is not OccurrenceState.STARTED for slot in started):
        tally.broken.append(f"{schedule}: a slot that was passed over has a run")
    return tally


def naive_jump_trials(*, n: int, rng: random.Random) -> Tally:
    """The twin: run when the date is not the one of the last run."""
    tally = Tally()
    while tally.n < n:
        clock = FakeClock(datetime(2030, 3, 9, 12, tzinfo=UTC))
        last = clock.now().date()
        ran = [last]
        for shown in jumps(rng, clock.now()):
            clock.jump(shown)
            tally.n += 1
            if clock.now().date() != last:
                last = clock.now().date()
                ran.append(last)
        tally.broken += [f"{day} ran {times} times" for day, times in twice(ran)]
    return tally
