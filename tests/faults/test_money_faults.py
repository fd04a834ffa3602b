"""Crowds, kills, locks and deadlocks at the gate: caps hold exactly, and no promise is lost."""

import asyncio
import random
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest

import pg
from faults.money_trials import CAP, MOST, chaos, chaos_naively, rushed, rushed_naively
from faults.pg_proxy import Proxy
from faults.pg_trials import Cuts
from stoker.backends.postgres import PostgresBackend
from stoker.base.errors import TransientError, UncertainError
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest, Totals
from stoker.budgets.verify import verify_ledger
from stoker.budgets.windows import ResetRule, WindowKind

pytestmark = pytest.mark.faults

ROUNDS = 10
CROWDS = {"path": (50, 1), "url": (10, 5)}  # processes and tasks of each: fifty workers
ACME = TenantId("acme")
MONEY = b"SELECT write_moves("  # the statement that writes money
NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
DAILY = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100_000)
HOURLY = Cap(
    scope=Scope.TENANT_CONNECTOR,
    unit="credits",
    window=WindowKind.HOUR,
    limit=100_000,
    connector="lusha",
)
SHARED = Cap(
    scope=Scope.CONNECTOR, unit="credits", window=WindowKind.WEEK, limit=100_000, connector="lusha"
)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a crew works, as an order says it: for the store, and for its twin."""
    if request.param == "sqlite":
        return {"path": str(tmp_path / "ours.db")}, {"path": str(tmp_path / "twin.db")}
    admin_url, app_url = pg.fresh_database(request.getfixturevalue("postgres"))
    return {"url": app_url}, {"url": admin_url}


def told(request, what, said):
    request.node.user_properties.append(("fault", f"{what}: {said}"))


def test_fifty_workers_spend_exactly_what_fits_and_a_naive_twin_does_not(place, request):
    ours, twins = place
    crowd = dict(zip(("workers", "tasks"), CROWDS[next(iter(ours))], strict=True))
    trial = rushed({**ours, **crowd, "rounds": ROUNDS})
    told(request, f"B1 {next(iter(ours))}, 50 workers, {ROUNDS} rounds", trial)
    assert trial.broken == []
    assert trial.counted["granted"] * 7 == MOST * ROUNDS

    over = rushed_naively({**twins, **crowd, "rounds": 2})
    assert max(over) > CAP, "a harness that lets check-then-act pass sees nothing"


def test_killed_processes_lose_no_promise_and_exceed_no_cap(place, request):
    seed = random.randrange(10**6)
    order = {"workers": 4, "tasks": 8, "operations": 600, "seed": seed, "kill_every": 40}
    trial = chaos({**place[0], **order})
    told(request, f"A2 money on {next(iter(place[0]))}, seed {seed}", trial)
    assert trial.broken == []
    assert trial.counted["kills"]
    assert trial.counted["cut off"]
    assert trial.counted["looks"]
    assert trial.counted["granted"]
    assert trial.counted["refused"]

    naive = {**place[1], **order, "operations": 300, "kill_every": 10}
    # On a busy machine a kill may miss the moment between two writes; not five times over.
    torn = any(chaos_naively({**naive, "seed": seed + nth}) for nth in range(5))
    assert torn, "a harness whose kills never come between two writes sees nothing"


async def reserve(backend, key, *, caps=(DAILY,), credits_=10):
    return await backend.tenant(ACME).budgets.reserve(
        SpendRequest(key=key, connector="lusha", amounts={"credits": credits_}),
        caps=caps,
        reset=ResetRule(),
        owner="me",
        until=NOW + timedelta(minutes=1),
        now=NOW,
    )


async def insisted(verb):
    """Ask until there is an answer; return the attempt that had one."""
    for attempt in range(1, 50):
        try:
            await verb(attempt)
        except (TransientError, UncertainError):
            continue
        return attempt
    raise AssertionError("never answered")


async def paid(backend, name):
    """Promise 5 credits under the name each attempt has, and settle what was answered."""
    answered = await insisted(lambda attempt: reserve(backend, name(attempt), credits_=5))
    money = backend.tenant(ACME).budgets
    await insisted(lambda _: money.settle(name(answered), {"credits": 5}, now=NOW))


async def paid_through_cuts(server, app_url, cuts, *, key):
    """Pay again and again until all cuts are made; return how often, the total, and problems."""
    with Proxy(server.socket, cuts) as proxy:
        backend, n = PostgresBackend(proxy.rewrite_url(app_url)), 0
        while cuts.left:
            n += 1
            await paid(backend, partial(key, n))
        store = backend.tenant(ACME)
        [total] = [usage.used for usage in await store.budgets.list_usage()]
        problems = (await verify_ledger(store)).problems
        await backend.close()
        return n, total, problems


async def test_asking_again_after_a_cut_connection_neither_loses_nor_doubles_a_promise(
    postgres, rng, request
):
    _, app_url = pg.fresh_database(postgres)
    n, total, problems = await paid_through_cuts(
        postgres, app_url, Cuts(60, rng, words=MONEY), key=lambda n, _: f"k{n}"
    )
    told(request, "B4 money, connection cut at COMMIT", f"n=60 cuts, {n} promises; {total}")
    assert total == Totals(settled=5 * n)
    assert problems == ()


async def test_the_naive_twin_that_asks_again_under_another_name_is_caught(postgres, rng):
    _, app_url = pg.fresh_database(postgres)
    n, total, _ = await paid_through_cuts(
        postgres, app_url, Cuts(20, rng, words=MONEY), key=lambda n, attempt: f"k{n}/{attempt}"
    )
    assert total.total > 5 * n


@pytest.fixture
def impatient(postgres):
    """A database whose app waits for a lock, or for a statement, only as long as it is told."""

    def made(setting, **backend):
        admin_url, app_url = pg.fresh_database(postgres)
        with psycopg.connect(admin_url, autocommit=True) as admin:
            [[app]] = admin.execute(
                "SELECT rolname FROM pg_roles WHERE rolname = 'app_' || current_database()"
            ).fetchall()
            for name in ("lock_timeout", "statement_timeout"):
                value = "150ms" if name == setting else "0"
                admin.execute(f"ALTER ROLE {app} SET {name} = '{value}'")
        return admin_url, PostgresBackend(app_url, **backend)

    return made


@contextmanager
def held(admin_url):
    """Somebody else holds the total that everybody needs."""
    with psycopg.connect(admin_url) as other, psycopg.connect(admin_url, autocommit=True) as look:
        other.execute("UPDATE stoker.budgets SET reserved = reserved")

        async def waited_for(what):
            waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ %s"
            while not look.execute(waiting, [what]).fetchall():  # another process is waited for
                await asyncio.sleep(0.01)

        yield waited_for


@pytest.mark.parametrize("everybody", [False, True])
async def test_a_stop_refuses_a_reservation_that_was_waiting_for_its_total(postgres, everybody):
    admin_url, app_url = pg.fresh_database(postgres)
    backend = PostgresBackend(app_url)

    assert not isinstance(await reserve(backend, "first"), Refusal)
    with held(admin_url) as waited_for:
        waiting = asyncio.ensure_future(reserve(backend, "second"))
        await waited_for("write_moves")
        stopping = backend.shared() if everybody else backend.tenant(ACME).budgets
        await stopping.stop("lusha", reason="enough", now=NOW)
    answer = await waiting
    await backend.close()

    assert isinstance(answer, Refusal)
    assert answer.reason == "STOPPED"


@pytest.mark.parametrize(
    ("setting", "why"), [("lock_timeout", "lock"), ("statement_timeout", "took too long")]
)
async def test_a_locked_total_is_waited_for_only_until_the_timeout(impatient, setting, why):
    admin_url, backend = impatient(setting)

    assert not isinstance(await reserve(backend, "first"), Refusal)
    with held(admin_url):
        for verb in (
            reserve(backend, "second"),
            backend.tenant(ACME).budgets.settle("first", {"credits": 3}, now=NOW),
        ):
            with pytest.raises(TransientError, match=why):
                await verb
    store = backend.tenant(ACME)
    assert await store.budgets.find_reservation("second") is None
    assert [usage.used for usage in await store.budgets.list_usage()] == [Totals(reserved=10)]
    assert not isinstance(await reserve(backend, "second"), Refusal)
    assert (await verify_ledger(store)).problems == ()
    await backend.close()


async def test_when_all_connections_are_busy_callers_get_an_error_and_nothing_is_charged_twice(
    impatient,
):
    admin_url, backend = impatient("", connections=1, deadline=timedelta(seconds=3))
    keys = [f"k{n}" for n in range(5)]

    await reserve(backend, "first")
    with held(admin_url):
        answers = await asyncio.gather(
            *(reserve(backend, key) for key in keys), return_exceptions=True
        )
    # Who had the connection had sent everything, and was not answered: it may have been done.
    kinds = sorted(type(answer).__name__ for answer in answers)
    assert kinds == ["TransientError"] * 4 + ["UncertainError"]
    assert sum("busy" in str(answer) for answer in answers) == 4
    for key in keys:
        assert not isinstance(await reserve(backend, key), Refusal)
    store = backend.tenant(ACME)
    assert [usage.used for usage in await store.budgets.list_usage()] == [Totals(reserved=60)]
    assert (await verify_ledger(store)).problems == ()
    await backend.close()


def deadlocks(admin_url):
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute("SELECT pg_stat_force_next_flush()")
        [[seen]] = admin.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchall()
    return seen


async def test_totals_are_locked_in_one_order_so_nothing_deadlocks(postgres, request):
    admin_url, app_url = pg.fresh_database(postgres)

    backend = PostgresBackend(app_url, connections=8)
    money = backend.tenant(ACME).budgets
    orders = [(DAILY, HOURLY, SHARED), (SHARED, DAILY, HOURLY), (HOURLY, SHARED, DAILY)]

    async def spender(nth):
        for turn in range(8):
            key = f"{nth}/{turn}"
            await reserve(backend, key, caps=orders[(nth + turn) % 3])
            await money.settle(key, {"credits": 1}, now=NOW)
            await money.expire_reservations(now=NOW + timedelta(minutes=2))

    await asyncio.gather(*(spender(nth) for nth in range(12)))
    assert (await verify_ledger(backend.tenant(ACME))).problems == ()
    await backend.close()
    told(request, "B6 totals in one order", f"n=96 promises, deadlocks {deadlocks(admin_url)}")
    assert deadlocks(admin_url) == 0
