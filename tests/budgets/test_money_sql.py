"""What is special about money in SQL: last lines of defence, row security, one call for it all."""

import asyncio
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, time, timedelta

import psycopg
import pytest

import pg
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import PermanentError, TransientError
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest, Totals
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.store import BudgetStore, write_changes_on_server
from stoker.budgets.verify import verify_ledger
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.db.database import WriteConflict
from stoker.db.postgres import BEGIN_WRITE, TenantDatabase
from stoker.db.row_security import find_table_problems

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")
NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
DAILY = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100)
SHARED = Cap(
    scope=Scope.CONNECTOR, unit="credits", window=WindowKind.DAY, limit=100, connector="lusha"
)


async def reserve(money, key, number=10):
    return await money.reserve(
        SpendRequest(key=key, connector="lusha", amounts={"credits": number}),
        caps=[DAILY, SHARED],
        reset=ResetRule(),
        owner="me",
        until=NOW + timedelta(minutes=1),
        now=NOW,
    )


@pytest.fixture
def database(postgres):
    return pg.fresh_database(postgres)


@pytest.fixture
def sqlite_file(tmp_path):
    path = tmp_path / "stoker.db"

    async def scenario():
        backend = SqliteBackend(path)
        await backend.migrate()
        await reserve(backend.tenant(ACME).budgets, "k")
        await backend.close()

    asyncio.run(scenario())
    return path


@pytest.mark.parametrize("row", ["5, 7, 'garbage'", "-5, NULL, NULL", "NULL, 7, NULL"])
@pytest.mark.parametrize("table", ["cap_changes", "shared_cap_changes"])
def test_a_cap_that_cannot_be_read_grants_nothing_and_is_named(sqlite_file, row, table):
    whose = "'acme', " if table == "cap_changes" else ""
    with closing(sqlite3.connect(sqlite_file)) as naive:
        naive.execute(f"INSERT INTO {table} VALUES ({whose}'{DAILY.id}', {row})")
        naive.commit()

    async def scenario():
        backend = SqliteBackend(sqlite_file)
        try:
            with pytest.raises(TransientError, match=re.escape(f"{DAILY.id} cannot be read")):
                await reserve(backend.tenant(ACME).budgets, "next")
            return await backend.tenant(ACME).budgets.list_usage()
        finally:
            await backend.close()

    [usage] = asyncio.run(scenario())
    assert usage.used == Totals(reserved=10)


@pytest.mark.parametrize("column", ["settled", "reserved"])
@pytest.mark.parametrize("table", ["budgets", "shared_budgets"])
def test_a_total_below_zero_is_refused_by_the_file_itself(sqlite_file, table, column):
    with (
        closing(sqlite3.connect(sqlite_file)) as db,
        pytest.raises(sqlite3.IntegrityError, match="CHECK"),
    ):
        db.execute(f"UPDATE {table} SET {column} = -1")


@pytest.mark.parametrize("column", ["settled", "reserved"])
@pytest.mark.parametrize("table", ["budgets", "shared_budgets"])
async def test_a_total_below_zero_is_refused_by_the_server_itself(database, table, column):
    admin_url, app_url = database

    backend = PostgresBackend(app_url)
    await reserve(backend.tenant(ACME).budgets, "k")
    await backend.close()
    with (
        psycopg.connect(admin_url) as admin,
        pytest.raises(psycopg.errors.CheckViolation),
    ):
        admin.execute(f"UPDATE stoker.{table} SET {column} = -1")


@pytest.mark.parametrize(
    ("where", "index"),
    [
        ("until_at <= 'x' AND closed_at IS NULL AND phase IN ('HELD', 'SENT')", "open_holds"),
        ("closed_at < 'x' ORDER BY closed_at LIMIT 10", "closed_holds"),
    ],
)
def test_open_and_old_reservations_are_found_without_reading_the_others(sqlite_file, where, index):
    with closing(sqlite3.connect(sqlite_file)) as db:
        plan = db.execute(
            f"EXPLAIN QUERY PLAN SELECT key FROM holds WHERE tenant_id = 'acme' AND {where}"
        ).fetchall()
    assert index in str(plan)
    assert "TEMP B-TREE" not in str(plan)


