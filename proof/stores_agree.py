"""A thousand random sequences on every backend, compared step by step with the memory store."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pg
from contracts.backends import BACKENDS
from contracts.sequences import Difference, compared
from stoker.backends.sqlite import MemoryBackend

SEQUENCES, STEPS, AT_ONCE = 1000, 60, 8


async def differences(home: Path, names: list[str], sequences: int) -> list[Difference]:
    """Return every difference found; all sequences share a database, each has its own tenants."""
    async with AsyncExitStack() as opened:
        others = {
            name: await opened.enter_async_context(BACKENDS[name](home / name)) for name in names
        }
        model, turn = MemoryBackend(), asyncio.Semaphore(AT_ONCE)

        async def one(seed: int) -> list[Difference]:
            async with turn:
                return await compared(seed, steps=STEPS, model=model, others=others)

        found = await asyncio.gather(*(one(seed) for seed in range(sequences)))
    return [difference for some in found for difference in some]


def main(scale: float = 1.0) -> int:
    """Print n and every difference; return how many there were."""
    sequences = max(1, int(SEQUENCES * scale))
    names = [name for name in BACKENDS if name != "model"]
    if reason := pg.why_no_postgres():
        print(f"without Postgres: {reason}")
        names.remove("postgres")
    os.environ[pg.HOME] = str(pg.new_home())
    try:
        with tempfile.TemporaryDirectory() as home:
            for name in names:
                (Path(home) / name).mkdir()
            found = asyncio.run(differences(Path(home), names, sequences))
    finally:
        pg.Server(Path(os.environ[pg.HOME])).remove()
    for difference in found[:10]:
        print(difference)
    print(
        f"{', '.join(names)} against memory: n={sequences} sequences of {STEPS} steps, "
        f"{len(found)} differences"
    )
    return len(found)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
