"""B2: two schedulers, one of them stopped for longer than its lease, again and again.

The minutes of their wall clock go by in a tenth of a second, so that there is always something
due. The naive twin has a lease too, but nothing that refuses a holder who comes back late.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faults.lab import Worker, Workers
from faults.tally import Tally, twice
from stoker.core.cadence import Cron
from stoker.core.events import Event
from stoker.core.ledger import first_break
from stoker.core.model import Job, TenantId
from stoker.core.runs import Manifest, Run, RunKey, RunState, run_at
from stoker.core.slots import Slot, SlotState
from stoker.engine.leasing import Leaseholder
from stoker.engine.running import Ending, OpenRun
from stoker.engine.scheduler import Scheduler, Task
from stoker.errors import ConflictError
from stoker.ports import Store
from stoker.stores.sqlite import SqliteBackend

ACME = TenantId("acme")
START = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE, LEASE = 0.12, 0.1  # real seconds that pass for a minute; the length of a lease
WORK = 0.03  # real seconds that a run takes
TAKEOVER = 1.5  # real seconds to wait for somebody else to step in
Say = Callable[..., None]


class _QuickMinutes:
    """A clock whose minutes take a fraction of a second; the same in every process."""

    def __init__(self, origin: float) -> None:
        self._origin = origin

    def now(self) -> datetime:
        minutes, rest = divmod(time.monotonic() - self._origin, MINUTE)
        return START + timedelta(minutes=minutes, seconds=rest)

    def elapsed(self) -> timedelta:
        return timedelta(seconds=time.monotonic())

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(duration.total_seconds())


class _TwoWrites:
    """Work that can be stopped between its two writes."""

    kind = "nightly"

    def __init__(self, say: Say) -> None:
        self._say = say

    async def __call__(self, run: OpenRun) -> Ending:
        kept = await run.store.runs.run(run.key.at)
        assert kept is not None
        self._say("began", kept.instant, kept.name, kept.key.epoch)
        for nth in range(2):
            try:
                await run.store.runs.insert_jobs(run.key, [_job(run.key, nth)])
            except ConflictError:
                self._say("refused", kept.name)
                raise
            await asyncio.sleep(WORK / 2)
        return Ending()


async def schedule(order: dict[str, Any], say: Say) -> None:
    """Be a scheduler until killed."""

    def told(event: Event) -> None:
        say("event", type(event).__name__)

    clock = _QuickMinutes(order["origin"])
    backend = SqliteBackend(Path(order["path"]) / "stoker.db")
    length = timedelta(seconds=LEASE)
    task = Task(
        tenant=ACME,
        work=_TwoWrites(say),
        schedule=Cron("* * * * *", "UTC"),
        manifest=Manifest(),
    )
    scheduler = Scheduler(
        [task],
        backend=backend,
        leaseholder=Leaseholder(owner=order["owner"], clock=clock, observer=told, length=length),
        clock=clock,
        observer=told,
    )
    while True:
        await scheduler.tick()
        await asyncio.sleep(0.01)


async def schedule_naively(order: dict[str, Any], say: Say) -> None:
    """The twin: whoever has the lease does what is not done yet, and says so afterwards."""
    db = sqlite3.connect(Path(order["path"]) / "twin.db", isolation_level=None, timeout=30)
    while True:
        now = time.monotonic()
        took = db.execute(
            "UPDATE lease SET owner = ?1, until = ?2 WHERE owner = ?1 OR until < ?3",
            (order["owner"], now + LEASE, now),
        ).rowcount
        [[done]] = db.execute("SELECT coalesce(max(n), -1) FROM done").fetchall()
        due = int((now - order["origin"]) / MINUTE)
        if took and done < due:
            say("began", due, str(due), 0)
            await asyncio.sleep(WORK)
            db.execute("INSERT INTO done VALUES (?)", (due,))
        await asyncio.sleep(0.01)


def paused(workers: Workers, *, n: int, rng: random.Random) -> Tally:
    """Stop whichever scheduler is at work, n times, until the other has taken over."""
    room, tally = workers.room(), Tally()
    with asyncio.Runner() as here:
        backend = SqliteBackend(room / "stoker.db")
        here.run(backend.migrate())
        store = backend.tenant(ACME)
        left: list[tuple[Run, list[Job]]] = []
        with _two(workers, "schedule", room) as pair:
            for _ in range(4 * n):  # now and then nobody takes over in time, and it counts for none
                if tally.n == n:
                    break
                worker, name = _at_work(pair)
                time.sleep(rng.uniform(0, WORK))
                worker.signal(signal.SIGSTOP)
                found = here.run(_taken_over(store, run_at(name)))
                if found is not None:
                    tally.n += 1
                    left.append((found, here.run(store.runs.jobs(found.at))))
                    tally.broken += here.run(_let_in(store, found))
                worker.signal(signal.SIGCONT)
        if not any(run.state is RunState.FAILED for run, _ in left):
            tally.broken.append("nobody was ever stopped in the middle of a run: nothing is shown")
        tally.broken += _begun_twice(tally, pair)
        tally.broken += here.run(_judged(store, left))
        here.run(backend.close())
    return tally


def paused_naively(workers: Workers, *, n: int, rng: random.Random) -> Tally:
    """The same pauses on the naive twin."""
    room, tally = workers.room(), Tally()
    with closing(sqlite3.connect(room / "twin.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE lease (owner TEXT, until REAL)")
        db.execute("INSERT INTO lease VALUES ('', 0)")
        db.execute("CREATE TABLE done (n INTEGER)")
    with _two(workers, "schedule naively", room) as pair:
        for _ in range(n):
            worker, _name = _at_work(pair)
            time.sleep(rng.uniform(0, WORK))
            worker.signal(signal.SIGSTOP)
            time.sleep(2 * LEASE)
            worker.signal(signal.SIGCONT)
            tally.n += 1
    tally.broken += _begun_twice(tally, pair)
    with closing(sqlite3.connect(room / "twin.db")) as db:
        done = [n for (n,) in db.execute("SELECT n FROM done")]
        tally.broken += [f"{at} was done {times} times" for at, times in twice(done)]
    return tally


@contextmanager
def _two(workers: Workers, task: str, room: Path) -> Iterator[list[Worker]]:
    origin = time.monotonic()
    pair = [workers.start(task, path=room, owner=f"p{nth}", origin=origin) for nth in range(2)]
    for worker in pair:
        worker.release()
    try:
        yield pair
    finally:
        for worker in pair:
            worker.kill()
            worker.wait()


def _at_work(pair: list[Worker]) -> tuple[Worker, str]:
    """Wait until one of them begins a run; return it and the run's name."""
    before = [_begun(worker) for worker in pair]
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for worker, known in zip(pair, before, strict=True):
            if len(begun := _begun(worker)) > len(known):
                return worker, begun[-1][2]
        time.sleep(0.002)
    raise AssertionError(f"nobody works; they said {[worker.acks()[-5:] for worker in pair]}")


