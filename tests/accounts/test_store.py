"""What is special about companies and nights in SQL: indexes, views, no needless writes."""

import asyncio
import os
import subprocess
import sys

import apsw
import psycopg
import pytest

import pg
from contracts.accounts import RUN, UNTIL, company, dossier, ended, planned, taken
from contracts.backends import ACME, UMBRELLA
from contracts.knowledge import HOUR, NOW, answer
from stoker.accounts.model import UpsertCount
from stoker.accounts.store import ORDER_AND_LIMIT, SELECT_RECORDS, WHERE_RUN
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError
from stoker.crm.schema import SENT_ROWS
from stoker.db.database import split_into_batches
from stoker.db.row_security import find_table_problems
from stoker.enrichment.store import CLAIM_ITEMS
from stoker.runs.model import Run, RunKey


@pytest.fixture
def database(postgres):
    return pg.fresh_database(postgres)


def on_postgres(app_url, scenario):
    async def whole():
        backend = PostgresBackend(app_url)
        try:
            return await scenario(backend)
        finally:
            await backend.close()

    return asyncio.run(whole())


async def on_sqlite(path, scenario):
    backend = SqliteBackend(path)
    try:
        await backend.migrate()
        return await scenario(backend)
    finally:
        await backend.close()


WHERE_SENT = SENT_ROWS.select_in("external_id")
NEXT_UNITS = CLAIM_ITEMS.format(skip_locked="").split("(", 1)[1].split("\n)\n")[0]
ASKED = {  # what is asked, and the index that must serve it without sorting
    "the next units": (NEXT_UNITS, "open_units"),
    "a page of units": (
        "SELECT depth FROM company_enrichment_runs WHERE tenant_id = :tenant AND run = :run"
        " AND place > :after ORDER BY place LIMIT :limit",
        "tenant_id_run_place",
    ),
    "the last look": (
        "SELECT max(run) FROM company_enrichment_runs WHERE tenant_id = :tenant"
        " AND company_id = :company",
        "units_by_company",
    ),
    "dossiers of a run": (SELECT_RECORDS + WHERE_RUN + ORDER_AND_LIMIT, "findings_by_run"),
    "what was last sent": (
        next(split_into_batches(WHERE_SENT, ["a"]))[0].replace(":v0", "'a'"),
        "sent_rows_by_id",
    ),
    "what a run sent": (
        "SELECT digest FROM crm_sent_rows WHERE tenant_id = :tenant AND run = :run"
        " AND external_id > :after ORDER BY external_id LIMIT :limit",
        "crm_sent_rows_pkey",
    ),
    "the best leads": (
        "SELECT company_id FROM lead_scores WHERE tenant_id = :tenant"
        " ORDER BY score DESC NULLS LAST LIMIT :limit",
        "idx_lead_scores_score",
    ),
    "who was last seen": (
        "SELECT id FROM companies WHERE tenant_id = :tenant"
        " ORDER BY last_seen DESC NULLS LAST LIMIT :limit",
        "idx_companies_last_seen",
    ),
    "a company's contacts": (
        "SELECT name FROM contacts WHERE tenant_id = :tenant AND company_id = 'T1' ORDER BY place",
        "contacts_pkey",
    ),
}
SQLITE_NAMES = {
    "tenant_id_run_place": "sqlite_autoindex_company_enrichment_runs_2",
    "crm_sent_rows_pkey": "sqlite_autoindex_crm_sent_rows_1",
    "contacts_pkey": "PRIMARY KEY",
}
VALUES = {
    ":tenant": "'acme'",
    ":run": "'r'",
    ":now": "'2026-02-07T01:30:00.000000+00:00'",
    ":after": "'1'",
    ":limit": "10",
    ":company": "'T1'",
}


def spelled_out(question):
    for name, value in VALUES.items():
        question = question.replace(name, value)
    return question


