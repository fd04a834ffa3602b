"""What is special about Postgres: setting it up, growing it, saying in one line what is wrong."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import conninfo

from faults.pg_trials import ACME, GLOBEX, SHARED, START, TABLES, fill
from pg import PASSWORD, empty_database, fresh_database, session_server, url
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.base.errors import ConfigError, ConflictError, PermanentError, TransientError
from stoker.db.migrations import Migration
from stoker.db.postgres import BEGIN_READ, BEGIN_WRITE, to_driver_query
from stoker.db.postgres_setup import create_roles_and_schema, migrate
from stoker.ledger.chain import NewEntry, find_first_break

NOTE = NewEntry(at=START, kind="k", subject="s", reason="r")


def run_with(app_url, work, **options):
    async def whole():
        backend = PostgresBackend(app_url, **options)
        try:
            return await work(backend)
        finally:
            await backend.close()

    return asyncio.run(whole())


def entries(backend):
    return backend.tenant(ACME).ledger.list_entries()


# Setting up


def test_setting_up_twice_is_once(postgres):
    admin_url, app_url = empty_database(postgres)
    first, second = (
        create_roles_and_schema(admin_url, app_url, SCHEMA.postgres),
        create_roles_and_schema(admin_url, app_url, SCHEMA.postgres),
    )
    assert [str(step) for step in SCHEMA.postgres] == first[-SCHEMA.version :]
    assert not set(second) & {str(step) for step in SCHEMA.postgres}
    assert run_with(app_url, entries) == []


def test_many_may_set_up_the_same_database_at_once(postgres):
    admin_url, app_url = empty_database(postgres)
    with ThreadPoolExecutor(4) as lanes:
        told = list(
            lanes.map(
                lambda _: create_roles_and_schema(admin_url, app_url, SCHEMA.postgres), range(4)
            )
        )
    assert sum(str(SCHEMA.postgres[0]) in said for said in told) == 1
    assert run_with(app_url, entries) == []


def test_what_is_set_up_never_says_the_password(postgres):
    admin_url, app_url = empty_database(postgres)
    assert PASSWORD not in " ".join(create_roles_and_schema(admin_url, app_url, SCHEMA.postgres))
    assert PASSWORD not in (postgres.data / "log").read_text(errors="replace")


def test_an_administrator_who_is_no_superuser_can_set_up_a_database_of_its_own(postgres):
    admin_url, app_url = empty_database(postgres)
    name = conninfo.conninfo_to_dict(admin_url)["dbname"]
    with psycopg.connect(admin_url) as admin:
        admin.execute(f"CREATE ROLE lead_{name} LOGIN CREATEROLE PASSWORD 'x'")
        admin.execute(f"ALTER DATABASE {name} OWNER TO lead_{name}")
        admin.execute(f"ALTER SCHEMA public OWNER TO lead_{name}")
        # The owner role belongs to the whole server and may be there from another database.
        admin.execute(
            "DO $$ BEGIN CREATE ROLE stoker_owner NOLOGIN;"
            " EXCEPTION WHEN duplicate_object THEN END $$"
        )
        admin.execute(f"GRANT stoker_owner TO lead_{name} WITH ADMIN OPTION")
    lead_url = url(postgres, user=f"lead_{name}", database=name, password="x")
    create_roles_and_schema(lead_url, app_url, SCHEMA.postgres)
    assert run_with(app_url, entries) == []


def test_a_role_that_had_too_much_is_made_to_fit(postgres):
    admin_url, app_url = empty_database(postgres)
    name = conninfo.conninfo_to_dict(app_url)["user"]
    with psycopg.connect(admin_url) as admin:
        admin.execute(f"CREATE ROLE {name} SUPERUSER BYPASSRLS CREATEROLE CREATEDB")
    create_roles_and_schema(admin_url, app_url, SCHEMA.postgres)
    assert run_with(app_url, entries) == []


def test_grants_are_made_exact_again_by_setting_up(postgres):
    admin_url, app_url = fresh_database(postgres)
    name = conninfo.conninfo_to_dict(app_url)["user"]
    with psycopg.connect(admin_url) as admin:
        admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA stoker TO {name}")
    with pytest.raises(ConfigError, match="grant of"):
        run_with(app_url, entries)
    create_roles_and_schema(admin_url, app_url, SCHEMA.postgres)
    assert run_with(app_url, entries) == []


def test_an_app_url_that_row_security_would_not_bind_is_refused(postgres):
    admin_url, _ = empty_database(postgres)
    with pytest.raises(ConfigError, match="name another user"):
        create_roles_and_schema(admin_url, admin_url, SCHEMA.postgres)


def test_the_two_urls_must_name_one_database(postgres):
    (admin_url, _), (_, app_url) = empty_database(postgres), empty_database(postgres)
    with pytest.raises(ConfigError, match="different databases"):
        create_roles_and_schema(admin_url, app_url, SCHEMA.postgres)


def test_an_admin_without_the_right_is_told_what_is_needed(postgres):
    admin_url, app_url = fresh_database(postgres)
    database = conninfo.conninfo_to_dict(admin_url)["dbname"]
    other = url(postgres, user="somebody_new", database=database)
    with pytest.raises(ConfigError, match="may make roles"):
        create_roles_and_schema(app_url, other, SCHEMA.postgres)


# Growing


def test_a_database_that_was_never_set_up_says_so(postgres):
    admin_url, _ = empty_database(postgres)
    with pytest.raises(ConfigError, match="stoker db setup"):
        migrate(admin_url, SCHEMA.postgres)


@pytest.mark.parametrize("version", range(1, SCHEMA.version))
def test_a_database_from_any_earlier_version_keeps_its_rows(postgres, version):
    admin_url, app_url = empty_database(postgres)
    create_roles_and_schema(admin_url, app_url, SCHEMA.postgres[:version])
    with pytest.raises(ConfigError, match="stoker db migrate"):
        run_with(app_url, entries)
    with psycopg.connect(admin_url) as admin:
        admin.execute(OLD_ROWS)
        before = rows_of(admin)
    assert migrate(admin_url, SCHEMA.postgres) == [str(step) for step in SCHEMA.postgres[version:]]
    with psycopg.connect(admin_url) as admin:
        assert rows_of(admin) == before
    assert run_with(app_url, entries) == []


OLD_ROWS = """
INSERT INTO stoker.runs SELECT 'acme', timestamptz '2030-01-01' + n * interval '1 s', 'k', 'DONE',
    NULL, 1, now(), 'r' || n, '', '{}' FROM generate_series(1, 1000) n
