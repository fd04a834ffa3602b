"""A million operations on money, with processes killed all the while, on SQLite and on Postgres.

    python -m proof.money_chaos [--scale 0.05] [--store sqlite]

Eight processes of eight tasks promise, settle, release, keep aside and forget under three caps.
Every few hundred operations one of the processes, at random, is killed with -9 and another takes
its place, while totals are looked at again and again. Before that, fifty workers rush for one cap.
Beside each there is a naive twin, which must be caught.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pg
from faults.money_trials import CAP, chaos, chaos_naively, rushed, rushed_naively

OPERATIONS, ROUNDS, PROCESSES, TASKS = 1_000_000, 1_000, 8, 8
KILL_EVERY = 350
CONNECTIONS = 2  # of each process: tasks then wait for each other at home, not all in the server
TELL_EVERY = 30.0

Place = dict[str, Any]


def proven(name: str, places: Iterator[Place], scale: float) -> int:
    """Print what was done on one backend; return how many promises did not hold."""
    rounds = max(3, int(ROUNDS * scale))
    crowd = {"workers": 10, "tasks": 5}
    rush = rushed({**next(places), **crowd, "rounds": rounds})
    print(f"{name}, 50 workers on one cap: n={rounds} rounds, {rush}", flush=True)
    over = max(rushed_naively({**next(places), **crowd, "rounds": 3}))
    print(f"{name}, naive twin: spent {over} of {CAP} ({over / CAP - 1:+.0%})", flush=True)
    order = {"workers": PROCESSES, "tasks": TASKS, "seed": 1, "kill_every": KILL_EVERY}
    operations = max(500, int(OPERATIONS * scale))
    more = {"operations": operations, "connections": CONNECTIONS, "tell_every": TELL_EVERY}
    trial = chaos({**next(places), **order, **more})
    pace = trial.counted["operations"] / max(1, trial.counted["seconds"])
    print(
        f"{name}, kill -9 of {PROCESSES} processes × {TASKS} tasks: n={trial}; "
        f"{pace:,.0f} operations a second",
        flush=True,
    )
    torn = chaos_naively({**next(places), **order, "operations": 2_000, "kill_every": 40})
    print(f"{name}, naive twin: its entries miss {torn} of what its total says", flush=True)
    broken = rush.broken + trial.broken
    for said in broken[:10]:
        print(f"  {said}")
    blind = (over <= CAP) + (not torn)
    if blind:
        print("  a naive twin was not caught, so the zeros above say nothing")
    return len(broken) + blind


@contextmanager
def sqlite_places() -> Iterator[Iterator[Place]]:
    """Lend as many places for a file as are asked for, none of them used before."""
    with tempfile.TemporaryDirectory() as directory:
        yield ({"path": str(Path(directory) / f"{nth}.db")} for nth in range(100))


@contextmanager
def postgres_places() -> Iterator[Iterator[Place]]:
    """Lend as many databases of one server as are asked for, ours and the twins' in turn."""
    os.environ[pg.HOME] = str(pg.new_home())
    server = pg.Server(Path(os.environ[pg.HOME]))
    try:
        server.make()
        yield ({"url": pg.fresh_database(server)[nth % 2 == 0]} for nth in range(100))
    finally:
        server.remove()


STORES = {"sqlite": ("SQLite", sqlite_places), "postgres": ("Postgres", postgres_places)}


def main(scale: float = 1.0, stores: tuple[str, ...] = tuple(STORES)) -> int:
    """Return how many promises did not hold, on all these backends."""
    failures = 0
    for store in stores:
        name, lent = STORES[store]
        if store == "postgres" and (reason := pg.why_no_postgres()):
            print(f"without Postgres: {reason}")
            continue
        with lent() as places:
            failures += proven(name, places, scale)
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m proof.money_chaos", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is what we publish")
    parser.add_argument("--store", choices=[*STORES], action="append", help="both by default")
    asked = parser.parse_args()
    sys.exit(1 if main(asked.scale, tuple(asked.store or STORES)) else 0)
