"""The hostile web, in large: addresses that lead inside, servers that never end, bombs, mad JSON.

The small counts of the same trials are in `tests/faults/test_ssrf.py` and `test_hostile_web.py`,
with the clients that do it wrong and are caught.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from faults import web_trials
from faults.tally import Tally
from faults.web_lab import STATUSES, trial, why_no_lab
from stoker.connectors.reading import read_json

FUZZED, REBINDS, NEVER_ENDING, BOMB_ROUNDS, BODIES, ANSWERS = (
    50_000,
    5_000,
    500,
    100,
    1_000_000,
    20_000,
)


def counted(most: int, scale: float, *, least: int) -> int:
    return max(round(most * scale), least)


def told(what: str, tally: Tally) -> int:
    print(f"{what}: n={tally.n}, broken {len(tally.broken)} {tally.broken[:5] or ''}", flush=True)
    return len(tally.broken)


def addresses(scale: float) -> int:
    """Every attack, every redirect, many that change their mind, and many made up."""
    if reason := why_no_lab():
        print(f"addresses leading inside: not tried, for {reason}")
        return 0
    seen = trial(
        "ours",
        fuzz=counted(FUZZED, scale, least=200),
        rebinds=counted(REBINDS, scale, least=50),
        redirects=len(STATUSES),
    )
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(seen.tried.items()))
    tally = Tally(n=seen.tried.total(), broken=[*seen.leaks, *seen.hits, *seen.probes])
    wrong = told(f"addresses leading inside ({kinds}; public {seen.legit}/{seen.legit_of})", tally)
    return wrong + (seen.legit_of - seen.legit)


def main(scale: float = 1.0) -> int:
    """Print each count with what broke; return how much did."""
    rng = random.Random("proof of the web")
    wrong = addresses(scale)
    ending = web_trials.ending(counted(NEVER_ENDING, scale, least=28))
    wrong += told("servers that never end", ending)
    bombs, growth = web_trials.eating(counted(BOMB_ROUNDS, scale, least=3))
    wrong += told(f"bombs (memory grew by {growth / web_trials.MIB:.1f} MiB at most)", bombs)
    answers = web_trials.answering(rng, counted(ANSWERS, scale, least=200))
    wrong += told("mad JSON through a server", answers)
    bodies = web_trials.reading(rng, counted(BODIES, scale, least=1000), read=read_json)
    return wrong + told("mad JSON", bodies)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
