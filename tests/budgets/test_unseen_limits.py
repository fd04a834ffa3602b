"""A stop or a lowered cap that can no longer be seen is not taken for none: nothing is granted."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest

import pg
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import StokerError, TransientError
from stoker.base.reasons import Reason
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, CapChange, Scope
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.schema import COUNTED_SINCE
from stoker.budgets.service import BudgetService, OpenReservation
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.db.database import WriteConflict
from stoker.db.postgres import BEGIN_WRITE
from stoker.db.postgres_setup import create_roles_and_schema, migrate
from stoker.testing import FakeClock

ACME = TenantId("acme")
NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
OWN = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100)
SHARED = Cap(
    scope=Scope.CONNECTOR, unit="credits", window=WindowKind.DAY, limit=100, connector="lusha"
)
LIMITS = {  # what must hold, by the table that holds it
    "stops": lambda backend: backend.tenant(ACME).budgets.stop("", reason="", now=NOW),
    "shared_stops": lambda backend: backend.shared().stop("lusha", reason="", now=NOW),
    "cap_changes": lambda backend: backend.tenant(ACME).budgets.change_cap(
        CapChange(cap=OWN.id, limit=0), now=NOW
    ),
    "shared_cap_changes": lambda backend: backend.shared().change_cap(
        CapChange(cap=SHARED.id, limit=0), now=NOW
    ),
}
HIDDEN = {  # how rows become invisible on a server, while processes run
    "no policy": "{drop}",
    "a policy that shows nothing": "{drop} CREATE POLICY p ON stoker.{table} USING (false)"
    " WITH CHECK (true);",
    "a policy that only restricts": "CREATE POLICY p ON stoker.{table} AS RESTRICTIVE"
    " USING (false) WITH CHECK (true);",
    "row security for the first time": "ALTER TABLE stoker.{table} ENABLE ROW LEVEL SECURITY;"
    " ALTER TABLE stoker.{table} FORCE ROW LEVEL SECURITY; {drop}",
}


def build_budget(backend, owner="me"):
    return BudgetService(
        backend.tenant(ACME).budgets,
        caps=[OWN, SHARED],
        reset=ResetRule(),
        owner=owner,
        clock=FakeClock(NOW),
        lease=timedelta(minutes=1),
        tenant=ACME,
    )


async def ask(backend, key):
    """Return what a request to spend is answered with, be it an error."""
    request = SpendRequest(key=key, connector="lusha", amounts={"credits": 10})
    try:
        return await build_budget(backend).reserve(request)
    except StokerError as error:
        return error


def hide(admin, how, *tables):
    for table in tables:
        policies = admin.execute(
            "SELECT policyname FROM pg_policies WHERE schemaname = 'stoker' AND tablename = %s",
            [table],
        ).fetchall()
        drop = " ".join(f"DROP POLICY {name} ON stoker.{table};" for (name,) in policies)
        if words := HIDDEN[how].format(table=table, drop=drop):
            admin.execute(words)


@pytest.mark.parametrize("how", HIDDEN)
@pytest.mark.parametrize("table", LIMITS)
async def test_what_is_hidden_on_a_server_while_a_process_runs_still_holds(postgres, table, how):
    admin_url, app_url = pg.fresh_database(postgres)
    backend = PostgresBackend(app_url)
    assert isinstance(await ask(backend, "before"), OpenReservation)
    await LIMITS[table](backend)
    assert isinstance(await ask(backend, "held"), Refusal)
    with psycopg.connect(admin_url) as admin:
        hide(admin, how, table)

    answer = await ask(backend, "hidden")

    assert isinstance(answer, Refusal | StokerError)
    assert await backend.tenant(ACME).budgets.find_reservation("hidden") is None
    await backend.close()


async def test_counts_that_are_hidden_too_grant_nothing(postgres):
    admin_url, app_url = pg.fresh_database(postgres)
    backend = PostgresBackend(app_url)
    assert await backend.tenant(ACME).budgets.list_stops() == []  # there is no count yet
    assert isinstance(await ask(backend, "before"), OpenReservation)
    await LIMITS["stops"](backend)
    with psycopg.connect(admin_url) as admin:
        hide(admin, "no policy", "stops", "limit_counts")

    assert (await ask(backend, "hidden")).reason == Reason.BUDGET_UNREADABLE
    with pytest.raises(TransientError, match="0 of some rows of stops can be seen"):
        await backend.tenant(ACME).budgets.list_stops()
    await backend.close()


@pytest.mark.parametrize("table", LIMITS)
async def test_a_row_that_is_gone_without_being_counted_off_grants_nothing(tmp_path, table):
    """What a damaged file looks like; a row that an administrator deletes is counted off."""
    backend = SqliteBackend(tmp_path / "stoker.db")
    await backend.migrate()
    await LIMITS[table](backend)
    await backend.close()
    with closing(sqlite3.connect(tmp_path / "stoker.db")) as db, db:
        db.execute(f"DROP TRIGGER {table}_are_counted_off")
        db.execute(f"DELETE FROM {table}")

    backend = SqliteBackend(tmp_path / "stoker.db")
    answer = await ask(backend, "k")
    assert answer.reason == Reason.BUDGET_UNREADABLE
    assert f"0 of 1 rows of {table} can be seen" in answer.message
    store, shared = backend.tenant(ACME).budgets, backend.shared()
    limits = shared if table.startswith("shared") else store
    for verb in [limits.list_stops] if table.endswith("stops") else [limits.list_cap_changes]:
        with pytest.raises(TransientError, match="stoker db status"):
            await verb()
    await backend.close()


async def lose_count(backend, execute, schema=""):
    """Reserve, stop, and lose the stop together with its count; return what is answered then."""
    assert isinstance(await ask(backend, "before"), OpenReservation)
    await LIMITS["stops"](backend)
    execute(f"DELETE FROM {schema}stops")
    execute(f"DELETE FROM {schema}limit_counts")
    return await ask(backend, "k")


async def test_a_count_that_is_gone_from_a_file_is_not_taken_for_none(tmp_path):
    backend = SqliteBackend(tmp_path / "stoker.db")
    await backend.migrate()
    with closing(sqlite3.connect(tmp_path / "stoker.db", isolation_level=None)) as db:
        answer = await lose_count(backend, db.execute)

    assert answer.reason == Reason.BUDGET_UNREADABLE
    assert "0 of some rows of cap_changes can be seen" in answer.message
    await backend.close()


async def test_a_count_that_is_gone_from_a_server_is_not_taken_for_none(postgres):
    admin_url, app_url = pg.fresh_database(postgres)
    backend = PostgresBackend(app_url)
    with psycopg.connect(admin_url, autocommit=True) as admin:
        answer = await lose_count(backend, admin.execute, "stoker.")

    assert answer.reason == Reason.BUDGET_UNREADABLE
    assert "0 of some rows of cap_changes can be seen" in answer.message
    await backend.close()


@pytest.mark.parametrize("table", LIMITS)
async def test_a_row_that_an_administrator_deletes_is_counted_off(tmp_path, table):
    backend = SqliteBackend(tmp_path / "stoker.db")
    await backend.migrate()
    await LIMITS[table](backend)
    await backend.close()
    with closing(sqlite3.connect(tmp_path / "stoker.db")) as db, db:
        db.execute(f"DELETE FROM {table}")

    backend = SqliteBackend(tmp_path / "stoker.db")
    assert isinstance(await ask(backend, "k"), OpenReservation)
    await backend.close()


EARLIER = """
INSERT INTO {s}stops VALUES ('acme', '', '2026-02-07T01:30:00+00:00', 'a bill came');
INSERT INTO {s}cap_changes VALUES ('acme', 'tenant/*/credits/day', 5, NULL, NULL),
    ('umbrella', 'tenant/*/credits/day', 7, NULL, NULL);
