"""Weeks of touches by the ten thousand, times of day over many seeds, hand-overs killed with -9.

    python -m proof.touches [--scale 0.1]

Weeks are planned and, fewer of them, lived through with a touch in five coming to nothing. Beside
each count there is a naive twin, which must be caught.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from faults.touch_kills import killed, side_by_side
from stoker.simulation.touches import compare_coverage
from stoker.touches.planning.coverage import OutcomeOdds
from stoker.touches.settings import PlanRule
from touch_promises import lived_weeks, p_values, planned_weeks, unevenness

WEEKS, LIVED, SEEDS, DAYS, RUNS, KILLS, ROUNDS = 10_000, 1_000, 40, 10_000, 200, 100, 10
USUAL = OutcomeOdds(failed=0.10, already_reacted=0.05, no_posts=0.05)
LEAST = 0.995  # of gaps within the window
UNLIKELY = 1.95  # unevenness that chance alone gives once in a thousand times


def counted(what: str, count: Callable[[], Counter[str]]) -> int:
    """Print what is broken, by kind; return how much that is."""
    began = time.monotonic()
    found = count()
    print(f"{what}: broken {found.total()} ({time.monotonic() - began:.0f} s)", flush=True)
    for kind, number in sorted(found.items()):
        print(f"  {kind}: {number}")
    return found.total()


def caught(what: str, broken: float) -> int:
    """Print whether a naive twin was noticed; return 1 when it was not."""
    said = "caught" if broken else "NOT CAUGHT, so the zero says nothing"
    print(f"naive twin, {what}: {said}", flush=True)
    return not broken


def of_times(seeds: int, days: int) -> int:
    """Print how p-values over many seeds lie; return 1 when they are not spread evenly."""
    found = p_values(seeds, days=days)
    uneven = unevenness(found)
    below = sum(p < 0.05 for p in found) / len(found)
    print(
        f"times against the table of rates, {seeds} seeds of {days:,} days: least p "
        f"{min(found):.3f}, {below:.0%} below 0.05, unevenness {uneven:.2f} (1.95 is too much)",
        flush=True,
    )
    return uneven > UNLIKELY


def of_coverage(runs: int) -> int:
    """Print how many gaps are within the window, beside both other policies."""
    ours, weekly, best, _ = compare_coverage(
        profiles=100, weeks=12, runs=runs, odds=USUAL, rule=PlanRule()
    )
    print(
        f"gaps within 14 days, {runs} runs of 12 weeks, n={sum(ours.gaps):,}: {ours.within:.2%}; "
        f"planned weekly {weekly.within:.2%}, longest wait first {best.within:.2%}",
        flush=True,
    )
    return ours.within < LEAST


def of_kills(kills: int, rounds: int) -> int:
    """Kill hand-overs, and let them go on side by side; return how many promises broke."""
    failures, rng = 0, random.Random(1)
    for state in ("store", "file"):
        with tempfile.TemporaryDirectory() as room:
            tally = killed(rng, kills, Path(room), state=state)
            print(
                f"hand-overs killed with -9, touches in a {state}: n={tally.n} kills, "
                f"{tally.acked} touches left, broken {len(tally.broken)}",
                flush=True,
            )
            beside = side_by_side(Path(room), state=state, rounds=rounds)
            print(
                f"hand-overs side by side, touches in a {state}: n={beside.n} processes, "
                f"{beside.acked} touches left, broken {len(beside.broken)}",
                flush=True,
            )
        for said in (tally.broken + beside.broken)[:10]:
            print(f"  {said:.300}")
        failures += len(tally.broken) + len(beside.broken)
    for twin in ("written first", "blind"):
        with tempfile.TemporaryDirectory() as room:
            failures += caught(
                twin, len(killed(rng, 6, Path(room), state="store", twin=twin).broken)
            )
    return failures


def main(scale: float = 1.0) -> int:
    """Return how many promises did not hold."""
    weeks, lived = max(10, int(WEEKS * scale)), max(5, int(LIVED * scale))
    failures = counted(f"weeks planned, n={weeks:,}", lambda: planned_weeks(weeks))
    no_gap = planned_weeks(5, planner=PlanRule(gap=timedelta(0)))
    failures += caught("keeps no gap", no_gap["gap"])
    failures += counted(f"weeks lived through, n={lived:,}", lambda: lived_weeks(lived))
    failures += caught("forgets outcomes", lived_weeks(5, forgetful=True)["consecutive"])
    failures += of_times(max(10, int(SEEDS * min(scale, 1))), max(50, int(DAYS * scale)))
    failures += of_coverage(max(5, int(RUNS * scale)))
    return failures + of_kills(max(4, int(KILLS * scale)), max(1, int(ROUNDS * scale)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m proof.touches", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is what we publish")
    sys.exit(1 if main(parser.parse_args().scale) else 0)
