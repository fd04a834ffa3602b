"""How long the command takes to say what it can do, beside Python doing nothing at all."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
LIMIT_MS = 250.0  # or three times bare Python, whichever is larger


def milliseconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def main(rounds: int = ROUNDS) -> list[tuple[str, str, str, str]]:
    stoker = str(Path(sys.executable).with_name("stoker"))
    milliseconds(stoker, "--help")  # the first start compiles what was never imported before
    pairs = [
        (milliseconds(stoker, "--help"), milliseconds(sys.executable, "-c", "pass"))
        for _ in range(rounds)  # in turn, so that a busy machine slows both
    ]
    ours = statistics.median(pair[0] for pair in pairs)
    bare = statistics.median(pair[1] for pair in pairs)
    what = f"`stoker --help` (at most {max(LIMIT_MS, 3 * bare):.0f} ms, median of {rounds})"
    return [(what, f"{ours:.0f} ms", f"{bare:.0f} ms", f"{ours / bare:.2f}")]


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
