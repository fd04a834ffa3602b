"""Search for examples that break a property, with new seeds and in a shuffled order.

    python -m proof properties [--scale 0.1]

`make test` draws the same examples in the same order every time. Each round here runs all tests
that have properties with another seed, prints the seed, and if one fails how to repeat the round.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
ROUNDS = 10


def main(scale: float = 1.0, seed: int | None = None) -> int:
    """Run ten rounds, times scale; return how many of them found something."""
    first = int(time.time()) if seed is None else seed
    tests = [str(path) for path in list_property_tests(HOME / "tests")]
    print(f"{len(tests)} files of tests")
    failed = 0
    for round_seed in range(first, first + max(1, round(ROUNDS * scale))):
        command = [sys.executable, "-m", "pytest", *build_options(round_seed), *tests]
        result = subprocess.run(command, cwd=HOME, check=False, capture_output=True, text=True)
        print(f"seed {round_seed}: {'FAILED' if result.returncode else 'held'}", flush=True)
        if result.returncode:
            failed += 1
            print(result.stdout[-20_000:], result.stderr[-2_000:])
            print(f"again: python -m pytest {' '.join(build_options(round_seed))} <test>")
    return failed


def list_property_tests(tests: Path) -> list[Path]:
    """Return the test files that draw examples, fault tests aside: `proof faults` repeats those."""
    return [
        path
        for path in sorted(tests.rglob("test_*.py"))
        if "faults" not in path.parts and "hypothesis" in path.read_text(encoding="utf-8")
    ]


def build_options(seed: int) -> list[str]:
    """Return the options of pytest that make a round of this seed."""
    return [
        "-m",
        "hypothesis",  # the mark that Hypothesis gives each test with properties
        "--hypothesis-profile=search",
        f"--hypothesis-seed={seed}",
        "-p",
        "randomly",
        f"--randomly-seed={seed}",
    ]


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
