"""A million operations on money, with processes killed all the while, on SQLite and on Postgres.

Eight processes of eight tasks promise, settle, release, keep aside and forget under three caps;
every few moments one of the processes is killed with -9 and another takes its place, while totals
are looked at again and again. Before that, fifty workers rush for one cap, beside a naive twin.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pg
from faults.money_trials import CAP, chaos, rushed, rushed_naively

OPERATIONS, ROUNDS, PROCESSES, TASKS, PAUSE = 1_000_000, 1_000, 8, 8, 2.0


def proven(name: str, ours: dict[str, Any], twins: dict[str, Any], scale: float) -> int:
    """Print what was done on one backend; return how many promises did not hold."""
    rounds = max(3, int(ROUNDS * scale))
    crowd = {"workers": 10, "tasks": 5}
    rush = rushed({**ours["rush"], **crowd, "rounds": rounds})
    print(f"{name}, 50 workers on one cap: n={rounds} rounds, {rush}", flush=True)
    over = max(rushed_naively({**twins, **crowd, "rounds": 3}))
    print(f"{name}, naive twin: spent {over} of {CAP} ({over / CAP - 1:+.0%})", flush=True)
    operations = max(500, int(OPERATIONS * scale))
    order = {"workers": PROCESSES, "tasks": TASKS, "operations": operations, "seed": 1}
    # Often enough to kill in every state, seldom enough that something gets done in between.
    trial = chaos({**ours["chaos"], **order, "pause": PAUSE if scale >= 0.1 else 0.3})
    print(f"{name}, kill -9 of {PROCESSES} processes × {TASKS} tasks: n={trial}", flush=True)
    broken = rush.broken + trial.broken
    for said in broken[:10]:
        print(f"  {said}")
    caught = over > CAP
    if not caught:
        print("  the naive twin was not caught, so the zeros above say nothing")
    return len(broken) + (not caught)


def main(scale: float = 1.0) -> int:
    """Return how many promises did not hold, on both backends."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        ours = {name: {"path": str(home / f"{name}.db")} for name in ("rush", "chaos")}
        failures = proven("SQLite", ours, {"path": str(home / "twin.db")}, scale)
    if reason := pg.why_no_postgres():
        print(f"without Postgres: {reason}")
        return failures
    os.environ[pg.HOME] = str(pg.new_home())
    server = pg.Server(Path(os.environ[pg.HOME]))
    try:
        server.make()
        ours = {name: {"url": pg.fresh_database(server)[1]} for name in ("rush", "chaos")}
        return failures + proven("Postgres", ours, {"url": pg.fresh_database(server)[0]}, scale)
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
