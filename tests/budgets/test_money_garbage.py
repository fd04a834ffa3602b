"""Rows that make no sense: nothing is granted on their account, and the error says which row it is.

What was written behind our back is tried column by column, in a file and on a server.
"""

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import pg
from stoker.backends.postgres import PostgresBackend
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import StokerError, TransientError
from stoker.base.reasons import Reason
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.reservations import OPEN_STATUSES, ReservationStatus
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.rate_limits.rate_limit import Rate
from stoker.testing import FakeClock

ACME = TenantId("acme")
NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
DAILY = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100)
SHARED = Cap(
    scope=Scope.CONNECTOR, unit="credits", window=WindowKind.DAY, limit=100, connector="lusha"
)
RATE = Rate(calls=1, per=timedelta(seconds=1))
AT = "2026-02-07T01:30:00.000000+00:00"


def charge(**said):
    sound = {
        "cap": DAILY.id,
        "shared": False,
        "window": "day 2026-02-07T00:00:00+00:00",
        "amount": 1,
        "limit": 9,
        "ends_at": AT,
        "reason": "R",
    }
    return list({**sound, **said}.values())


# Any JSON is kept by either database; what is not even JSON, by a file alone.
WRONG_AMOUNTS = [[], 7, "x", None, {"credits": -1}, {"credits": 1.5}, {"credits": "1"},
                 {"credits": True}, {"credits": 10**16}, {"pounds": 1}]  # fmt: skip
WRONG_CHARGES = [{}, 7, "x", None, [1], [[]], [charge(amount=-1)], [charge(amount="1")],
                 [charge(limit=-1)], [charge(limit=None)], [charge(cap="no cap")], [charge(cap=7)],
                 [charge(shared=0)], [charge(window=None)], [charge(ends_at="soon")],
                 [charge(ends_at=7)], [charge(ends_at="2026-02-07T01:30:00")],
                 [[*charge(), "more"]]]  # fmt: skip
WRONG_JSON = [
    *(("amounts", json.dumps(said)) for said in WRONG_AMOUNTS),
    *(("actual", json.dumps(said)) for said in WRONG_AMOUNTS),
    *(("charges", json.dumps(said)) for said in WRONG_CHARGES),
]
NO_JSON = [
    (column, text)
    for column in ("amounts", "charges", "actual")
    for text in ("", "{", "NaN", "[" * 100_000, '{"credits": 1e999}', "1" * 10_000)
]
WRONG_TEXT = [
    ("phase", "NEVER"),
    ("phase", ""),
    ("until_at", "2026"),
    ("until_at", "2026-02-07T01:30:00"),
    ("reserved_at", "soon"),
    ("reserved_at", ""),
    ("closed_at", "0"),
]


def short(value):
    return str(value)[:40]


async def reserve(money, key):
    return await money.reserve(
        SpendRequest(key=key, connector="lusha", amounts={"credits": 10}, sends_at_once=key != "b"),
        caps=[DAILY, SHARED],
        reset=ResetRule(),
        owner="me",
        until=NOW + timedelta(minutes=1),
        now=NOW,
    )


async def begun(backend):
    money = backend.tenant(ACME).budgets
    for key in ("a", "b"):
        await reserve(money, key)
    await backend.shared().acquire_call("k", RATE, now=NOW)


class InFile:
    """A SQLite file that somebody writes to behind our back."""

    def __init__(self, home):
        self._path = home / "stoker.db"

    def __call__(self, statement, *values, then):
        asyncio.run(self._open_crm(begun))
        # Nobody else has it open: two libraries on one file in one process undo each other's locks.
        with closing(sqlite3.connect(self._path, isolation_level=None)) as naive:
            naive.execute("DROP TRIGGER ledger_is_not_changed")
            assert naive.execute(statement, values).rowcount > 0
        asyncio.run(self._open_crm(then))

    async def _open_crm(self, scenario):
        backend = SqliteBackend(self._path)
        try:
            await backend.migrate()
            await scenario(backend)
        finally:
            await backend.close()


class OnServer:
    """A Postgres database that an administrator writes to behind our back."""

    def __init__(self, urls):
        self._admin, self._app = urls

    def __call__(self, statement, *values, then):
        async def scenario():
            backend = PostgresBackend(self._app)
            try:
                await begun(backend)
                with psycopg.connect(self._admin) as naive:
                    naive.execute("SET search_path = stoker")
                    asked = statement.replace("?", "%s")
                    assert naive.execute(asked, values).rowcount > 0
                await then(backend)
            finally:
                await backend.close()

        asyncio.run(scenario())


@pytest.fixture
def in_file(tmp_path):
    return InFile(tmp_path)


@pytest.fixture
def on_server(postgres):
    return OnServer(pg.fresh_database(postgres))


async def said_by(verb):
    with pytest.raises(StokerError) as caught:
        await verb
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 700
    return type(caught.value), text


async def the_promise_is_refused(backend):
    """Every verb on the promise says no and which it is; the others go on as if nothing was."""
    money = backend.tenant(ACME).budgets
    for verb in (
        reserve(money, "a"),
        money.find_reservation("a"),
        money.mark_sent("a", now=NOW),
        money.settle("a", {"credits": 1}, now=NOW),
        money.release("a", reason="", now=NOW),
        money.mark_uncertain("a", reason="", now=NOW),
        money.list_reservations(phases=list(ReservationStatus)),
    ):
        kind, text = await said_by(verb)
        assert (kind, "the reservation a cannot be read" in text) == (TransientError, True)
        assert "nothing was done, restore the store from a backup" in text
    before = {usage.cap: usage.used for usage in await money.list_usage()}
    assert before[DAILY.id].reserved == 20
    assert "b" in [hold.key for hold in await money.expire_reservations(now=LATER)]
    budget = BudgetService(
        money,
        tenant=ACME,
        caps=[DAILY, SHARED],
        reset=ResetRule(),
        owner="me",
        clock=FakeClock(NOW),
        lease=timedelta(minutes=1),
    )
    refused = await budget.reserve(
        SpendRequest(key="a", connector="lusha", amounts={"credits": 10})
    )
    assert refused.reason == Reason.BUDGET_UNREADABLE


