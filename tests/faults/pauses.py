"""B2: two schedulers, one of them stopped for longer than its lease, again and again.

Whoever comes back late finds that its run was closed, and nothing it still writes is let in. What
the two of them do is in `schedulers.py`.
"""

import asyncio
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from faults.lab import Worker, Workers
from faults.schedulers import ACME, LEASE, START, WORK, job
from faults.tally import Tally, twice
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConflictError
from stoker.base.types import Job
from stoker.context import TenantStores
from stoker.ledger.chain import find_first_break
from stoker.runs.model import Run, RunState, parse_run_name
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

TAKEOVER = 1.5  # real seconds to wait for the other scheduler to take over


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
                found = here.run(_taken_over(store, parse_run_name(name)))
                if found is not None:
                    tally.n += 1
                    left.append((found, here.run(store.runs.list_jobs(found.at))))
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
    pair = [workers.prepare(task, path=room, owner=f"p{nth}", origin=origin) for nth in range(2)]
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
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for worker, known in zip(pair, before, strict=True):
            if len(begun := _begun(worker)) > len(known):
                return worker, begun[-1][2]
        time.sleep(0.002)
    raise AssertionError(f"nobody works; they said {[worker.acks()[-5:] for worker in pair]}")


async def _taken_over(store: TenantStores, at: datetime) -> Run | None:
    """Wait until the other scheduler has closed the run; return it as it was left."""
    deadline = time.monotonic() + TAKEOVER
    while time.monotonic() < deadline:
        lease, run = await store.schedule.find_lease("run/nightly"), await store.runs.find_run(at)
        closed = run is not None and run.state is not RunState.RUNNING
        if run and closed and lease and lease.fencing_token > run.key.fencing_token:
            return run
        await asyncio.sleep(0.005)
    return None


async def _let_in(store: TenantStores, run: Run) -> list[str]:
    """Do what the stopped one may be about to do; return what was not refused."""
    again = Run(key=run.key, kind=run.kind, instant=run.instant)
    lease = await store.schedule.find_lease("run/nightly")
    assert lease is not None
    old = replace(lease, owner="stopped", fencing_token=run.key.fencing_token)
    slot = OccurrenceResult(
        schedule="nightly", due_at=START, state=OccurrenceState.STARTED, decided_at=START
    )
    late = {
        "posting": store.runs.insert_jobs(run.key, [job(run.key, 9)]),
        "end": store.runs.finish_run(again.end(RunState.DONE, at=run.at)),
        "slot": store.schedule.record_result(slot, fence=old),
    }
    accepted = []
    for what, write in late.items():
        try:
            await write
        except ConflictError:
            continue
        accepted.append(
            f"a late {what} under epoch {run.key.fencing_token} of {run.name} was let in"
        )
    return accepted


async def _judged(store: TenantStores, left: list[tuple[Run, list[Job]]]) -> list[str]:
    runs = await store.runs.list_runs()
    done = [run.instant for run in runs if run.state is RunState.DONE]
    broken = [f"{at} was done {times} times" for at, times in twice(done)]
    for run, jobs in left:
        if (await store.runs.find_run(run.at), await store.runs.list_jobs(run.at)) != (run, jobs):
            broken.append(f"run {run.name} was changed after it had been closed")
    if find_first_break(await store.ledger.list_entries(limit=1_000_000)) is not None:
        broken.append("the ledger's chain does not hold")
    return broken


def _begun_twice(tally: Tally, pair: list[Worker]) -> list[str]:
    instants = [ack[1] for worker in pair for ack in _begun(worker)]
    tally.acked += len(instants)
    return [f"{at} was begun {times} times" for at, times in twice(instants)]


def _begun(worker: Worker) -> list[Any]:
    return [ack for ack in worker.acks() if ack[0] == "began"]