INSERT INTO {s}budgets VALUES ('globex', 'tenant/*/credits/day', '', 0, 0);
INSERT INTO {s}shared_stops VALUES ('tavily', '2026-02-07T01:30:00+00:00', '');
"""
COUNTS = {("acme", 1, 1), ("umbrella", 0, 1), ("globex", 0, 0), ("all tenants", 1, 0)}
SELECT_ALL_COUNTS = """
SELECT tenant_id, stops, cap_changes FROM {s}limit_counts
UNION ALL SELECT 'all tenants', stops, cap_changes FROM {s}shared_limit_counts
"""


def test_what_an_earlier_version_stopped_is_counted_in_a_file(tmp_path):
    db = sqlite3.connect(tmp_path / "stoker.db")
    for step in SCHEMA.sqlite[: COUNTED_SINCE - 1]:
        db.executescript(step.script)
    db.executescript(EARLIER.format(s=""))
    db.executescript(SCHEMA.sqlite[COUNTED_SINCE - 1].script)
    assert set(db.execute(SELECT_ALL_COUNTS.format(s=""))) == COUNTS
    db.close()


async def test_what_an_earlier_version_stopped_is_counted_on_a_server(postgres):
    admin_url, app_url = pg.empty_database(postgres)
    create_roles_and_schema(admin_url, app_url, SCHEMA.postgres[: COUNTED_SINCE - 1])
    with psycopg.connect(admin_url) as admin:
        admin.execute(EARLIER.format(s="stoker."))
    migrate(admin_url, SCHEMA.postgres)
    with psycopg.connect(admin_url) as admin:
        found = admin.execute(SELECT_ALL_COUNTS.format(s="stoker.")).fetchall()
    assert set(found) == COUNTS
    backend = PostgresBackend(app_url)
    assert (await ask(backend, "k")).reason == "STOPPED"
    assert await backend.tenant(ACME).budgets.resume("", now=NOW)
    assert (await ask(backend, "k")).reason == "CAP_TENANT_DAY"
    await backend.close()


async def test_a_process_of_an_earlier_version_that_still_runs_can_reserve(postgres):
    """It knows no counts: of a tenant without any, the function on the server takes none for 0."""
    admin_url, app_url = pg.fresh_database(postgres)
    backend = PostgresBackend(app_url)

    def reserve_as_before(tx, key="k"):
        hold = {"key": key, "connector": "lusha", "fingerprint": "", "phase": "SENT"}
        hold |= {"owner": "w", "until_at": NOW.isoformat(), "reserved_at": NOW.isoformat()}
        hold |= {"reason": "", "amounts": {}, "charges": [], "actual": {}}
        asked = json.dumps({"holds": [hold], "totals": [], "notes": []})
        tx.query("SELECT write_moves(:asked)", asked=asked)

    await backend.transact(ACME, BEGIN_WRITE, reserve_as_before)
    assert (await backend.tenant(ACME).budgets.find_reservation("k")).owner == "w"
    await LIMITS["shared_stops"](backend)
    with pytest.raises(WriteConflict):
        await backend.transact(ACME, BEGIN_WRITE, partial(reserve_as_before, key="stopped"))
    await backend.shared().resume("lusha", now=NOW)
    await LIMITS["stops"](backend)
    with psycopg.connect(admin_url) as admin:
        hide(admin, "no policy", "stops")
    with pytest.raises(WriteConflict):
        await backend.transact(ACME, BEGIN_WRITE, partial(reserve_as_before, key="hidden"))
    await backend.close()
