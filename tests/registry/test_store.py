"""What is special about the register in SQL: no needless writes, indexes, grants."""

import os
import subprocess
import sys
from dataclasses import replace

import apsw
import psycopg
import pytest

import pg
from contracts.knowledge import HOUR, NOW, entity, load
from faults.pg_trials import REGISTER
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.db.row_security import find_table_problems
from stoker.registry.model import LoadCount
from stoker.registry.store import IN_ORDER, SELECT_ENTITIES

TABLES = ("registry_seen", "staging_acra_companies", "staging_raw_acra")
ROWS = [entity(f"T{n:03}", ssic=f"{n:05}") for n in range(200)]


@pytest.fixture
def database(postgres):
    return pg.fresh_database(postgres)


async def read(app_url, one, rows, *, now=NOW):
    backend = PostgresBackend(app_url)
    registry = backend.registry()
    await registry.begin_load(one)
    count = await registry.load_entities(one, rows, now=now)
    await registry.end_load(replace(one, count=count), now=now)
    await backend.close()
    return count


def versions(admin_url, table):
    """Return which transaction wrote each row as it stands."""
    with psycopg.connect(admin_url) as admin:
        return dict(admin.execute(f"SELECT uen, xmin::text FROM stoker.{table}").fetchall())


async def test_the_same_file_again_writes_no_row_again(database):
    admin_url, app_url = database
    assert await read(app_url, load(), ROWS) == LoadCount(new=200)
    before = {table: versions(admin_url, table) for table in TABLES}
    assert await read(app_url, load(), ROWS, now=NOW + HOUR) == LoadCount(same=200)
    assert {table: versions(admin_url, table) for table in TABLES} == before


async def test_a_later_release_of_the_same_rows_writes_only_that_they_were_seen(database):
    admin_url, app_url = database
    await read(app_url, load(), ROWS)
    before = {table: versions(admin_url, table) for table in TABLES}
    changed = [entity("T000", name="NEW"), *ROWS[1:]]
    later = load(release="2026-02-28")
    assert await read(app_url, later, changed, now=NOW + HOUR) == LoadCount(changed=1, same=199)
    after = {table: versions(admin_url, table) for table in TABLES}
    for table in TABLES[1:]:
        assert [uen for uen in before[table] if before[table][uen] != after[table][uen]] == ["T000"]
    assert not before["registry_seen"].items() & after["registry_seen"].items()


@pytest.mark.parametrize(
    ("question", "index"),
    [
        (SELECT_ENTITIES + IN_ORDER.replace(":limit", "10"), "registry_changes"),
        (
            f"{SELECT_ENTITIES} WHERE (s.changed_at, s.uen) > (now(), 'T') {IN_ORDER}".replace(
                ":limit", "10"
            ),
            "registry_changes",
        ),
        ("SELECT uen FROM staging_acra_companies WHERE ssic LIKE '001%'", "companies_by_industry"),
    ],
)
async def test_an_index_serves_whoever_follows_changes_or_asks_for_an_industry(
    database, question, index
):
    admin_url, app_url = database
    await read(app_url, load(), ROWS)
    with psycopg.connect(admin_url) as admin:
        admin.execute("SET search_path = stoker")
        admin.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in admin.execute(f"EXPLAIN {question}").fetchall())
    assert index in plan
    if index == "registry_changes":
        assert "Sort" not in plan


async def test_an_index_serves_in_sqlite_too(tmp_path):
    path = tmp_path / "stoker.db"

    backend = SqliteBackend(path)
    await backend.migrate()
    await backend.close()
    db = apsw.Connection(str(path))
    since = f"{SELECT_ENTITIES} WHERE (s.changed_at, s.uen) > ('2026', 'T') {IN_ORDER}"
    prefix = "SELECT uen FROM staging_acra_companies WHERE ssic >= '62' AND ssic < '63'"
    for question, index in ((since, "registry_changes"), (prefix, "companies_by_industry")):
        plan = db.execute(f"EXPLAIN QUERY PLAN {question.replace(':limit', '10')}").fetchall()
        assert any("USING" in row[3] and index in row[3] for row in plan), plan
        assert not any("TEMP B-TREE" in row[3] for row in plan), plan
    db.close()


@pytest.mark.parametrize("table", REGISTER)
def test_a_table_of_the_register_that_comes_to_name_tenants_is_found(database, table):
    with psycopg.connect(database[0]) as admin:
        admin.execute(f"ALTER TABLE stoker.{table} ADD COLUMN tenant_id text")
        assert [str(finding) for finding in find_table_problems(admin, SCHEMA)] == [
            f"shared table with a tenant_id ({table})"
        ]
        admin.rollback()


@pytest.mark.parametrize(
    "table", ["registry_loads", "registry_seen", "staging_acra_companies", "staging_raw_acra"]
)
def test_the_app_cannot_forget_what_the_register_said(database, table):
    with (
        psycopg.connect(database[1]) as app,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        app.execute(f"DELETE FROM stoker.{table}")


# A process that dies between batches, or in one.

READ_UNTIL_KILLED = """
import asyncio, os, signal, sys
from contracts.knowledge import NOW, entity, load
from stoker.backends.sqlite import SqliteBackend

async def main(path, batches):
    registry = SqliteBackend(path).registry()
    await registry.begin_load(load())
    for n in range(batches):
        await registry.load_entities(load(), [entity(f"T{n}-{k}") for k in range(50)], now=NOW)
        print(n, flush=True)
    def dies():
        yield entity("LAST")
        os.kill(os.getpid(), signal.SIGKILL)
    await registry.load_entities(load(), dies(), now=NOW)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("batches", [0, 1, 3])
async def test_a_kill_in_a_batch_leaves_whole_batches_and_the_file_is_read_again(tmp_path, batches):
    path = tmp_path / "stoker.db"

    async def ready():
        backend = SqliteBackend(path)
        await backend.migrate()
        await backend.close()

    async def read_again():
        backend = SqliteBackend(path)
        registry = backend.registry()
        found = await registry.list_changed_entities()
        rows = [entity(f"T{n}-{k}") for n in range(batches) for k in range(50)]
        await registry.begin_load(load())
        count = await registry.load_entities(load(), rows, now=NOW + HOUR)
        await backend.close()
        return len(found), count

    await ready()
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", READ_UNTIL_KILLED, str(path), str(batches)],
        check=False,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.returncode == -9, done.stderr.decode()
    assert len(done.stdout.split()) == batches
    assert await read_again() == (50 * batches, LoadCount(same=50 * batches))
