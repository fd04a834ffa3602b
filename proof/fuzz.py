"""Search for bytes that break a reader of strangers' bytes, guided by the code they reach.

    python -m proof fuzz [--scale 0.01]
    python -m proof.fuzz page feed --seconds 60 --keep

Each target of `tests/fuzz/targets.py` is mutated for a while; what reaches new lines is mutated
further. With atheris installed (`pip install -e .[fuzz]`) its engine does it, otherwise ours.
`--keep` adds to the corpus in the repository what reached lines that nothing in it reaches.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
SECONDS = 600.0  # of each target at scale 1
MAX_KEPT = 8_000  # bytes of one target's corpus
MAX_LENGTH = 2_000  # of an input that is kept
_SOURCE = str(ROOT / "src" / "stoker")


def main(scale: float = 1.0, names: Iterable[str] = (), *, keep: bool = False) -> int:
    """Search each target for breaks; print what was found; return how many targets broke."""
    from fuzz.targets import TARGETS

    engine = "atheris" if importlib.util.find_spec("atheris") else "own"
    print(f"engine: {engine}", flush=True)
    broken = 0
    for target in TARGETS:
        if names and target.name not in names:
            continue
        with tempfile.TemporaryDirectory() as room:
            seconds = max(1.0, SECONDS * scale)
            search = _search_with_atheris if engine == "atheris" else _search
            runs, inputs, breaks = search(target, seconds, Path(room))
        print(f"{target.name:<16} n={runs:<10,} inputs {len(inputs):<6} broken {len(breaks)}")
        for why, data in list(breaks.items())[:5]:
            print(f"    {why[:200]}\n    {base64.b64encode(data[:3_000]).decode()}", flush=True)
        broken += bool(breaks)
        if keep:
            _keep(target, inputs)
    return broken


def _search(target: Any, seconds: float, _: Path) -> tuple[int, list[bytes], dict[str, bytes]]:
    """Mutate what reached new lines until the time is over."""
    from fuzz.mutation import mutate

    rng, end = random.Random(time.time()), time.monotonic() + seconds
    inputs, reached, breaks, runs = list[bytes](), set[tuple[str, int]](), dict[str, bytes](), 0
    waiting = target.list_seeds()
    while time.monotonic() < end:
        data = waiting.pop() if waiting else b""
        if not data:
            data = mutate(rng.choice(inputs), rng, others=inputs, words=target.words)
        why, lines = _trace(target, data)
        runs += 1
        if why:
            breaks.setdefault(why, data)
        if lines - reached or not inputs:
            reached |= lines
            inputs.append(data)
    return runs, inputs, breaks


def _trace(target: Any, data: bytes) -> tuple[str, set[tuple[str, int]]]:
    """Return how the bytes break a target, and the lines of ours that ran."""
    lines: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: object) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return note

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return note(frame, event, argument) if _SOURCE in frame.f_code.co_filename else None

    sys.settrace(enter)
    try:
        return target.find_break(data), lines
    finally:
        sys.settrace(None)


def _search_with_atheris(
    target: Any, seconds: float, room: Path
) -> tuple[int, list[bytes], dict[str, bytes]]:
    """Let atheris search in a process of its own, again after each input that broke it."""
    corpus, found = room / "corpus", room / "found"
    corpus.mkdir()
    for nth, seed in enumerate(target.list_seeds()):
        (corpus / f"seed-{nth}").write_bytes(seed)
    escaped = ["".join(map("\\x{:02x}".format, word)) for word in target.words]
    (room / "words").write_text("".join(f'"{word}"\n' for word in escaped))
    breaks, runs, end = dict[str, bytes](), 0, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 1 and len(breaks) < 5:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "proof.fuzz", "--atheris", target.name, str(corpus)),
                *(f"-max_total_time={int(left)}", f"-artifact_prefix={found}-"),
                *(f"-dict={room / 'words'}", "-max_len=20000", "-timeout=30", "-rss_limit_mb=2048"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stderr.split()
        runs += max(
            (int(word[1:]) for word in said if word[:1] == "#" and word[1:].isdigit()), default=0
        )
        for path in room.glob("found-*"):
            data = path.read_bytes()
            breaks[target.find_break(data) or path.name] = data
            path.unlink()
        if done.returncode == 0:
            break
    return runs, [path.read_bytes() for path in sorted(corpus.iterdir())], breaks


def _run_atheris(name: str, arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["stoker"]):
        from fuzz.targets import TARGETS

    target = next(each for each in TARGETS if each.name == name)

    def run(data: bytes) -> None:
        if why := target.find_break(data):
            raise RuntimeError(why)

    atheris.Setup([sys.argv[0], *arguments], run)
    atheris.Fuzz()


def _keep(target: Any, inputs: list[bytes]) -> None:
    """Add inputs that reach lines which the seeds and smaller inputs do not."""
    from fuzz.targets import CORPUS

    reached: set[tuple[str, int]] = set()
    for seed in target.seeds():
        reached |= _trace(target, seed)[1]
    path = CORPUS / f"{target.name}.txt"
    before = [base64.b64decode(line) for line in path.read_text().split()] if path.exists() else []
    kept = list[bytes]()
    for data in sorted({*before, *inputs}, key=lambda data: (len(data), data)):
        if len(data) <= MAX_LENGTH and sum(map(len, kept)) + len(data) <= MAX_KEPT:
            lines = _trace(target, data)[1]
            if lines - reached:
                reached |= lines
                kept.append(data)
    if kept:
        path.write_text("".join(f"{base64.b64encode(data).decode()}\n" for data in kept))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--atheris"]:
        _run_atheris(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(prog="python -m proof.fuzz", description="See above.")
    parser.add_argument("names", nargs="*", help="which targets; all by default")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each target")
    parser.add_argument("--keep", action="store_true", help="add to the corpus what reached more")
    asked = parser.parse_args()
    sys.exit(1 if main(asked.seconds / SECONDS, asked.names, keep=asked.keep) else 0)
