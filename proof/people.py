"""People of the sandbox joined with the addresses their sites show: 1,000 companies a seed.

    python -m proof people [--scale 0.01]

The same count over few companies is in `tests/crawl/test_people.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.joined_people import count_joined_people

SEEDS = (1, 2, 3)
COMPANIES = 1_000
LEAST_SHARE = 180 / 185


def main(scale: float = 1.0) -> int:
    failures = 0
    for seed in SEEDS:
        count = count_joined_people(seed=seed, companies=max(20, int(COMPANIES * scale)))
        print(f"seed {seed}, {count}", flush=True)
        failures += count.wrong > 0 or count.joined < LEAST_SHARE * count.shown
    return failures
