"""Sites of every trouble, and patterns made to be held up: each tried, and tallied.

Used with small counts by the tests and with large ones by `proof.web`.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import stoker
from faults.site_batch import LIMITS
from faults.tally import Tally

TESTS = Path(__file__).resolve().parents[1]
PATTERN_MS = 250
MOST_GROWN = 250_000_000  # bytes that visiting two hundred sites may take


def visited(sites: int, *, seed: int = 5) -> tuple[Tally, dict[str, Any]]:
    """Visit sites of every trouble in a process of its own; return also what became of them."""
    done = subprocess.run(
        [sys.executable, "-m", "faults.site_batch", str(sites), str(seed)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    tally = Tally()
    for visit in told["visits"]:
        tally.n += 1
        tally.acked += visit["outcome"] in ("read", "thin")
        if not 10 < len(visit["reason"]) <= 500:
            tally.broken.append(f"{visit['trouble']}: no sentence")
        if visit["pages"] > LIMITS.pages or visit["requests"] > 4 * LIMITS.pages + 12:
            tally.broken.append(f"{visit['trouble']}: {visit['requests']} requests")
        if visit["bytes"] > LIMITS.bytes + LIMITS.page_bytes:
            tally.broken.append(f"{visit['trouble']}: {visit['bytes']} bytes")
    if told["grown"] > MOST_GROWN:
        tally.broken.append(f"memory grew by {told['grown'] / 1e6:.0f} MB")
    told["outcomes"] = Counter(visit["outcome"] for visit in told["visits"])
    told["troubles"] = {visit["trouble"] for visit in told["visits"]}
    return tally, told


# Patterns.


def patterns() -> dict[str, re.Pattern[Any]]:
    """Return every pattern that a module of ours has compiled, by where it stands first."""
    found: dict[re.Pattern[Any], str] = {}  # the same one may stand in many modules
    for module in pkgutil.walk_packages(stoker.__path__, "stoker."):
        try:
            held = vars(importlib.import_module(module.name))
        except ImportError:
            continue  # an extra that is not installed has nothing to offer
        for name, value in held.items():
            for nth, pattern in enumerate(_patterns_in(value)):
                found.setdefault(pattern, f"{module.name}.{name}.{nth}")
    return {where: pattern for pattern, where in found.items()}


def _patterns_in(value: object) -> list[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        return [value]
    several = value.values() if isinstance(value, dict) else value
    if isinstance(value, tuple | list | set | frozenset | dict):
        return [each for each in several if isinstance(each, re.Pattern)]
    return []


_TRIAL = """
import json, random, re, resource, sys, time
pieces = ["a", "0", " ", "-", ".", "@", "<", ">", '"', "'", "=", "/", "*", ":", "\\n", "(", "&",
          "#", "a.", "a@", "a-", "0 ", "0.", "0-", "<a ", "<a x=", "a=", "</", "<!--", "at ",
          " dot ",
          "::", "a b", "0/",
          "//", "http://a", "Disallow", "user-agent", "site", "crawl", "cookies ",
          "accept ", "domain ", "page ", "19", "2026-01-01 ", "1,", "views", "x" * 50 + " ", "+65 ",
          "cf", "%41", "<loc>", "charset=", "href=", "©", "日", "\\t", "_", ","]
ends = ["", "!", "\\x00", "@", ">", "日"]
def texts(more):
    for piece in pieces:
        for end in ends:
            yield repr(piece + "..." + end), (piece * (3000 // len(piece) + 1))[:3000] + end
    rng = random.Random(more)
    for _ in range(more):
        some = [rng.choice(pieces) * rng.randrange(1, 400) for _ in range(rng.randrange(2, 6))]
        text = "".join(some)[:3000] + rng.choice(ends)
        yield repr(text[:40]), text
for line in sys.stdin:
    source, flags, is_bytes, limit, more, seconds = json.loads(line)
    # Of our own work, however busy the machine is; who is held up longer is ended.
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, -1))
    pattern = re.compile(source.encode("latin-1") if is_bytes else source, flags)
    worst = (0.0, "")
    for name, text in texts(more):
        if is_bytes:
            text = text.encode("utf-8")
        for ask in (pattern.search, pattern.match, pattern.fullmatch):
            least = 9.0
            for _ in range(3):
                began = time.process_time()
                ask(text)
                least = min(least, time.process_time() - began)
                if least * 1000 < limit:
                    break
            worst = max(worst, (least, name))
    print(json.dumps(worst), flush=True)
"""


class PatternTrials:
    """Tries patterns in a process of its own, and begins another one where it is held up."""

    def __init__(self, *, seconds: float = 20, more: int = 0) -> None:
        self._seconds, self._draw_block = seconds + more / 20, more
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> PatternTrials:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def slowest(self, pattern: re.Pattern[Any]) -> tuple[float, str] | None:
        """Return how long it takes at worst, in ms, and on what; None if it does not end."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _TRIAL],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        is_bytes = isinstance(pattern.pattern, bytes)
        source = pattern.pattern.decode("latin-1") if is_bytes else pattern.pattern
        flags = pattern.flags & ~re.DEBUG
        given = [source, flags, is_bytes, PATTERN_MS, self._draw_block, self._seconds]
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write(json.dumps(given) + "\n")
        asked.flush()
        line = told.readline()
        if not line:  # the system has ended it
            self._end()
            return None
        took, what = json.loads(line)
        return took * 1000, what

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def held_up(more: int = 0) -> tuple[Tally, tuple[float, str, str]]:
    """Try every pattern of ours on texts made to hold it up; return also the slowest."""
    tally, worst = Tally(), (0.0, "", "")
    with PatternTrials(more=more) as trials:
        for where, pattern in patterns().items():
            told = trials.slowest(pattern)
            tally.n += 1
            tally.acked += told is not None
            if told is None:
                tally.broken.append(f"{where} did not end")
                continue
            worst = max(worst, (told[0], where, told[1]))
            if told[0] >= PATTERN_MS:
                tally.broken.append(f"{where} took {told[0]:.0f} ms on {told[1]}")
    return tally, worst
