"""Pulls at length: stated flips made, and the fast planner beside one that takes its time.

    python -m proof pulls

A thousand random refusals: the smallest change that is stated is made and the day planned again.
Two thousand random days, each planned by the production planner and one offer at a time.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pull_cases import NOW, case, slowly
from pull_trials import counted
from stoker.pulls.planner import plan_pulls
from stoker.pulls.settings import Policy


def unlike(days: int) -> int:
    """Return how many of so many days are planned otherwise than one offer at a time."""
    wrong = 0
    for seed in range(days):
        long = {"most": 600, "tight": 0.02} if seed % 5 == 0 else {}
        policy, short = list(Policy)[seed % 2], seed % 3 == 0
        accounts, limits, rule = case(seed, policy=policy, deep_caps=short, **long)
        plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
        wrong += plan.depth.tolist() != slowly(accounts, limits, rule).tolist()
    return wrong


def main(scale: float = 1.0) -> int:
    """Count flips that fail, smaller ones that work, and days planned otherwise."""
    number, days = max(int(1000 * scale), 10), max(int(2000 * scale), 20)
    seen = counted(number, seed=10_000)
    print(
        f"refusals flipped n={seen['tried']} (units {seen['units']}, posture {seen['posture']}, "
        f"wait {seen['wait']}, deep looks {seen['deep looks']}): not chosen {seen['failed']}, "
        f"a smaller change chosen {seen['smaller']}; {seen['without']} more have no flip"
    )
    wrong = unlike(days)
    print(f"days planned n={days}: unlike the slow planner {wrong}")
    return seen["failed"] + seen["smaller"] + wrong


if __name__ == "__main__":
    sys.exit(main())
