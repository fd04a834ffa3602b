"""Postgres goes away, falls silent or says no, at the worst moment: nothing acked is lost."""

import asyncio
import threading
from datetime import timedelta

import psycopg
import pytest

from faults.pg_proxy import Proxy
from faults.pg_trials import (
    ACME,
    AT_COMMIT,
    START,
    Cuts,
    append_again,
    asks_for_a_lease,
    commits,
    cut_commits,
    decide,
    fill,
    hasty,
    restarts,
    silences,
    silent_from,
)
from faults.tally import Tally
from pg import fresh_database, own_server
from stoker.backends.postgres import PostgresBackend
from stoker.base.errors import UncertainError
from stoker.db.postgres import BEGIN_WRITE
from stoker.ledger.chain import NewEntry

pytestmark = pytest.mark.faults

NOTE = NewEntry(at=START, kind="k", subject="s", reason="r")


async def run_with(url, work, **options):
    backend = PostgresBackend(url, **options)
    try:
        return await work(backend)
    finally:
        await backend.close()


async def test_a_connection_cut_at_commit_loses_nothing_and_doubles_nothing(postgres, rng, report):
    _, url = fresh_database(postgres)
    cuts = Cuts(200, rng)
    with Proxy(postgres.socket, cuts) as proxy:
        tally = await run_with(
            proxy.rewrite_url(url), lambda backend: cut_commits(backend, cuts, decide)
        )
    report("B4 connection cut at COMMIT", tally)
    assert tally.acked > 0
    assert not tally.broken


async def test_writing_again_without_a_key_is_caught_doubling(postgres, rng):
    _, url = fresh_database(postgres)
    cuts = Cuts(20, rng)
    with Proxy(postgres.socket, cuts) as proxy:
        tally = await run_with(
            proxy.rewrite_url(url), lambda backend: cut_commits(backend, cuts, append_again)
        )
    assert any(" times" in broken for broken in tally.broken)


async def until_it_fails(store):
    while True:  # every other COMMIT goes through
        await store.ledger.append([NOTE])


@pytest.mark.parametrize("fate", AT_COMMIT)
async def test_a_cut_at_commit_is_uncertain_never_a_plain_failure(postgres, rng, fate):
    _, url = fresh_database(postgres)
    with Proxy(postgres.socket, Cuts(10**9, rng, fates=(fate,))) as proxy:

        async def write(backend):
            with pytest.raises(UncertainError, match="read again"):
                await until_it_fails(backend.tenant(ACME))

        await run_with(proxy.rewrite_url(url), write)


async def test_a_server_that_stops_at_once_and_comes_back_has_everything(report):
    with own_server() as server:
        _, url = fresh_database(server)
        tally = await run_with(url, lambda backend: restarts(server, backend, times=5, each=20))
        report("B3 immediate stop and start", tally)
        assert not tally.broken

        assert hasty(server, server.admin_url, writes=200).broken, "the harness sees no loss"


async def test_a_silent_server_is_given_up_on_and_the_naive_client_still_waits(postgres, report):
    _, url = fresh_database(postgres)
    short = {"deadline": timedelta(milliseconds=300), "connections": 5}
    with Proxy(postgres.socket, silent_from(asks_for_a_lease)) as proxy:
        waiting = threading.Thread(target=naive_lease, args=(proxy.rewrite_url(url),), daemon=True)
        waiting.start()
        tally = await run_with(
            proxy.rewrite_url(url), lambda backend: silences(backend, n=20), **short
        )
        assert waiting.is_alive(), "the harness is not silent"
    waiting.join()
    report("B5 connection falls silent", tally)
    assert tally.n == 20
    assert not tally.broken


def naive_lease(url):
    with psycopg.connect(url, autocommit=True) as link, pytest.raises(psycopg.OperationalError):
        link.execute("SELECT 'FROM leases'")


async def test_silence_at_commit_is_uncertain(postgres):
    _, url = fresh_database(postgres)
    with Proxy(postgres.socket, silent_from(commits)) as proxy:

        async def write(backend):
            with pytest.raises(UncertainError):
                await backend.tenant(ACME).ledger.append([NOTE])

        await run_with(proxy.rewrite_url(url), write, deadline=timedelta(seconds=1))


async def test_a_deadlock_is_done_again_and_both_sides_finish(postgres, report):
    admin_url, url = fresh_database(postgres)
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(f"ALTER ROLE app_{admin.info.dbname} SET deadlock_timeout = '10ms'")
    tries = []

    async def cross(backend):
        await fill(backend, tenants=[ACME])
        for _ in range(10):
            met = threading.Barrier(2)
            await asyncio.gather(
                backend.transact(ACME, BEGIN_WRITE, crossing(met, tries, "lease0", "lease1")),
                backend.transact(ACME, BEGIN_WRITE, crossing(met, tries, "lease1", "lease0")),
            )
        return [
            (await backend.tenant(ACME).schedule.find_lease(f"lease{n}")).heartbeat for n in (0, 1)
        ]

    assert await run_with(url, cross) == [21, 21]
    assert len(tries) > 20, "there was no deadlock to survive"
    report("B6 deadlock", Tally(n=10, acked=20))


def crossing(met, tries, first, second):
    beat = "UPDATE leases SET beat = beat + 1 WHERE tenant_id = 'acme' AND name = :name"
    waits = iter([True])

    def work(tx):
        tries.append(first)
        tx.execute(beat, name=first)
        if next(waits, False):  # only the first time, or the one that is done again waits alone
            met.wait(timeout=30)
        tx.execute(beat, name=second)

    return work