async def _taken_over(store: Store, at: datetime) -> Run | None:
    """Wait until the run is closed by somebody else; return it as it was left."""
    deadline = time.monotonic() + TAKEOVER
    while time.monotonic() < deadline:
        lease, run = await store.schedule.lease("run/nightly"), await store.runs.run(at)
        closed = run is not None and run.state is not RunState.RUNNING
        if run and closed and lease and lease.epoch > run.key.epoch:
            return run
        await asyncio.sleep(0.005)
    return None


async def _let_in(store: Store, run: Run) -> list[str]:
    """Do what the stopped one may be about to do; return what was not refused."""
    again = Run(key=run.key, kind=run.kind, instant=run.instant)
    lease = await store.schedule.lease("run/nightly")
    assert lease is not None
    old = type(lease)(
        name=lease.name,
        owner="p-stopped",
        epoch=run.key.epoch,
        beat=lease.beat,
        until=lease.until,
    )
    slot = Slot(schedule="nightly", instant=START, state=SlotState.STARTED, decided_at=START)
    late = {
        "posting": store.runs.insert_jobs(run.key, [_job(run.key, 9)]),
        "end": store.runs.finish_run(again.ended(RunState.DONE, at=run.at)),
        "slot": store.schedule.decide_slot(slot, fence=old),
    }
    accepted = []
    for what, write in late.items():
        try:
            await write
        except ConflictError:
            continue
        accepted.append(f"a late {what} under epoch {run.key.epoch} of {run.name} was let in")
    return accepted


async def _judged(store: Store, left: list[tuple[Run, list[Job]]]) -> list[str]:
    runs = await store.runs.runs()
    done = [run.instant for run in runs if run.state is RunState.DONE]
    broken = [f"{at} was done {times} times" for at, times in twice(done)]
    for run, jobs in left:
        if (await store.runs.run(run.at), await store.runs.jobs(run.at)) != (run, jobs):
            broken.append(f"run {run.name} was changed after it had been closed")
    if first_break(await store.ledger.entries(limit=1_000_000)) is not None:
        broken.append("the ledger's chain does not hold")
    return broken


def _begun_twice(tally: Tally, pair: list[Worker]) -> list[str]:
    instants = [ack[1] for worker in pair for ack in _begun(worker)]
    tally.acked += len(instants)
    return [f"{at} was begun {times} times" for at, times in twice(instants)]


def _begun(worker: Worker) -> list[Any]:
    return [ack for ack in worker.acks() if ack[0] == "began"]


def _job(key: RunKey, nth: int) -> Job:
    return Job.found(source="b2", url=f"https://example.test/{key.at}/{key.epoch}/{nth}", title="t")
