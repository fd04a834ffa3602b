"""The two schedulers that are paused by `pauses.py`: ours, and one with a lease and no fence.

The minutes of their wall clock go by in a tenth of a second, so that there is always something
due. Each is a program that runs until it is killed and says which instant it begins.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConflictError
from stoker.base.events import Event
from stoker.base.types import Job, TenantId
from stoker.calendar.recurrence import Cron
from stoker.runs.leases import LeaseHolder
from stoker.runs.model import Manifest, RunKey
from stoker.runs.service import RunHandle, Runner, RunResult
from stoker.scheduling.service import Scheduler, Task

ACME = TenantId("acme")
START = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE, LEASE = 0.12, 0.1  # real seconds that pass for a minute; the length of a lease
WORK = 0.03  # real seconds that a run takes
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

    async def __call__(self, run: RunHandle) -> RunResult:
        kept = await run.store.runs.find_run(run.key.at)
        assert kept is not None
        self._say("began", kept.instant, kept.name, kept.key.fencing_token)
        for nth in range(2):
            try:
                await run.store.runs.insert_jobs(run.key, [job(run.key, nth)])
            except ConflictError:
                self._say("refused", kept.name)
                raise
            await asyncio.sleep(WORK / 2)
        return RunResult()


async def schedule(order: dict[str, Any], say: Say) -> None:
    """Be a scheduler until killed."""

    def told(event: Event) -> None:
        say("event", type(event).__name__)

    clock = _QuickMinutes(order["origin"])
    backend = SqliteBackend(Path(order["path"]) / "stoker.db")
    length = timedelta(seconds=LEASE)
    task = Task(
        tenant=ACME,
        job=_TwoWrites(say),
        schedule=Cron("* * * * *", "UTC"),
        manifest=Manifest(),
    )
    scheduler = Scheduler(
        [task],
        backend=backend,
        runner=Runner(
            leases=LeaseHolder(owner=order["owner"], clock=clock, observer=told, length=length)
        ),
    )
    while True:
        await scheduler.run_once()
        await asyncio.sleep(0.01)


async def schedule_naively(order: dict[str, Any], say: Say) -> None:
    """The twin: the holder of the lease does what is due, and records it afterwards."""
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


def job(key: RunKey, nth: int) -> Job:
    """Return one of the postings a run may find."""
    return Job.create(
        source="b2", url=f"https://example.test/{key.at}/{key.fencing_token}/{nth}", title="t"
    )
