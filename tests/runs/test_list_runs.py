"""Runs are listed by kind, state and time, the same in every store."""

from datetime import UTC, datetime, timedelta

import pytest

from contracts.backends import ACME
from stoker.backends.json import JsonBackend
from stoker.backends.sqlite import MemoryBackend, SqliteBackend
from stoker.base.types import TenantId
from stoker.runs.cancel import close_dead_runs
from stoker.runs.leases import LeaseHolder
from stoker.runs.model import Run, RunKey, RunState
from stoker.runs.service import Runner
from stoker.testing import EventRecorder, FakeClock

START = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def memory(folder):
    return MemoryBackend()


def sqlite(folder):
    return SqliteBackend(folder / "stoker.sqlite3")


def json_files(folder):
    return JsonBackend(folder / "runs")


async def fill(store):
    """Insert four runs an hour apart: two kinds, the first and the last still running."""
    for n, (kind, ends) in enumerate([("a", False), ("a", True), ("b", True), ("a", False)]):
        run = Run(key=RunKey(START + n * HOUR, 1), kind=kind)
        await store.insert_run(run)
        if ends:
            await store.finish_run(run.end(RunState.DONE, at=run.at + HOUR))


@pytest.mark.parametrize("build_backend", [memory, sqlite, json_files])
@pytest.mark.parametrize(
    ("wanted", "hours"),
    [
        ({}, [3, 2, 1, 0]),
        ({"kind": "a"}, [3, 1, 0]),
        ({"state": RunState.RUNNING}, [3, 0]),
        ({"state": RunState.DONE, "kind": "a"}, [1]),
        ({"since": START + HOUR}, [3, 2, 1]),
        ({"since": START + HOUR, "state": RunState.DONE, "limit": 1}, [2]),
        ({"since": START + timedelta(seconds=1), "kind": "a"}, [3, 1]),
    ],
)
async def test_runs_are_listed_by_kind_state_and_time(build_backend, wanted, hours, tmp_path):
    backend = build_backend(tmp_path)
    await backend.migrate()
    store = backend.tenant(TenantId(ACME)).runs
    await fill(store)
    found = await store.list_runs(**wanted)
    await backend.close()
    assert [(run.at - START) // HOUR for run in found] == hours


async def test_closing_dead_runs_does_not_read_those_that_ended():
    store = MemoryBackend().tenant(ACME)
    await fill(store.runs)
    read = []
    list_runs = store.runs.list_runs

    async def spy(**wanted):
        found = await list_runs(**wanted)
        read.extend(found)
        return found

    store.runs.list_runs = spy
    runner = Runner(
        leases=LeaseHolder(owner="me", clock=FakeClock(), observer=EventRecorder(), length=HOUR)
    )
    by = Run(key=RunKey(START + 9 * HOUR, 1), kind="upkeep")
    closed = await close_dead_runs(store, by=by, runner=runner)

    assert len(read) == len(closed) == 2
