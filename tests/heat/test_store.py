"""What is special about heat and pulls in SQL: indexes, and what the app may never undo."""

import asyncio

import apsw
import psycopg
import pytest

import pg
from stoker.backends.sqlite import SqliteBackend
from stoker.db.database import split_into_batches
from stoker.heat.schema import CHANGE_RATES, HEATS, LOOKUPS, SIGNALS
from stoker.heat.store import (
    DELETE_OLD,
    HOTTEST,
    NEWEST_SIGNALS,
    PAGE,
    SELECT_PAGE_CHANGE_RATES,
    SELECT_PAGE_SIGNALS,
    SELECT_STATES,
    UPDATE_HEAT_IF_UNCHANGED,
)
from stoker.pulls.schema import PLANS
from stoker.pulls.store import NEWEST_PLANS, SELECT_PLAN_PART
from stoker.registry.schema import REJECTS, SEEN
from stoker.vendors.schema import ANSWERS


def some(question, *values):
    """A question about many ids, spelled out."""
    [(query, named)] = split_into_batches(question, values)
    for name, value in reversed(named.items()):
        query = query.replace(f":{name}", repr(value))
    return query


def found(table, where):
    """What `Table.find` asks."""
    return f"SELECT {table.names} FROM {table.name} WHERE tenant_id = :tenant AND {where}"


def old(table, key):
    return DELETE_OLD.format(table=table, key=key).split("(", 1)[1].rstrip(")\n")


ASKED = {  # what is asked, and the index that must serve it without sorting
    "a page of heats": (found(HEATS, PAGE), "account_heats_pkey"),
    "the hottest of a tier": (found(HEATS, HOTTEST), "heats_by_score"),
    "some heats": (some(HEATS.select_in("account_id"), "T1", "T2"), "account_heats_pkey"),
    "a page of beliefs": (found(CHANGE_RATES, PAGE), "account_beliefs_pkey"),
    "a page of columns": (SELECT_STATES, "account_heats_pkey"),
    "beliefs beside it": (SELECT_PAGE_CHANGE_RATES, "account_beliefs_pkey"),
    "signals beside it": (SELECT_PAGE_SIGNALS, "signals_by_account"),
    "some beliefs": (
        some(CHANGE_RATES.select_in("account_id"), "T1", "T2"),
        "account_beliefs_pkey",
    ),
    "an account's signals": (found(SIGNALS, NEWEST_SIGNALS), "signals_by_account"),
    "which signals are known": (some(SIGNALS.select_in("id"), "a", "b"), "account_signals_pkey"),
    "which looks are known": (some(LOOKUPS.select_in("key"), "a", "b"), "looks_learned_pkey"),
    "old signals": (old("account_signals", "id"), "signals_by_time"),
    "old looks": (old("looks_learned", "key"), "looks_by_time"),
    "the newest plans": (found(PLANS, NEWEST_PLANS), "pull_plans_pkey"),
    "a part of a plan": (SELECT_PLAN_PART, "pull_plan_parts_pkey"),
    "which entities are known": (some(SEEN.select_in("uen"), "T1", "T2"), "registry_seen_pkey"),
    "which rejects are known": (
        some(REJECTS.select_in("line") + " AND t.load_id = :id", 1, 2),
        "registry_rejects_load_id_line_key",
    ),
    "which answers are kept": (some(ANSWERS.select_in("key"), "a", "b"), "vendor_answers_pkey"),
}
SQLITE_NAMES = {
    "pull_plans_pkey": "sqlite_autoindex_pull_plans_1",
    "pull_plan_parts_pkey": "sqlite_autoindex_pull_plan_parts_1",
    "registry_rejects_load_id_line_key": "sqlite_autoindex_registry_rejects_1",
    "vendor_answers_pkey": "sqlite_autoindex_vendor_answers_1",
}
VALUES = {
    ":tenant": "'acme'",
    ":before": "'2026-02-07T01:30:00.000000+00:00'",
    ":account_id": "'T1'",
    ":last": "'T2'",
    ":number": "0",
    ":after": "'T1'",
    ":limit": "10",
    ":tier": "'HOT'",
    ":run": "'r'",
    ":id": "'load 1'",
}


def spelled_out(question):
    for name, value in VALUES.items():
        question = question.replace(name, value)
    return question


@pytest.fixture
def database(postgres):
    return pg.fresh_database(postgres)


@pytest.fixture
def file(tmp_path):
    async def made():
        backend = SqliteBackend(tmp_path / "stoker.db")
        await backend.migrate()
        await backend.close()

    asyncio.run(made())
    return str(tmp_path / "stoker.db")


def test_an_index_serves_each_question(database):
    with psycopg.connect(database[0]) as admin:
        admin.execute("SET search_path = stoker")
        for setting in ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin"):
            admin.execute(f"SET enable_{setting} = off")
        for what, (question, index) in ASKED.items():
            answered = admin.execute(f"EXPLAIN {spelled_out(question)}").fetchall()
            plan = "\n".join(row[0] for row in answered)
            assert index in plan, what
            assert "Sort" not in plan, what


def test_an_index_serves_each_question_in_sqlite_too(file):
    db = apsw.Connection(file)
    for what, (question, index) in ASKED.items():
        plan = [
            row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {spelled_out(question)}").fetchall()
        ]
        names = (SQLITE_NAMES.get(index, index), "PRIMARY KEY")
        assert any(name in step for step in plan for name in names), (what, plan)
        assert not any("TEMP B-TREE" in step for step in plan), (what, plan)
    db.close()


def test_a_heat_is_found_by_its_key_before_it_is_compared(database, file):
    """A sweep asks this a million times."""
    query = UPDATE_HEAT_IF_UNCHANGED.replace("?", "NULL")
    with psycopg.connect(database[0]) as admin:
        admin.execute("SET search_path = stoker; SET plan_cache_mode = force_generic_plan")
        places = iter(range(1, 99))
        numbered = "".join(
            f"${next(places)}" if letter == "?" else letter for letter in UPDATE_HEAT_IF_UNCHANGED
        )
        admin.execute(f"PREPARE swap AS {numbered}")
        nulls = ", ".join(["NULL"] * UPDATE_HEAT_IF_UNCHANGED.count("?"))
        plan = "\n".join(row[0] for row in admin.execute(f"EXPLAIN EXECUTE swap({nulls})"))
        [found_by] = [line for line in plan.splitlines() if "Index Cond" in line]
        assert "account_id = $" in found_by
    db = apsw.Connection(file)
    steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()]
    db.close()
    assert any("SEARCH" in step and "account_id=?" in step for step in steps), steps


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM stoker.account_heats",
        "DELETE FROM stoker.account_beliefs",
        "UPDATE stoker.account_signals SET at = now()",
        "UPDATE stoker.looks_learned SET at = now()",
        "UPDATE stoker.pull_plans SET at = now()",
    ],
)
def test_the_app_cannot_undo_what_was_learned_or_decided(database, statement):
    denied = pytest.raises(psycopg.errors.InsufficientPrivilege)
    with psycopg.connect(database[1]) as app, denied:
        app.execute(statement)