"""


def rows_of(link):
    return link.execute("SELECT r::text FROM stoker.runs r ORDER BY 1").fetchall()


def test_the_program_refuses_a_newer_database_and_leaves_it_alone(postgres):
    admin_url, app_url = empty_database(postgres)
    newer = (
        *SCHEMA.postgres,
        Migration(number=SCHEMA.version + 1, name="later", script="SELECT 1"),
    )
    create_roles_and_schema(admin_url, app_url, newer)
    for attempt in (
        lambda: run_with(app_url, entries),
        lambda: migrate(admin_url, SCHEMA.postgres),
    ):
        with pytest.raises(ConfigError, match="upgrade Stoker"):
            attempt()


def test_a_step_that_fails_leaves_no_trace(postgres):
    admin_url, app_url = empty_database(postgres)
    broken = Migration(number=2, name="broken", script="CREATE TABLE stoker.x (); SELECT 1/0")
    with pytest.raises(PermanentError, match="division"):
        create_roles_and_schema(admin_url, app_url, (SCHEMA.postgres[0], broken))
    assert run_with(app_url, lambda backend: backend.schema_version()) == 1
    with psycopg.connect(admin_url) as admin:
        assert admin.execute("SELECT to_regclass('stoker.x')").fetchone() == (None,)


def test_the_app_itself_never_migrates(postgres):
    admin_url, app_url = empty_database(postgres)
    create_roles_and_schema(admin_url, app_url, SCHEMA.postgres[:1])
    with pytest.raises(ConfigError, match=r"--admin-url"):
        run_with(app_url, lambda backend: backend.migrate())
    migrate(admin_url, SCHEMA.postgres)
    assert run_with(app_url, lambda backend: backend.migrate()) == []


def test_every_table_says_what_the_app_may_do_with_it(postgres):
    admin_url, _ = fresh_database(postgres)
    with psycopg.connect(admin_url) as admin:
        tables = admin.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'stoker' UNION ALL"
            " SELECT viewname FROM pg_views WHERE schemaname = 'stoker'"
        )
        granted = {name for step in SCHEMA.postgres for name in step.grants}
        assert {name for (name,) in tables} == granted
        assert granted == {"meta", *TABLES, *SHARED}, "a table that nobody attacks"


# What is wrong, in one line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stoker.db",
        "mysql://u:secret@h/d",
        "postgresql://u:secret@h:port/d",
        "host=h password=secret",
    ],
)
def test_what_is_not_a_postgres_url_is_refused_without_repeating_it(text):
    with pytest.raises(ConfigError, match="postgresql://user:password@host/database") as refused:
        PostgresBackend(text)
    assert "secret" not in str(refused.value)


def test_a_database_that_is_not_there_is_a_matter_of_configuration(postgres):
    with pytest.raises(ConfigError, match="is not there"):
        run_with(url(postgres, user="postgres", database="nowhere"), entries)


def test_a_server_that_is_not_there_may_come_back(tmp_path):
    with pytest.raises(TransientError, match="is it running"):
        run_with(f"postgresql://app:{'s3cret'}@/stoker?host={tmp_path}", entries)


def test_nobody_listening_on_a_port_may_come_back():
    with pytest.raises(TransientError, match="is it running") as refused:
        run_with("postgresql://app:s3cret@127.0.0.1:1/stoker", entries)
    assert "s3cret" not in str(refused.value)


def test_checks_tell_what_is_wrong_and_raise_nothing(postgres, tmp_path):
    admin_url, app_url = fresh_database(postgres)
    good = {check.what: check for check in run_with(app_url, lambda backend: backend.checks())}
    assert [what for what, check in good.items() if not check.ok] == ["durability"]
    assert "fsync = off" in good["durability"].detail  # as the tests' own server has it

    as_admin = {
        check.what: check for check in run_with(admin_url, lambda backend: backend.checks())
    }
    assert not as_admin["row security"].ok
    assert "superuser" in as_admin["row security"].detail

    [nowhere] = run_with(f"postgresql://a@/b?host={tmp_path}", lambda backend: backend.checks())
    assert not nowhere.ok


def test_without_its_driver_the_module_says_what_to_install():
    asked = "import sys; sys.modules['psycopg'] = None; import stoker.db.postgres"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=False
    )
    assert "pip install 'stoker[postgres]'" in done.stderr.splitlines()[-1]


# Transactions


@pytest.mark.parametrize(
    ("ours", "drivers"),
    [
        ("SELECT :a, :b_2, ?", "SELECT %(a)s, %(b_2)s, %s"),
        ("SELECT :a::text, x::int", "SELECT %(a)s::text, x::int"),
        ("SELECT '12:30 ?' WHERE a LIKE 'x%' AND b % 2 = :c", None),
    ],
)
def test_places_for_values_are_said_in_the_drivers_way(ours, drivers):
    expected = drivers or "SELECT '12:30 ?' WHERE a LIKE 'x%%' AND b %% 2 = %(c)s"
    assert to_driver_query(ours).decode() == expected


def test_a_reader_cannot_write(postgres):
    _, app_url = fresh_database(postgres)

    async def write(backend):
        remove = "DELETE FROM runs"
        with pytest.raises(TransientError, match="reads"):
            await backend.transact(ACME, BEGIN_READ, lambda tx: tx.execute(remove))

    run_with(app_url, write)


def test_an_error_in_the_work_takes_everything_back(postgres):
    _, app_url = fresh_database(postgres)

    async def work(backend):
        await fill(backend, tenants=[ACME])

        def half(tx):
            assert tx.execute("DELETE FROM scores") == 3
            raise ConflictError("changed our mind")

        with pytest.raises(ConflictError):
            await backend.transact(ACME, BEGIN_WRITE, half)
        return await backend.tenant(ACME).runs.list_scores(START)

    assert len(run_with(app_url, work)) == 3


def test_many_writers_leave_one_ledger_without_gaps(postgres):
    _, app_url = fresh_database(postgres)

    async def write(backend):
        store = backend.tenant(ACME)
        await asyncio.gather(*(store.ledger.append([NOTE, NOTE]) for _ in range(50)))
        return await store.ledger.list_entries()

    kept = run_with(app_url, write, connections=8)
    assert len(kept) == 100
    assert find_first_break(kept) is None


async def test_one_backend_serves_one_event_loop_after_another(postgres):
    _, app_url = fresh_database(postgres)
    backend = PostgresBackend(app_url)
    store = backend.tenant(ACME)
    await store.ledger.append([NOTE])
    assert len(await store.ledger.list_entries()) == 1
    await backend.close()
    await backend.close()


async def test_a_tenants_name_that_is_none_opens_no_door(postgres):
    _, app_url = fresh_database(postgres)
    backend = PostgresBackend(app_url)
    with pytest.raises(ConfigError, match="is not a tenant id"):
        backend.tenant("acme'; DROP TABLE runs; --")
    await backend.close()


def test_a_key_too_long_for_an_index_is_refused_for_good(postgres):
    _, app_url = fresh_database(postgres)
    chance = random.Random(1)  # what repeats itself would be compressed until it fits
    long = "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(30_000))

    async def write(backend):
        with pytest.raises(PermanentError, match="too long"):
            await backend.transact(
                ACME,
                BEGIN_WRITE,
                lambda tx: tx.execute(
                    "INSERT INTO leases VALUES (:tenant, :name, '', 1, 1, now(), '')",
                    tenant=ACME,
                    name=long,
                ),
            )

    run_with(app_url, write)


async def test_closing_waits_for_what_was_asked(postgres):
    _, app_url = fresh_database(postgres)

    backend = PostgresBackend(app_url)
    asked = [asyncio.create_task(backend.tenant(GLOBEX).ledger.append([NOTE])) for _ in range(10)]
    await asyncio.sleep(0)
    await backend.close()
    assert len(await asyncio.gather(*asked)) == 10


def test_the_session_has_one_server(postgres):
    assert session_server() is postgres
