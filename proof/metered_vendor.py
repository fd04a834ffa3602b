"""Fifty thousand calls to a vendor that lies, by payers that are killed; its counter is the oracle.

Half of them to a vendor that knows idempotency keys, half to one that does not. And the naive
twins, each of which must be caught: a zero found by a blind harness would say nothing.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from faults.paying_trials import Verdict, killed_while_paying

CALLS, A_TRIAL = 50_000, 500
TWINS = ("records afterwards", "gives back when unsure")


def trials(home: Path, *, calls: int, knows_keys: bool) -> list[Verdict]:
    """Return the verdicts of as many trials as it takes to make so many calls."""
    verdicts: list[Verdict] = []
    while sum(verdict.calls for verdict in verdicts) < calls:
        seed = f"{knows_keys} {len(verdicts)}"
        left = calls - sum(verdict.calls for verdict in verdicts)
        verdict = killed_while_paying(
            home / seed,
            calls=min(A_TRIAL, max(left, 20)),
            knows_keys=knows_keys,
            chance=random.Random(seed),
        )
        for broken in verdict.broken:
            print(f"{seed}: {broken}")
        verdicts.append(verdict)
    return verdicts


def told(what: str, verdicts: list[Verdict]) -> int:
    """Print what was counted; return how much of it was broken."""
    broken = sum(len(verdict.broken) for verdict in verdicts)
    charged = sum(verdict.charged for verdict in verdicts)
    caps = sum(verdict.cap for verdict in verdicts)
    print(
        f"{what}: n={sum(verdict.calls for verdict in verdicts):,} calls, "
        f"{sum(verdict.kills for verdict in verdicts):,} kills, "
        f"{sum(verdict.pauses for verdict in verdicts):,} pauses beyond the lease; charged "
        f"{charged:,} of {caps:,}, "
        f"{sum(verdict.uncertain for verdict in verdicts):,} left uncertain, {broken} broken",
        flush=True,
    )
    return broken


def main(scale: float = 1.0) -> int:
    """Print n and every broken promise; return how many there were, uncaught twins included."""
    calls = max(40, int(CALLS * scale / 2))
    failures = 0
    with tempfile.TemporaryDirectory() as home:
        for knows_keys in (True, False):
            what = f"a lying vendor that knows {'' if knows_keys else 'no '}keys"
            found = trials(Path(home), calls=calls, knows_keys=knows_keys)
            failures += told(what, found)
        for way in TWINS:
            verdict = killed_while_paying(
                Path(home) / f"twin {way}",
                calls=300,
                knows_keys=False,
                way=way,
                chance=random.Random(way),
            )
            caught = verdict.broken[0] if verdict.broken else "NOT CAUGHT"
            print(f"naive twin ({way}): {caught}", flush=True)
            failures += not verdict.broken
    return failures


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
