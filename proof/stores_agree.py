"""A thousand random sequences of store verbs on every backend, compared step by step."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pg
from contracts.agreement import find_differences
from contracts.backends import BACKENDS
from contracts.sequences import RunSequence

SEQUENCES, STEPS = 1000, 60


def main(scale: float = 1.0) -> int:
    """Print n and every difference; return how many there were."""
    sequences = max(1, int(SEQUENCES * scale))
    names = ["sqlite", "json", "postgres"]
    if reason := pg.why_no_postgres():
        print(f"without Postgres: {reason}")
        names.remove("postgres")
    os.environ[pg.HOME] = str(pg.new_home())
    found = []
    try:
        for name in names:
            with tempfile.TemporaryDirectory() as home:
                options = {"first": 0, "sequences": sequences, "steps": STEPS}
                compared = find_differences(RunSequence, BACKENDS[name], Path(home), **options)
                found += [f"{name}: {difference}" for difference in asyncio.run(compared)[1]]
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
