"""The large counts for Postgres: cut, stopped, silenced and stormed, on a server of its own.

    python -m proof --scale 0.01 postgres

Each line says what was broken how often (n) and how many promises did not survive it; a zero in n
trials bounds the rate to 3/n. The naive twins are run beside it, and a blind harness is a failure.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import psycopg
from psycopg_pool import ConnectionPool

import pg
from faults import pg_trials as trials
from faults.pg_proxy import Proxy
from faults.pg_trials import Cuts
from faults.tally import Tally
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.db.row_security import find_role_problems, find_table_problems

CUTS_AT_ONCE = 2_000  # each batch in a database of its own, so that judging it stays quick


def main(scale: float = 1.0, seed: int | None = None) -> int:
    """Inject the large counts, times scale; print every tally; return how many promises broke."""
    if reason := pg.why_no_postgres():
        print(f"not here: {reason}")
        return 0
    seed = int(time.time()) if seed is None else seed
    rng = random.Random(seed)
    print(f"seed {seed}")
    broken = 0
    with pg.own_server() as server:
        broken += _told("B4 connection cut at COMMIT", _cuts(server, _times(20_000, scale), rng))
        broken += _told("B3 immediate stop and start", _restarts(server, _times(300, scale)))
        broken += _told("B5 connection falls silent", _silences(server, _times(500, scale)))
        broken += _told(
            "E1 requests, some forgetful", _storm(server, _times(1_000_000, scale), rng)
        )
        broken += sum(not caught for caught in _twins(server, rng))
    for version in (16, 18):
        with pg.own_server(version=version) as server:
            broken += _told(f"E5 catalog lint on Postgres {version}", _lint(server))
    return broken


def _times(n: int, scale: float) -> int:
    return max(1, round(n * scale))


def _told(what: str, tally: Tally) -> int:
    bound = f"rate < {3 / tally.n:.2g}" if tally.n and not tally.broken else ""
    line = f"n={tally.n:<8} acknowledged={tally.acked:<9} broken={len(tally.broken)}"
    print(f"{what:<44} {line} {bound}", flush=True)
    for each in tally.broken[:5]:
        print(f"    {each}")
    return len(tally.broken)


def _with(
    url: str,
    work: Callable[[PostgresBackend], Awaitable[Tally]],
    deadline: float = 60,
    lanes: int = 4,
) -> Tally:
    async def whole() -> Tally:
        backend = PostgresBackend(url, connections=lanes, deadline=timedelta(seconds=deadline))
        try:
            return await work(backend)
        finally:
            await backend.close()

    return asyncio.run(whole())


def _cuts(server: pg.Server, n: int, rng: random.Random) -> Tally:
    tally = Tally()
    while tally.n < n:
        tally += _cut(server, Cuts(min(CUTS_AT_ONCE, n - tally.n), rng))
    return tally


def _cut(server: pg.Server, cuts: Cuts, verb: trials.Verb = trials.decide) -> Tally:
    _, url = pg.fresh_database(server)
    with Proxy(server.socket, cuts) as proxy:
        return _with(
            proxy.rewrite_url(url), lambda backend: trials.cut_commits(backend, cuts, verb)
        )


def _restarts(server: pg.Server, n: int) -> Tally:
    _, url = pg.fresh_database(server)
    return _with(url, lambda backend: trials.restarts(server, backend, times=n, each=20))


def _silences(server: pg.Server, n: int) -> Tally:
    _, url = pg.fresh_database(server)
    with Proxy(server.socket, trials.silent_from(trials.asks_for_a_lease)) as proxy:
        return _with(
            proxy.rewrite_url(url),
            lambda backend: trials.silences(backend, n=n),
            deadline=0.3,
            lanes=5,
        )


def _storm(server: pg.Server, n: int, rng: random.Random) -> Tally:
    _, url = pg.fresh_database(server)

    async def stormed(backend: PostgresBackend) -> Tally:
        await trials.fill(backend)
        return await trials.storm(trials.OurDoor(backend), requests=n, rng=rng)

    return _with(url, stormed)


def _lint(server: pg.Server) -> Tally:
    _, url = pg.fresh_database(server)
    with psycopg.connect(url) as link:
        found = find_table_problems(link, SCHEMA) + find_role_problems(link)
    return Tally(n=1, broken=[str(finding) for finding in found])


def _twins(server: pg.Server, rng: random.Random) -> list[bool]:
    """Do it the naive way; say of each twin whether the harness caught it."""
    _, url = pg.fresh_database(server)
    _with(url, lambda backend: _filled(backend))
    with ConnectionPool(url, min_size=1, max_size=4, open=True) as pool:
        leak = asyncio.run(trials.storm(trials.SessionDoor(pool), requests=400, rng=rng))
    doubled = _cut(server, Cuts(20, rng), trials.append_again)
    hasty = trials.hasty(server, server.admin_url, writes=200)
    twins = {"session-level tenant": leak, "retry without a key": doubled, "late commit": hasty}
    for name, tally in twins.items():
        print(
            f"twin: {name:<38} {'caught' if tally.broken else 'NOT CAUGHT'} ({len(tally.broken)})"
        )
    return [bool(tally.broken) for tally in twins.values()]


async def _filled(backend: PostgresBackend) -> Tally:
    await trials.fill(backend)
    return Tally()


if __name__ == "__main__":
    sys.exit(main())
