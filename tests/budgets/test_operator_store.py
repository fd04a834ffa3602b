"""An operator's order and its entry in the ledger: both are there afterwards, or neither."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest

import pg
from stoker.backends.postgres import PostgresBackend
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import StokerError
from stoker.base.types import OPERATORS, TenantId
from stoker.budgets.caps import CapChange
from stoker.ledger.chain import NewEntry

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
CAP = "connector/lusha/credits/day"
NO_ENTRIES = """
CREATE TRIGGER no_entries BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'the disk is odd'); END
"""
NO_STOPS = """
CREATE TRIGGER no_stops BEFORE INSERT ON shared_stops BEGIN SELECT RAISE(ABORT, 'odd'); END
"""
ORDERS = {
    "stop": lambda shared: shared.stop("lusha", reason="", now=NOW),
    "resume": lambda shared: shared.resume("tavily", now=NOW),
    "cap": lambda shared: shared.change_cap(CapChange(cap=CAP, limit=5), now=NOW),
}


async def state(shared):
    stops = [stop.connector for stop in await shared.list_stops()]
    kinds = [entry.kind for entry in await shared.ledger.list_entries()]
    return stops, await shared.list_cap_changes(), kinds


@pytest.fixture
def tried(tmp_path):
    """Give an order to a file in which something cannot be written; return what came of it."""

    def trying(order, broken):
        async def prepare(path):
            backend = SqliteBackend(path)
            await backend.migrate()
            await backend.shared().stop("tavily", reason="before", now=NOW)
            await backend.close()

        async def scenario(path):
            backend = SqliteBackend(path)
            shared = backend.shared()
            before = await state(shared)
            with pytest.raises(StokerError):
                await order(shared)
            after = await state(shared)
            await backend.close()
            return before, after

        path = tmp_path / "stoker.db"
        asyncio.run(prepare(path))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(broken)
        return asyncio.run(scenario(path))

    return trying


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_an_order_whose_entry_cannot_be_written_is_not_in_force(tried, order):
    before, after = tried(order, NO_ENTRIES)
    assert before == after


def test_a_stop_that_cannot_be_written_leaves_no_entry(tried):
    before, after = tried(ORDERS["stop"], NO_STOPS)
    assert before == after


@pytest.fixture
def ordered(postgres):
    """A database with one order in it, and how the app reaches it."""
    _, app_url = pg.fresh_database(postgres)

    async def stopped():
        backend = PostgresBackend(app_url)
        await backend.shared().stop("", reason="the bill", now=NOW)
        await backend.close()

    asyncio.run(stopped())
    return app_url


def as_tenant(app_url, tenant, statement):
    with psycopg.connect(app_url) as link:
        link.execute("SELECT set_config('request.tenant_id', %s, true)", [tenant])
        return link.execute(statement).fetchall()


def test_no_tenant_sees_the_orders_of_operators_in_the_table_they_share(ordered):
    assert as_tenant(ordered, "acme", "SELECT * FROM stoker.ledger") == []
    [[kind]] = as_tenant(ordered, OPERATORS, "SELECT kind FROM stoker.ledger")
    assert kind == "STOPPED"


def test_no_tenant_can_write_an_order_in_the_operators_name(ordered):
    forged = (
        "INSERT INTO stoker.ledger VALUES "
        f"('{OPERATORS}', 2, now(), 'RESUMED', '*', '', '{{}}', '', '') RETURNING 1"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_tenant(ordered, "acme", forged)


def test_behind_the_operators_door_no_tenant_s_rows_are_seen(ordered):
    async def noted():
        backend = PostgresBackend(ordered)
        await backend.tenant(TenantId("acme")).ledger.append(
            [NewEntry(at=NOW, kind="NOTE", subject="x", reason="")]
        )
        found = await backend.shared().ledger.list_entries()
        await backend.close()
        return [entry.kind for entry in found]

    assert asyncio.run(noted()) == ["STOPPED"]
