"""Weekly touch plans: how fast, and whether they do what they are for.

Time is measured of one process's own processor, so that a busy machine does not count against it;
memory is the most a process of its own ever held, profiles and plan together. For the million the
collector of garbage is paused, as the engine pauses it. Coverage is what twelve weeks leave when a
touch in five comes to nothing, beside the same planner asked on Mondays only; nothing beats
touching the longest-waiting first. Ten thousand weeks are a proof: `python -m proof touches`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stoker.core.coverage.planning import plan_week
from stoker.core.coverage.rehearsing import Odds
from stoker.core.coverage.values import PlanRule
from stoker.engine.touching import without_collecting
from stoker.simulate.coverage import compared
from stoker.simulate.timing import timed
from touch_promises import MONDAY, people, planned_weeks

NOW = datetime(2026, 2, 8, 12, tzinfo=UTC)
USUAL = Odds(failed=0.10, already_reacted=0.05, no_posts=0.05)
LARGE = PlanRule(
    weekly_budget=800_000,
    weekly_cap=800_000,
    daily_mean=114_000,
    daily_std=10_000,
    daily_min=80_000,
    daily_max=150_000,
    daily_cap=150_000,
    hourly_cap=40_000,
    force_limit=50_000,
    gap=timedelta(milliseconds=100),
    burst_least=3_000,
    burst_most=5_000,
    light_by=3_000,
)


def small(turns: int = 20) -> float:
    """Return the best of some plans for a hundred profiles, in seconds."""
    hundred, took = people(100, now=NOW), []
    for nth in range(turns):
        began = time.process_time()
        plan_week(
            hundred,
            monday=MONDAY + timedelta(weeks=nth),
            rule=PlanRule(),
            seed=nth,
            zone="Asia/Singapore",
            created_at=NOW,
        )
        took.append(time.process_time() - began)
    return sorted(took)[len(took) // 2]


def large() -> tuple[float, float, int]:
    """Return seconds and the most megabytes of a plan for a million profiles, and its touches."""
    million = people(1_000_000, now=NOW)
    began = time.process_time()
    with without_collecting():
        plan = plan_week(
            million, monday=MONDAY, rule=LARGE, seed=1, zone="Asia/Singapore", created_at=NOW
        )
    took = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return took, most, sum(len(slot.touches) for slot in plan.days)


def main() -> list[tuple[str, str, str, str]]:
    alone = subprocess.run(
        [sys.executable, "-m", "bench.touches", "large"], capture_output=True, text=True, check=True
    )
    seconds, megabytes, touches = alone.stdout.split()
    ours, weekly, best = compared(profiles=100, weeks=12, runs=200, odds=USUAL, rule=PlanRule())
    seen = timed(days=10_000, per_day=12, rule=PlanRule())
    wrong = planned_weeks(300)
    return [
        (
            "touch plan for 100 profiles, processor time (n=20)",
            f"{small() * 1e3:.1f} ms",
            "20 ms asked",
            "-",
        ),
        (
            f"touch plan for 1,000,000 profiles, {int(touches):,} touches (n=1)",
            f"{float(seconds):.1f} s, {float(megabytes):.0f} MB",
            "10 s, 1 GB asked",
            "-",
        ),
        (
            f"gaps within 14 days, a touch in five fails (n={sum(ours.gaps):,}); on Mondays only",
            f"{ours.within:.2%}",
            f"{weekly.within:.2%}",
            ours.within / weekly.within,
        ),
        (
            "the same beside the longest wait first",
            f"{ours.within:.2%}",
            f"{best.within:.2%}",
            ours.within / best.within,
        ),
        (
            "promises broken in weekly plans (n=300 weeks)",
            str(wrong.total()),
            "0 asked",
            "-",
        ),
        (
            f"touches by hour against the rates, chi-square (n={sum(seen.drawn):,})",
            f"p = {seen.p:.3f}",
            "0.01 asked",
            "-",
        ),
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["large"]:
        print(*large())
    else:
        for row in main():
            print(*row, sep="  ")
