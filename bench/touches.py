"""Weekly touch plans: how fast, and whether they do what they are for.

Time is measured of one process's own processor, so that a busy machine does not count against it;
memory is the most a process of its own ever held, profiles and plan together. For the million the
collector of garbage is paused, as the engine pauses it. Coverage is what twelve weeks leave when a
touch in five comes to nothing, beside the same planner asked on Mondays only; nothing beats
touching the longest-waiting first. Ten thousand weeks are a proof: `python -m proof touches`.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.simulation.touches import compare_coverage, simulate_timing
from stoker.testing import FakeClock
from stoker.touches.planning.coverage import OutcomeOdds
from stoker.touches.planning.planner import plan_week
from stoker.touches.service import TouchService, pause_garbage_collection
from stoker.touches.settings import PlanRule
from touch_promises import MONDAY, people, planned_weeks

NOW = datetime(2026, 2, 8, 12, tzinfo=UTC)
USUAL = OutcomeOdds(failed=0.10, already_reacted=0.05, no_posts=0.05)
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
    burst_least=600,
    burst_most=1_000,
    light_by=600,
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
    with pause_garbage_collection():
        plan = plan_week(
            million, monday=MONDAY, rule=LARGE, seed=1, zone="Asia/Singapore", created_at=NOW
        )
    took = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return took, most, sum(len(slot.touches) for slot in plan.days)


def crowd(number: int) -> PlanRule:
    """Return a rule by which so many are touched about every nine days."""
    return replace(
        LARGE,
        weekly_budget=number * 8 // 10,
        weekly_cap=number,
        daily_mean=number * 0.114,
        daily_std=number * 0.01,
        daily_min=number * 8 // 100,
        daily_max=number * 15 // 100,
        daily_cap=number * 15 // 100,
        hourly_cap=number // 10,
        force_limit=number // 20,
    )


async def looks(number: int, path: Path) -> tuple[float, float, float, float]:
    """Return seconds of a day's first look, of another, of an outcome and of a look after that."""
    backend, clock = SqliteBackend(path), FakeClock(NOW + timedelta(hours=12))
    await backend.migrate()
    tenant = TenantId("acme")
    store = backend.tenant(tenant).touches
    await store.save_profiles(people(number, now=NOW))
    touching = TouchService(
        store, rule=crowd(number), zone="Asia/Singapore", clock=clock, tenant=tenant
    )
    took = []
    try:
        queue = await touching.get_todays_queue()
        clock.advance(timedelta(days=1))
        for look in (
            touching.get_todays_queue,
            touching.get_todays_queue,
            lambda: touching.mark_outcome(queue[0].url, "failed"),
            touching.get_todays_queue,
        ):
            began = time.process_time()
            await look()
            took.append(time.process_time() - began)
    finally:
        await backend.close()
    return took[0], took[1], took[2], took[3]


def main() -> list[tuple[str, str, str, str]]:
    alone = subprocess.run(
        [sys.executable, "-m", "bench.touches", "large"], capture_output=True, text=True, check=True
    )
    seconds, megabytes, touches = alone.stdout.split()
    ours, weekly, best, _ = compare_coverage(
        profiles=100, weeks=12, runs=200, odds=USUAL, rule=PlanRule()
    )
    seen = simulate_timing(days=10_000, per_day=12, rule=PlanRule())
    wrong = planned_weeks(300)
    with tempfile.TemporaryDirectory() as room:
        first, again, mark, after = asyncio.run(looks(50_000, Path(room) / "bench.db"))
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
            "today's queue of 50,000 profiles: a day's first look; another (SQLite)",
            f"{first:.2f} s",
            f"{again * 1e3:.0f} ms",
            "-",
        ),
        (
            "an outcome recorded among 50,000 profiles; the look after it (SQLite)",
            f"{mark * 1e3:.0f} ms",
            f"{after:.2f} s",
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
