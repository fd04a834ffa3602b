"""How many next runs a second, beside the bare datetime and zoneinfo sums nobody can do without.

The baseline reads the wall clock, takes today or tomorrow at the hour, and goes back to UTC. It
knows one time of day, and nothing of gaps, folds or calendars.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from zoneinfo import ZoneInfo

from stoker.calendar.recurrence import (
    Cron,
    Window,
    compute_due,
    compute_next_run,
    get_latest_occurrence,
)

START = datetime(2026, 1, 1, 0, 17, tzinfo=UTC)
MOMENTS = [START + timedelta(hours=7, minutes=11) * step for step in range(2_000)]  # over a year
ROUNDS = 5


def bare_next(now: datetime, at: time_of_day, zone: ZoneInfo) -> datetime:
    local = now.astimezone(zone)
    candidate = datetime.combine(local.date(), at, zone)
    if candidate <= local:
        candidate = datetime.combine(local.date() + timedelta(days=1), at, zone)
    return candidate.astimezone(UTC)


def fastest(*asked: Callable[[datetime], object]) -> list[float]:
    """Return answers a second for each, taken in turns so that a busy machine slows all alike."""
    best = [0.0] * len(asked)
    for _ in range(ROUNDS):
        for which, ask in enumerate(asked):
            began = time.perf_counter()
            for moment in MOMENTS:
                ask(moment)
            best[which] = max(best[which], len(MOMENTS) / (time.perf_counter() - began))
    return best


def main() -> list[tuple[str, str, str, str]]:
    paris, at = ZoneInfo("Europe/Paris"), time_of_day(2, 30)
    daily = Cron("30 2 * * *", "Europe/Paris")
    asked: dict[str, Callable[[datetime], object]] = {
        "next run, daily cron": lambda now: compute_next_run(now, daily),
        "next run, every 15 minutes": lambda now: compute_next_run(now, quarters),
        "next run, leap day on a Sunday": lambda now: compute_next_run(now, rare),
        "next run, UTC window": lambda now: compute_next_run(now, window),
        "latest instant, daily cron": lambda now: get_latest_occurrence(now, daily),
        "what is due, one day on": lambda now: compute_due(now, now - timedelta(days=1), daily),
    }
    quarters, rare = Cron("*/15 * * * *", "Europe/Paris"), Cron("30 2 29 2 */7", "Europe/Paris")
    window = Window(at)
    bare, *ours = fastest(lambda now: bare_next(now, at, paris), *asked.values())
    rows = [
        (f"{what} ({1e6 / rate:.0f} µs)", f"{rate:,.0f}/s", f"{bare:,.0f}/s", f"{rate / bare:.2f}")
        for what, rate in zip(asked, ours, strict=True)
    ]
    every_minute = Cron("* * * * *", "Europe/Paris")
    began = time.perf_counter()
    compute_due(START, START - timedelta(days=365), every_minute)
    took = time.perf_counter() - began
    return [*rows, ("a year of missed minutes, coalesced", f"{took * 1e3:.0f} ms", "-", "-")]


if __name__ == "__main__":
    for row in main():
        print(*row, sep="  ")
