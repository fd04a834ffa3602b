"""Nights killed two hundred times or held still, at every cap, side by side, and the night after.

    python -m proof.nights [--scale 0.1]

Against the make-believe internet, whose own bills and records are the truth. Beside kills and caps
there is a naive twin, which must be caught.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pg
from faults.night_caps import LIMITS, TENANTS, capped
from faults.night_trials import IN_A_FILE, killed, next_night
from faults.tally import Tally
from night_canaries import looked_through

KILLS, PAUSES, ROUNDS, COMPANIES, AFTERWARDS = 200, 5, 4, 100, 100
SAVED = 0.9  # of the paid questions of a first night, by the next one

Trial = Callable[[Path], Tally]


def tried(what: str, trial: Trial) -> Tally:
    """Carry out a trial in a place of its own; print what came of it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as room:
        tally = trial(Path(room))
    took = time.monotonic() - began
    print(f"{what.format(n=tally.n, acked=tally.acked)}: broken {len(tally.broken)} ({took:.0f} s)")
    for said in tally.broken[:10]:
        print(f"  {said:.500}")
    sys.stdout.flush()
    return tally


def caught(what: str, trial: Trial) -> int:
    """Carry out a naive twin's trial; return 1 when nobody noticed."""
    with tempfile.TemporaryDirectory() as room:
        broken = trial(Path(room)).broken
    print(f"naive twin, {what}: {broken[0] if broken else 'NOT CAUGHT, so the zero says nothing'}")
    return not broken


def of_the_night_after(companies: int) -> int:
    """Print how much the next night saves; return 1 when that is too little."""
    with tempfile.TemporaryDirectory() as room:
        first, second, left = next_night(Path(room), companies=companies)
    asked = sum(times for (_, _, question), times in second.items() if question not in left)
    saved = 1 - asked / first.total()
    print(
        f"the night after, nothing changed, n={companies} companies: {asked} paid questions "
        f"after {first.total()}, {saved:.1%} saved; {second.total() - asked} addresses verified "
        "that the first night had left",
        flush=True,
    )
    return saved < SAVED


def of_two_tenants(companies: int) -> int:
    """Look through everything two tenants can see, on each store; return how much was seen."""
    told = (
        "two tenants, cap {companies}, {store}: n={{n}} texts, {{acked}} canaries at home, abroad"
    )
    in_file = tried(
        told.format(companies=companies, store="SQLite"),
        lambda room: looked_through(room, companies=companies, storage=IN_A_FILE),
    )
    failures = len(in_file.broken) + (not in_file.acked)
    if reason := pg.why_no_postgres():
        print(f"without Postgres: {reason}")
        return failures
    os.environ[pg.HOME] = str(pg.new_home())
    server = pg.Server(Path(os.environ[pg.HOME]))
    try:
        server.make()
        _, url = pg.fresh_database(server)
        storage = ('storage.backend = "postgres"', f'storage.postgres_url = "{url}"')
        seen = tried(
            told.format(companies=companies, store="Postgres"),
            lambda room: looked_through(room, companies=companies, storage=storage),
        )
        return failures + len(seen.broken) + (not seen.acked)
    finally:
        server.remove()


def main(scale: float = 1.0) -> int:
    """Return how many promises did not hold."""
    rng = random.Random(1)
    kills, rounds = max(2, int(KILLS * scale)), max(1, int(ROUNDS * scale))
    failures = len(
        tried(
            "nights killed with -9 and gone on with: n={n} kills, {acked} companies whose "
            "outcome nobody knew before the next day",
            lambda room: killed(rng, kills, room),
        ).broken
    )
    failures += caught("keeps no answers", lambda room: killed(rng, 10, room, way="forgetful"))
    pauses = max(1, int(PAUSES * scale))
    failures += len(
        tried(
            "nights held still until another process was through with them, then let go: n={n}, "
            "{acked} companies whose outcome nobody knew before the next day",
            lambda room: killed(rng, pauses, room, pauses=True),
        ).broken
    )
    tally = tried(
        f"{len(TENANTS)} tenants × 8 companies at once at every vendor's cap: "
        "n={n} nights, {acked} caps that refused, overruns",
        lambda room: capped(room, rounds=rounds),
    )
    blind = tally.acked < rounds * len(TENANTS) * len(LIMITS)
    failures += len(tally.broken) + blind
    failures += caught("looks, then spends", lambda room: capped(room, rounds=3, hasty=True))
    failures += of_two_tenants(max(2, int(COMPANIES * scale)))
    return failures + of_the_night_after(max(4, int(AFTERWARDS * scale)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m proof.nights", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is what we publish")
    sys.exit(1 if main(parser.parse_args().scale) else 0)