# On an empty table one index is as good as another.
SOME_SENT = """
INSERT INTO crm_sent_rows SELECT 'acme', 'r' || n % 100, 'x' || n, 'm', 'd', '{}', '{}', now()
FROM generate_series(1, 3000) n;
ANALYZE crm_sent_rows
"""


@pytest.mark.parametrize("what", ASKED)
def test_an_index_serves_each_question(database, what):
    question, index = ASKED[what]
    with psycopg.connect(database[0]) as admin:
        admin.execute("SET search_path = stoker")
        admin.execute(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off"
        )
        admin.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        admin.execute(SOME_SENT)
        answered = admin.execute(f"EXPLAIN {spelled_out(question)}").fetchall()
    plan = "\n".join(row[0] for row in answered)
    assert index in plan
    assert "Sort" not in plan


@pytest.mark.parametrize("what", ASKED)
async def test_an_index_serves_each_question_in_sqlite_too(tmp_path, what):
    async def nothing(_):
        pass

    await on_sqlite(tmp_path / "stoker.db", nothing)
    question, index = ASKED[what]
    db = apsw.Connection(str(tmp_path / "stoker.db"))
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {spelled_out(question)}").fetchall()]
    db.close()
    assert any(SQLITE_NAMES.get(index, index) in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


@pytest.mark.parametrize("view", ["enrichment_runs", "email_verification_cache"])
def test_a_view_that_runs_as_its_maker_is_found(database, view):
    with psycopg.connect(database[0]) as admin:
        admin.execute(f"ALTER VIEW stoker.{view} RESET (security_invoker)")
        assert [str(finding) for finding in find_table_problems(admin, SCHEMA)] == [
            f"view without security_invoker (stoker.{view})"
        ]
        admin.commit()

    async def ask(backend):
        await backend.tenant(ACME).work_items.list_items(RUN)

    with pytest.raises(ConfigError, match="view without security_invoker"):
        on_postgres(database[1], ask)


async def two_nights(backend):
    for name in (ACME, UMBRELLA):
        store = backend.tenant(name)
        await store.runs.insert_run(Run(key=RunKey(NOW, 1), kind="nightly"))
        await store.runs.insert_run(Run(key=RunKey(NOW + HOUR, 1), kind="discover"))
        await store.answers.save_answers([answer("v", connector="zerobounce"), answer("t")])


def test_the_views_show_nights_and_verdicts_and_only_ones_own(database):
    on_postgres(database[1], two_nights)
    with psycopg.connect(database[1]) as app:
        app.execute("SELECT set_config('request.tenant_id', 'acme', true)")
        runs = "SELECT tenant_id, run_timestamp_utc FROM stoker.enrichment_runs"
        assert app.execute(runs).fetchall() == [("acme", NOW)]
        cache = "SELECT tenant_id, key FROM stoker.email_verification_cache"
        assert app.execute(cache).fetchall() == [("acme", "v")]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute("DELETE FROM stoker.enrichment_runs")


async def test_the_views_show_the_same_in_sqlite(tmp_path):
    path = tmp_path / "stoker.db"
    await on_sqlite(path, two_nights)
    db = apsw.Connection(str(path))
    assert len(db.execute("SELECT * FROM enrichment_runs").fetchall()) == 2
    assert len(db.execute("SELECT * FROM email_verification_cache").fetchall()) == 2
    db.close()


@pytest.mark.parametrize(
    "table", ["companies", "company_enrichment_runs", "crm_sent_rows", "lead_scores", "tenants"]
)
def test_the_app_cannot_forget_companies_units_or_what_was_sent(database, table):
    with (
        psycopg.connect(database[1]) as app,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        app.execute(f"DELETE FROM stoker.{table}")


def test_the_same_companies_and_candidates_again_write_no_row_again(database):
    uens = [f"T{n:03}" for n in range(200)]

    async def put(backend):
        accounts = backend.tenant(ACME).accounts
        count = await accounts.upsert_companies([company(uen) for uen in uens], now=NOW)
        await accounts.save_candidates(uens[:100], rule="default")
        return count

    def versions():
        with psycopg.connect(database[0]) as admin:
            found = admin.execute(
                "SELECT id, xmin::text FROM stoker.companies UNION ALL"
                " SELECT 'fits ' || company_id, xmin::text FROM stoker.icp_candidate_companies"
            )
            return dict(found.fetchall())

    assert on_postgres(database[1], put) == UpsertCount(new=200)
    before = versions()
    assert len(before) == 300
    assert on_postgres(database[1], put) == UpsertCount(same=200)
    assert versions() == before


def test_a_taker_passes_over_what_another_is_just_taking(database):
    """The other one's transaction stays open for as long as the taker needs."""

    async def scenario(backend):
        nights = backend.tenant(ACME).work_items
        await planned(nights, 4)
        with psycopg.connect(database[1]) as other:
            other.execute("SELECT set_config('request.tenant_id', 'acme', true)")
            lock = "SELECT FROM stoker.company_enrichment_runs WHERE place < 2 FOR UPDATE"
            assert len(other.execute(lock).fetchall()) == 2
            passed = [one.rank for one in await taken(nights)]
            other.rollback()
        return passed, [one.rank for one in await taken(nights)]

    assert on_postgres(database[1], scenario) == ([2, 3], [0, 1])


# A process that dies between units, or in one.

END_UNTIL_KILLED = '''
import asyncio, os, signal, sys
from contracts.accounts import RUN, contact, dossier, ended, taken
from contracts.backends import ACME
from stoker.backends.sqlite import SqliteBackend

class Deadly(tuple):
    """Contacts that kill the process when they are written, after the company and its facts."""
    def __iter__(self):
        os.kill(os.getpid(), signal.SIGKILL)

async def main(path, ends):
    store = SqliteBackend(path).tenant(ACME)
    units = await taken(store.work_items)
    for one in units[:ends]:
        await store.work_items.finish_item(RUN, ended(one), dossier(one.company))
        print(one.company, flush=True)
    last = dossier(units[ends].company, contacts=Deadly((contact(),)))
    await store.work_items.finish_item(RUN, ended(units[ends]), last)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
'''


@pytest.mark.parametrize("ends", [0, 1, 4])
async def test_a_kill_in_an_end_leaves_the_unit_and_its_company_as_they_were(tmp_path, ends):
    path = tmp_path / "stoker.db"

    async def ready(backend):
        await planned(backend.tenant(ACME).work_items, 6)

    async def look(backend):
        store = backend.tenant(ACME)
        left = await taken(store.work_items, owner="w2", now=UNTIL)
        found = [one.company.id for one in await store.accounts.list_company_records()]
        return [one.company for one in left], found

    await on_sqlite(path, ready)
    done = subprocess.run(
        [sys.executable, "-c", END_UNTIL_KILLED, str(path), str(ends)],
        check=False,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -9, done.stderr.decode()
    acked = done.stdout.decode().split()
    assert len(acked) == ends
    assert await on_sqlite(path, look) == ([f"T{n}" for n in range(ends, 6)], acked)


def test_an_end_is_durable_when_it_is_told(database):
    async def scenario(backend):
        store = backend.tenant(ACME)
        await planned(store.work_items, 2)
        _, one = await taken(store.work_items)
        assert await store.work_items.finish_item(RUN, ended(one), dossier())

    on_postgres(database[1], scenario)
    with psycopg.connect(database[0]) as admin:
        state = "SELECT state FROM stoker.company_enrichment_runs WHERE company_id = 'T1'"
        assert admin.execute(state).fetchall() == [("done",)]
        emails = "SELECT email, verdict FROM stoker.lead_emails ORDER BY place"
        assert admin.execute(emails).fetchall() == [
            ("ann@t1.test", "valid"),
            ("info@t1.test", "unknown"),
        ]
