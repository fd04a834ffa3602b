"""The large counts of injected faults: what `tests/faults` does per change, done for hours.

    python -m proof faults [--scale 0.01]

Each line says what was broken how often (n) and how many promises did not survive it; a zero in n
trials bounds the rate to 3/n. What this machine cannot do is said, not passed over in silence.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from faults import clocks, damage, disks, lab, pauses, refusals, trials
from faults.tally import Tally

STORES = ("sqlite", "json")
BATCH = 100  # trials in one room, so that the disk the lab lives on does not fill up
Trial = Callable[[lab.Workers, random.Random, int], Tally]


def main(scale: float = 1.0, seed: int | None = None) -> int:
    """Inject the large counts, times scale; print every tally; return how many promises broke."""
    seed = int(time.time()) if seed is None else seed
    print(f"seed {seed}")
    broken = 0
    for what, n, trial in _plan():
        tally = _repeated(trial, max(1, round(n * scale)), seed)
        bound = f"rate < {3 / tally.n:.2g}" if tally.n and not tally.broken else ""
        line = f"n={tally.n:<8} acknowledged={tally.acked:<9} broken={len(tally.broken)}"
        print(f"{what:<44} {line} {bound}", flush=True)
        for each in tally.broken[:5]:
            print(f"    {each}")
        broken += len(tally.broken)
    return broken


def _plan() -> Iterator[tuple[str, int, Trial]]:
    """Yield what to break, how often a night, and how."""
    with tempfile.TemporaryDirectory() as room, lab.Workers(Path(room)) as workers:
        no_strace = lab.why_no_strace(workers, Path(room))
    for store in STORES:
        if no_strace:
            print(f"A1 A7 A8 {store}: not here: {no_strace}")
        else:
            # A sweep is over when every call has had its turn; `n` only says how often to do it.
            yield f"A1 {store}, kill at every durable call", 1, _sweep(store, steps=48)
            yield f"A7 {store}, disk full at every write", 1, _full(store)
            yield f"A8 {store}, EIO at every fsync", 1, _syncs(store)
        yield f"A2 {store}, random kills", 5_000, _kills(store, again=False)
        yield f"A3 {store}, killed again while recovering", 500, _kills(store, again=True)
        for kind in ("ext4", "xfs"):
            if reason := disks.why_no_disk(kind=kind):
                print(f"A4 A5 {store}, power cuts on {kind}: not here: {reason}")
            else:
                yield f"A4 A5 {store}, power cuts on {kind}", 3_000, _cuts(store, kind)
        yield f"A9 {store}, too many open files", 10, _files(store)
    yield "A6 sqlite, damaged -wal images", 100_000, _images
    yield "A10 clock jumps", 10_000, lambda _, rng, n: clocks.jump_trials(n=n, rng=rng)
    yield "B2 two schedulers, one paused", 2_000, lambda w, rng, n: pauses.paused(w, n=n, rng=rng)


def _repeated(trial: Trial, n: int, seed: int) -> Tally:
    """Do n trials, a batch to a room; each batch has chance of its own, so it can be repeated."""
    tally = Tally()
    for batch in count():
        left = n - batch * BATCH
        if left <= 0:
            return tally
        rng = random.Random(f"{seed}/{batch}")
        with tempfile.TemporaryDirectory() as room, lab.Workers(Path(room)) as workers:
            found = trial(workers, rng, min(left, BATCH))
        found.broken = [f"batch {batch} of seed {seed}: {broken}" for broken in found.broken]
        tally += found
    return tally


def _sweep(store: str, *, steps: int) -> Trial:
    return lambda workers, rng, n: trials.kill_sweep(workers, store, steps=steps)


def _full(store: str) -> Trial:
    return lambda workers, rng, n: refusals.disk_full(workers, store, steps=24)


def _syncs(store: str) -> Trial:
    return lambda workers, rng, n: refusals.failed_syncs(workers, store, steps=24)


def _kills(store: str, *, again: bool) -> Trial:
    return lambda workers, rng, n: trials.random_kills(workers, store, n=n, rng=rng, again=again)


def _cuts(store: str, kind: str) -> Trial:
    def cut(workers: lab.Workers, rng: random.Random, n: int) -> Tally:
        with disks.LoopDisk(workers.room(), kind=kind) as disk:
            return trials.power_cuts(workers, disk, store, n=n, rng=rng)

    return cut


def _files(store: str) -> Trial:
    return lambda workers, rng, n: refusals.out_of_files(workers, store, most=12)


def _images(workers: lab.Workers, rng: random.Random, n: int) -> Tally:
    crashed = damage.crashed_store(workers, steps=rng.randrange(9, 60))
    return damage.torn_wal_images(crashed, workers.room() / "image", n=n, rng=rng)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
