"""Read generated hostile files, search for the worst, and print what they cost.

    python -m proof hostile_pages [--scale 0.01]
    python -m proof.hostile_pages --again '{"kind":"page",…}'

Pages, robots.txt files, sitemaps, feeds, vendors' answers and raw HTTP from the grammar in
`tests/fuzz/hostile.py`, 11,500 at scale 1: some by chance, others by changing a little what was
worst so far. Each is read twice: in this process, for processor time and memory, and as production
reads it, for the longest stretch that the event loop stands still.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fuzz.cost import MIB, measure, measure_stall
from fuzz.hostile import Recipe, build_file, change_recipe, draw_recipe
from stoker.base.process_pool import ProcessPool

COUNTS = {
    "page": 6_000,
    "robots": 1_500,
    "sitemap": 1_000,
    "feed": 1_000,
    "answer": 1_000,
    "board": 500,
    "http": 500,
}
MAX_SECONDS, MAX_STALL = 2.0, 0.05
MAX_MEMORY = 32 * MIB
A_BATCH = 250  # files searched in one process, from a seed of its own
_PATIENCE = 60  # seconds of processor after which reading a file is broken off
WORST = 10


@dataclass(frozen=True)
class Measured:
    """What one file cost."""

    recipe: Recipe
    size: int
    seconds: float
    memory: int
    stall: float
    given_up: str = ""

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.3f} s of processor, {self.memory / MIB:5.1f} MiB, stall "
            f"{1000 * self.stall:5.1f} ms, {self.size / 1000:7.1f} kB "
            f"{self.given_up}\n      {self.recipe}"
        )


ORDERS: dict[str, Callable[[Measured], float]] = {
    "stall of the loop": lambda one: one.stall,
    "processor time": lambda one: one.seconds,
    "memory": lambda one: one.memory,
}


def search(kind: str, seed: int, count: int) -> list[Measured]:
    """Read so many files of a kind, most of them by chance, the others near the worst so far."""
    signal.signal(signal.SIGPROF, _break_off)
    rng, found = random.Random(f"{kind}/{seed}"), list[Measured]()
    _measure(draw_recipe(random.Random(0), kind, max_bytes=5_000))  # what is loaded once
    gc.freeze()  # it is not looked through again before every file
    orders = list(ORDERS.values())
    while len(found) < count:
        if len(found) < 10 or rng.random() < 0.75:
            recipe = draw_recipe(rng, kind)
        else:
            worst = sorted(found, key=rng.choice(orders), reverse=True)[:6]
            recipe = change_recipe(rng, rng.choice(worst).recipe)
        found.append(_measure(recipe))
    return found


def _measure(recipe: Recipe) -> Measured:
    signal.setitimer(signal.ITIMER_PROF, _PATIENCE)
    try:
        data = build_file(recipe)
        cost = measure(recipe.kind, data)
        stall, given_up = asyncio.run(_measure_stall(recipe.kind, data))
        return Measured(recipe, cost.size, cost.seconds, cost.memory, stall, given_up)
    except _TooLongError:
        return Measured(recipe, 0, _PATIENCE, 0, _PATIENCE, "broken off")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


async def _measure_stall(kind: str, data: bytes) -> tuple[float, str]:
    pool = ProcessPool()
    least, given_up = await measure_stall(kind, data, pool)
    for _ in range(2):  # what a collection of garbage or a first import took is not the file's
        if least > MAX_STALL:
            least = min(least, (await measure_stall(kind, data, pool))[0])
    return least, given_up


class _TooLongError(Exception):
    pass


def _break_off(*_: object) -> None:
    raise _TooLongError


def main(scale: float = 1.0) -> int:
    """Print the worst files of each kind; return how many broke a promise."""
    jobs = []
    for kind, most in COUNTS.items():
        count = max(20, round(most * scale))
        batches = [min(A_BATCH, count - start) for start in range(0, count, A_BATCH)]
        jobs += [partial(search, kind, nth, size) for nth, size in enumerate(batches)]
    found = list[Measured]()
    workers = min(4, os.cpu_count() or 1)
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for done in as_completed([pool.submit(job) for job in jobs]):
            found += done.result()
            print(f"  {len(found):,} files", file=sys.stderr, flush=True)
    for kind in COUNTS:
        files = [one for one in found if one.recipe.kind == kind]
        given_up = sum(bool(one.given_up) for one in files)
        worst = {name: max(map(order, files)) for name, order in ORDERS.items()}
        print(
            f"{kind}: n={len(files)}, worst stall {1000 * worst['stall of the loop']:.1f} ms, "
            f"worst processor time {worst['processor time']:.2f} s, "
            f"most memory {worst['memory'] / MIB:.1f} MiB, given up {given_up}"
        )
    for name, order in ORDERS.items():
        print(f"the {WORST} worst by {name}:")
        for one in sorted(found, key=order, reverse=True)[:WORST]:
            print(f"   {one}", flush=True)
    broken = [
        one
        for one in found
        if one.seconds > MAX_SECONDS or one.stall > MAX_STALL or one.memory > MAX_MEMORY
    ]
    print(f"n={len(found)} files, {len(broken)} above a limit")
    return len(broken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m proof.hostile_pages", description="See above.")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is what we publish")
    parser.add_argument("--again", metavar="RECIPE", help="read one file again, as it was printed")
    asked = parser.parse_args()
    if asked.again:
        signal.signal(signal.SIGPROF, _break_off)
        print(_measure(Recipe.parse(asked.again)))
        sys.exit(0)
    sys.exit(1 if main(asked.scale) else 0)