@pytest.mark.parametrize(
    "table", ["shared_budgets", "shared_cap_changes", "shared_stops", "rates", "places"]
)
def test_a_shared_table_that_comes_to_name_tenants_is_found(database, table):
    with psycopg.connect(database[0]) as admin:
        admin.execute(f"ALTER TABLE stoker.{table} ADD COLUMN tenant_id text")
        assert [str(finding) for finding in find_table_problems(admin, SCHEMA)] == [
            f"shared table with a tenant_id ({table})"
        ]
        admin.rollback()


def test_the_function_that_writes_moves_runs_as_its_caller_on_a_pinned_path(database):
    with psycopg.connect(database[0]) as admin:
        [[definer, settings, owner]] = admin.execute(
            "SELECT prosecdef, proconfig, pg_get_userbyid(proowner) FROM pg_proc "
            "WHERE proname = 'write_moves'"
        ).fetchall()
    assert (definer, settings, owner) == (False, ["search_path=pg_catalog"], "stoker_owner")


async def test_no_door_leads_from_what_is_shared_to_what_tenants_own(database):
    backend = PostgresBackend(database[1])
    await reserve(backend.tenant(ACME).budgets, "k")
    for table in ("holds", "budgets", "cap_changes", "stops", "ledger"):
        with pytest.raises(PermanentError, match="tenant"):
            await backend.transact(
                None, BEGIN_WRITE, lambda tx, table=table: tx.query(f"SELECT * FROM {table}")
            )
    await backend.close()


async def test_one_tenant_cannot_move_anothers_promise_even_by_the_function(database):
    stolen = (
        '{"holds": [{"key": "k", "phase": "RELEASED", "reason": "", "actual": {}, '
        '"seen_phase": "SENT", "seen_until_at": "2026-02-07T01:31:00+00:00"}], '
        '"totals": [], "notes": []}'
    )

    backend = PostgresBackend(database[1])
    await reserve(backend.tenant(ACME).budgets, "k")
    with pytest.raises(WriteConflict):
        await backend.transact(
            UMBRELLA,
            BEGIN_WRITE,
            lambda tx: tx.query("SELECT write_moves(:asked)", asked=stolen),
        )
    assert (
        await backend.tenant(ACME).budgets.find_reservation("k")
    ).status is ReservationStatus.SENT
    await backend.close()


ROUNDS = 12
RULES = [ResetRule(), *(ResetRule("UTC", time(hour, 30)) for hour in (1, 6, 17, 23))]


async def overspent(url):
    """Ask at once, under many rules, for more than half of a budget; count the second grants."""
    backend = PostgresBackend(url, connections=8)
    spent = 0
    for number in range(ROUNDS):
        tenant = TenantId(f"t{number}")
        money = BudgetStore(TenantDatabase(backend, tenant), write=write_changes_on_server)
        answers = await asyncio.gather(
            *(
                money.reserve(
                    SpendRequest(key=f"k{n}", connector="lusha", amounts={"credits": 60}),
                    caps=[DAILY],
                    reset=RULES[n % len(RULES)],
                    owner="me",
                    until=NOW + timedelta(minutes=1),
                    now=NOW,
                )
                for n in range(10)
            )
        )
        spent += sum(not isinstance(answer, Refusal) for answer in answers) - 1
        assert (await verify_ledger(backend.tenant(tenant))).problems == ()
    await backend.close()
    return spent


async def test_many_at_once_who_reset_by_different_rules_open_one_budget(database, record_property):
    found = await overspent(database[1])
    record_property("fault", f"rules for resetting at once: n={ROUNDS} budgets, {found} overspent")
    assert found == 0
