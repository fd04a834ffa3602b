"""How many turns a second, beside aiolimiter and pyrate-limiter; and how full a shared rate is.

The first rows never wait: they are what asking costs. The last is eight processes on one SQLite
file asking for turns under one key for a minute: how much of the rate was used, and the most calls
that any stretch as long as the rate's own saw, taken by each caller the moment it had its turn.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from stoker.backends.sqlite import SqliteBackend
from stoker.base.clock import SystemClock
from stoker.rate_limits.rate_limit import LocalRateLimiter, Rate, SharedRateLimiter

TURNS, ROUNDS = 50_000, 5
PLENTY = 10_000_000  # a second: nobody ever waits

WORKERS = 8
# A little room is left for what a call loses between its turn and the vendor's door.
SHARED = Rate(calls=600, per=timedelta(seconds=30), burst=12, share=0.995)
MINUTE = timedelta(minutes=1)


async def per_second(ask: Callable[[], Awaitable[object]], turns: int) -> float:
    began = time.perf_counter()
    for _ in range(turns):
        await ask()
    return turns / (time.perf_counter() - began)


async def asking() -> dict[str, float]:
    """Return the best of some rounds for each, taken in turns so that a busy machine is fair."""
    from aiolimiter import AsyncLimiter  # here, so that proofs do without the `bench` extra
    from pyrate_limiter import Duration, InMemoryBucket, Limiter
    from pyrate_limiter import Rate as PyrateRate

    clock, per = SystemClock(), timedelta(seconds=1)
    ours = LocalRateLimiter(
        Rate(calls=PLENTY, per=per, burst=PLENTY // 2), clock=clock, ticks=time.monotonic_ns
    )
    aio = AsyncLimiter(PLENTY, 1)
    pyrate = Limiter(InMemoryBucket([PyrateRate(PLENTY, Duration.SECOND)]))
    asked: dict[str, tuple[Callable[[], Awaitable[object]], int]] = {
        "ours": (ours.acquire, TURNS),
        "aiolimiter": (aio.acquire, TURNS),
        "pyrate-limiter": (pyrate.try_acquire_async, TURNS // 10),
    }
    best = dict.fromkeys(asked, 0.0)
    for _ in range(ROUNDS):
        for name, (ask, turns) in asked.items():
            best[name] = max(best[name], await per_second(ask, turns))
    pyrate.close()
    return best


def call(path: str, rate: Rate, start_at: float, end_at: float, told: str) -> None:
    """One worker: take turns until the end; write down the moment after each."""

    async def calling() -> list[float]:
        backend = SqliteBackend(path)
        pace = SharedRateLimiter("one key", rate, shared=backend.shared(), clock=SystemClock())
        await asyncio.sleep(start_at - time.time())
        moments = []
        while (now := time.time()) < end_at:
            await asyncio.wait_for(pace.acquire(), end_at - now + 5)
            moments.append(time.time())
        await backend.close()
        return moments

    Path(told).write_text("\n".join(map(str, asyncio.run(calling()))))


def shared_by(workers: int, rate: Rate, *, lasting: timedelta) -> list[float]:
    """Return the moments at which calls of all workers went, in order."""
    with tempfile.TemporaryDirectory() as home:
        path = str(Path(home) / "stoker.db")
        asyncio.run(_migrated(path))
        start_at = time.time() + 3  # when everybody has started
        end_at = start_at + lasting.total_seconds()
        told = [str(Path(home) / f"worker-{nth}") for nth in range(workers)]
        spawn = multiprocessing.get_context("spawn")
        running = [
            spawn.Process(target=call, args=(path, rate, start_at, end_at, each)) for each in told
        ]
        for process in running:
            process.start()
        for process in running:
            process.join()
        lines = [line for each in told for line in Path(each).read_text().split()]
    return sorted(moment for moment in map(float, lines) if moment < end_at)


async def _migrated(path: str) -> None:
    backend = SqliteBackend(path)
    await backend.migrate()
    await backend.close()


def most_in_any(moments: list[float], window: timedelta) -> int:
    """Return the largest number of calls in any stretch this long."""
    length = window.total_seconds()
    return max(bisect_left(moments, at + length) - nth for nth, at in enumerate(moments))


def main() -> list[tuple[str, str, str, str]]:
    rates = asyncio.run(asking())
    rows = [
        (
            f"turns under a rate, one process, beside {name}",
            f"{rates['ours']:,.0f}/s",
            f"{rate:,.0f}/s",
            f"{rates['ours'] / rate:.2f}",
        )
        for name, rate in rates.items()
        if name != "ours"
    ]
    moments = shared_by(WORKERS, SHARED, lasting=MINUTE)
    most, allowed = most_in_any(moments, SHARED.per), int(SHARED.calls * (MINUTE / SHARED.per))
    what = f"one rate held by {WORKERS} processes for a minute; most in any {SHARED.per.seconds} s"
    return [
        *rows,
        (f"{what}: {most} of {SHARED.calls}", *_used(len(moments), allowed)),
    ]


def _used(went: int, allowed: int) -> tuple[str, str, str]:
    return f"{went:,} calls", f"{allowed:,} allowed", f"{went / allowed:.2f}"


if __name__ == "__main__":
    for row in main():
        print(*row, sep="  ")