@pytest.mark.parametrize(
    ("where", "column", "text"),
    [
        *(("in_file", *wrong) for wrong in WRONG_JSON + NO_JSON),
        *(("on_server", *wrong) for wrong in WRONG_JSON[::5]),
    ],
    ids=short,
)
def test_a_promise_that_cannot_be_read_is_refused(request, where, column, text):
    alter = request.getfixturevalue(where)
    alter(f"UPDATE holds SET {column} = ? WHERE key = 'a'", text, then=the_promise_is_refused)


@pytest.mark.parametrize(
    ("where", "column", "text"),
    [
        *(("in_file", *wrong) for wrong in WRONG_TEXT),
        ("on_server", "until_at", "infinity"),
        ("on_server", "phase", "NEVER"),
    ],
    ids=short,
)
def test_a_promise_with_a_word_nobody_says_is_refused(request, where, column, text):
    async def then(backend):
        money = backend.tenant(ACME).budgets
        for verb in (
            money.find_reservation("a"),
            reserve(money, "a"),
            money.settle("a", {}, now=NOW),
        ):
            await said_by(verb)
        assert [usage.used.reserved for usage in await money.list_usage()] == [20]
        assert "b" in [hold.key for hold in await money.expire_reservations(now=LATER)]

    alter = request.getfixturevalue(where)
    alter(f"UPDATE holds SET {column} = ? WHERE key = 'a'", text, then=then)


NOT_A_WINDOW = ["day 2026-02-07Tgarbage", "day 2026-02-07T00:00:00", "day 2026-02-07 to tomorrow"]


async def nothing_new_is_granted(backend):
    money = backend.tenant(ACME).budgets
    await said_by(reserve(money, "new"))
    assert {hold.key for hold in await money.list_reservations(phases=sorted(OPEN_STATUSES))} == {
        "a",
        "b",
    }


@pytest.mark.parametrize("name", NOT_A_WINDOW)
@pytest.mark.parametrize("where", ["in_file", "on_server"])
def test_a_window_that_cannot_be_read_grants_nothing(request, where, name):
    request.getfixturevalue(where)(
        "UPDATE budgets SET window_name = ? WHERE window_name <> ''",
        name,
        then=nothing_new_is_granted,
    )


@pytest.mark.parametrize("column", ["settled", "reserved"])
@pytest.mark.parametrize("table", ["budgets", "shared_budgets"])
@pytest.mark.parametrize("where", ["in_file", "on_server"])
def test_a_total_beyond_all_counting_grants_nothing(request, where, table, column):
    async def then(backend):
        money = backend.tenant(ACME).budgets
        try:
            answer = await reserve(money, "new")
        except StokerError as error:
            answer = error
        assert not hasattr(answer, "charges")
        assert await money.find_reservation("new") is None

    request.getfixturevalue(where)(f"UPDATE {table} SET {column} = ?", 2**63 - 1, then=then)


@pytest.mark.parametrize("column", ["settled", "reserved"])
@pytest.mark.parametrize("value", ["many", None, 1.5])
def test_a_total_is_a_whole_number_or_the_file_itself_refuses(in_file, column, value):
    with pytest.raises(sqlite3.IntegrityError):
        in_file(f"UPDATE budgets SET {column} = ?", value, then=nothing_new_is_granted)


@pytest.mark.parametrize(
    ("where", "at"), [("in_file", "soon"), ("in_file", ""), ("on_server", "infinity")]
)
def test_a_last_entry_without_a_moment_grants_and_moves_nothing(request, where, at):
    async def then(backend):
        store = backend.tenant(ACME)
        for verb in (
            reserve(store.budgets, "new"),
            store.budgets.settle("a", {"credits": 1}, now=NOW),
            store.budgets.expire_reservations(now=LATER),
            store.budgets.renew_leases("me", until=LATER, now=NOW),
            store.ledger.list_entries(),
        ):
            await said_by(verb)
        assert (await store.budgets.find_reservation("a")).status is ReservationStatus.SENT

    request.getfixturevalue(where)("UPDATE ledger SET at = ? WHERE seq = 2", at, then=then)


@pytest.mark.parametrize("text", ["{", "", "7", "[" * 100_000], ids=short)
def test_an_entry_that_cannot_be_read_is_named(in_file, text):
    async def then(backend):
        kind, told = await said_by(backend.tenant(ACME).ledger.list_entries())
        assert (kind, "the ledger entry 1 cannot be read" in told) == (TransientError, True)

    in_file("UPDATE ledger SET data = ? WHERE seq = 1", text, then=then)


def test_a_rate_that_cannot_be_read_lets_nothing_go(in_file):
    async def then(backend):
        kind, told = await said_by(backend.shared().acquire_call("k", RATE, now=LATER))
        assert (kind, "when k was last called cannot be read" in told) == (TransientError, True)

    in_file("UPDATE rates SET next_at = ?", "soon", then=then)
