"""A schema grows step by step: each step once, whole or not at all, and no row is lost to it."""

import json
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta

import apsw
import pytest

from kit.old_files import AT, changed_rows, dump, make_file, schema
from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.db.migrations import Migration, list_pending

NAMES = [str(step) for step in SCHEMA.sqlite]
STATEMENTS = [re.split(r"(?<=;)\n(?=CREATE)", step.script.strip()) for step in SCHEMA.sqlite]


async def migrated(path):
    backend = SqliteBackend(path)
    try:
        return await backend.migrate()
    finally:
        await backend.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "stoker.db"


@pytest.mark.parametrize("version", range(SCHEMA.version + 1))
async def test_no_row_of_an_earlier_version_is_lost_or_changed(path, version, record_property):
    make_file(path, version=version, rows=300)
    before = dump(path)

    assert await migrated(path) == NAMES[version:]

    changed, n = changed_rows(before, path), sum(map(len, before.values()))
    record_property("fault", f"migration from version {version}: n={n} rows, {changed} changed")
    assert changed == 0


@pytest.mark.parametrize("version", range(SCHEMA.version))
async def test_every_way_leads_to_the_same_schema(path, version, tmp_path):
    make_file(path, version=version, rows=3)
    await migrated(path)
    await migrated(tmp_path / "fresh.db")
    assert schema(path) == schema(tmp_path / "fresh.db")


async def test_what_an_earlier_version_wrote_is_still_read(path):
    make_file(path, version=1, rows=5)
    await migrated(path)

    backend = SqliteBackend(path)
    runs = backend.tenant(TenantId("acme")).runs
    [run] = await runs.list_runs()
    assert (run.reason, run.manifest.config, run.key.fencing_token) == (
        "ünï 🙂",
        {"days": 30},
        7,
    )
    at = datetime.fromisoformat(AT)
    found = [await page(at) for page in (runs.list_jobs, runs.list_enriched, runs.list_scores)]
    assert [len(page) for page in found] == [5, 5, 5]
    await backend.close()


async def test_migrating_again_does_nothing(path):
    assert await migrated(path) == NAMES
    before = path.read_bytes()
    assert await migrated(path) == []
    assert path.read_bytes() == before


async def test_a_current_file_is_found_so_without_waiting_for_another_process_that_writes(path):
    await migrated(path)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")

    backend = SqliteBackend(path, busy=timedelta(0))
    taken = await backend.migrate()
    await backend.close()
    assert taken == []
    other.close()


async def test_an_older_file_is_not_used_before_it_is_migrated(path):
    make_file(path, version=1, rows=3)

    backend = SqliteBackend(path)
    assert await backend.schema_version() == 1
    with pytest.raises(ConfigError, match="stoker db migrate"):
        await backend.tenant(TenantId("acme")).runs.list_runs()
    await backend.migrate()
    assert await backend.schema_version() == SCHEMA.version
    assert len(await backend.tenant(TenantId("acme")).runs.list_runs()) == 1
    await backend.close()


async def test_a_newer_file_is_refused_and_left_alone(path):
    make_file(path, version=SCHEMA.version, rows=3)
    with apsw.Connection(str(path)) as db:
        db.execute("UPDATE meta SET value = '99'")
    db.close()
    before = path.read_bytes()

    backend = SqliteBackend(path)
    runs = backend.tenant(TenantId("acme")).runs
    for verb in (backend.migrate(), runs.list_runs(), runs.delete_runs([])):
        with pytest.raises(ConfigError, match="99, newer than this Stoker knows"):
            await verb
    assert await backend.schema_version() == 99
    await backend.close()
    assert path.read_bytes() == before


def test_steps_are_taken_in_order_from_where_the_schema_is():
    everything = SCHEMA.version
    assert [step.number for step in list_pending(SCHEMA.sqlite[:3], version=1, where="x")] == [2, 3]
    assert not list_pending(SCHEMA.sqlite, version=everything, where="x")
    with pytest.raises(ConfigError, match="numbered"):
        list_pending([Migration(number=2, name="two", script="")], version=0, where="x")


MIGRATE = """
import asyncio, sys
from stoker.backends.sqlite import SqliteBackend

async def main():
    backend = SqliteBackend(sys.argv[1])
    print(*await backend.migrate(), sep="\\n")
    await backend.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("version", [None, 1])
def test_of_many_that_migrate_at_once_each_step_is_taken_by_one(path, version):
    if version:
        make_file(path, version=version, rows=20)
    command = [sys.executable, "-c", MIGRATE, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    steps = Counter(step for one in running for step in one.communicate()[0].split("\n") if step)
    assert [one.returncode for one in running] == [0] * 4
    assert steps == Counter(NAMES[version or 0 :])


# Killed in the middle of a step. `crash()` is called between two statements of it.

OURS = """
import json, os, signal, sys
from datetime import timedelta
from pathlib import Path
from stoker.db.migrations import Migration, Schema
from stoker.db.sqlite_file import apply_migrations, open_writer

path, steps = Path(sys.argv[1]), [Migration(**step) for step in json.loads(sys.argv[2])]
busy = timedelta(seconds=30)
db = open_writer(path, busy=busy, create=True)
db.create_scalar_function("crash", lambda: os.kill(os.getpid(), signal.SIGKILL))
schema = Schema([step.name for step in steps], list)
schema.sqlite = tuple(steps)
apply_migrations(db, path, schema, busy=busy)
"""


def killed(path, *, step, after):
    """Run a script that dies in this step, after so many of its statements."""
    statements = list(STATEMENTS[step])
    statements.insert(after, "SELECT crash();")
    steps = [
        {"number": one.number, "name": one.name, "script": one.script}
        for one in SCHEMA.sqlite[:step]
    ]
    last = SCHEMA.sqlite[step]
    steps.append({"number": last.number, "name": last.name, "script": "\n".join(statements)})
    done = subprocess.run([sys.executable, "-c", OURS, str(path), json.dumps(steps)], check=False)
    assert done.returncode == -9


def is_between_versions(path):
    """Say whether a file has the tables of no version there ever was."""
    whole = [set()]
    for step in SCHEMA.sqlite:
        made = set(re.findall(r"CREATE (?:TABLE|TRIGGER|INDEX|VIEW) (\w+)", step.script))
        gone = set(re.findall(r"DROP (?:TRIGGER|INDEX|VIEW) (\w+)", step.script))
        whole.append((whole[-1] - gone) | made)
    made = {name for _, name, _ in schema(path) if not name.startswith("sqlite_")}
    return made not in whole


POINTS = [(step, n) for step, some in enumerate(STATEMENTS) for n in range(len(some) + 1)]


@pytest.mark.parametrize(("step", "after"), POINTS)
async def test_a_kill_inside_a_step_leaves_the_version_before_and_the_rest_is_taken_later(
    path, step, after
):
    killed(path, step=step, after=after)
    assert not is_between_versions(path)
    assert await migrated(path) == NAMES[step:]
