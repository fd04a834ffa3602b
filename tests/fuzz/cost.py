"""What reading hostile files costs: processor time, memory, and how long the event loop stands.

Processor time, not wall time, so that a busy machine measures the same.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fuzz import targets
from fuzz.targets import HOME, Ask, Read
from kit.memory import read_memory
from stoker.base.errors import StokerError
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.strict_json import parse_json
from stoker.crawl import extract
from stoker.crawl.key_pages import choose_pages, list_sitemaps
from stoker.crawl.robots import parse_robots
from stoker.discovery.boards import MAX_BYTES as MAX_BOARD_BYTES
from stoker.http.api_client import MAX_ANSWER_BYTES, MAX_ANSWER_VALUES
from stoker.http.response import Outcome, ResponseParser

MIB = 1024 * 1024
_TICK = 0.001  # seconds
_PIECE = 256 * 1024  # bytes that a connection reads at once, at most
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Cost:
    """What one file took to read."""

    seconds: float  # of processor
    memory: int  # bytes at the highest, above what there was before
    size: int  # of the file


async def _receive(data: bytes) -> object:
    """Take in an answer as a connection does: in pieces, with turns of the loop between them."""
    parser = ResponseParser(method="GET", most=2_000_000)
    for at in range(0, len(data), _PIECE):
        parser.feed(data[at : at + _PIECE])
        await asyncio.sleep(0)
    parser.feed_eof()
    return parser.body.get_body() if parser.outcome is Outcome.COMPLETE and parser.body else b""


def _read_claims(data: bytes) -> object:
    text = re.search(rb'"text": ?"(.*)"', data, re.DOTALL)
    return targets.read_claims(json.loads(b'"' + text[1] + b'"').encode()) if text else None


def _up_to(most: int, read: Read) -> Read:
    """Return a reader of answers that are not refused as too large before they are read."""
    return lambda data: read(data) if len(data) <= most else None


# By kind of file: everything that is done with it, in this process.
READERS: Mapping[str, tuple[Read, ...]] = {
    "page": (targets.read_page,),
    "robots": (targets.read_robots,),
    "sitemap": (targets.read_sitemap,),
    "feed": (targets.read_feed_here,),
    "answer": (
        _up_to(MAX_ANSWER_BYTES, lambda data: parse_json(data, max_values=MAX_ANSWER_VALUES)),
        _up_to(MAX_ANSWER_BYTES, _read_claims),
    ),
    "board": (_up_to(MAX_BOARD_BYTES, targets.read_board_here("greenhouse")),),
    "http": (lambda data: asyncio.run(_drop(_receive(data))),),
}
# As production awaits it, where that is more than a call of the pool. An answer is each vendor's.
ASKERS: Mapping[str, tuple[Ask, ...]] = {
    "http": (_receive,),
    "feed": (targets.read_feed,),
    "answer": (
        targets.read_search,
        targets.read_people,
        targets.read_reveal,
        targets.read_verdicts,
        targets.read_completion,
        targets.read_crm,
    ),
    "board": (targets.read_board,),
}


def measure(kind: str, data: bytes) -> Cost:
    """Read a file in this process; the dearest of its readers counts."""
    costs = [_measure_once(read, data) for read in READERS[kind]]
    return Cost(max(cost.seconds for cost in costs), max(cost.memory for cost in costs), len(data))


async def _drop(asked: Awaitable[object]) -> None:
    # `asyncio.run` writes down what a coroutine returned, which may take more than reading it.
    await asked


async def measure_stall(kind: str, data: bytes, pool: ProcessPool) -> tuple[float, str]:
    """Return the longest stall of the loop while production reads a file, and why it gave up."""
    given_up = ""

    async def read() -> None:
        nonlocal given_up
        calls: tuple[Awaitable[object], ...] = ()
        if kind == "page":
            calls = (pool.run(extract.read_page, data, content_type="text/html", url=str(HOME)),)
        elif kind == "robots":
            calls = (pool.run(parse_robots, data, product="stoker"),)
        elif kind == "sitemap":
            calls = (
                pool.run(list_sitemaps, data, most=5),
                pool.run(choose_pages, HOME, (), [data], most=6, not_again=()),
            )
        else:
            calls = tuple(ask(data) for ask in ASKERS[kind])
        for call in calls:
            with suppress(StokerError):
                found = await call
                if isinstance(found, Aborted):
                    given_up = found.reason
                elif kind == "robots":
                    for nth in range(6):
                        found.allows(f"http://acme.test/page/{nth}/a?x={nth}")
                        await asyncio.sleep(2 * _TICK)  # the page is fetched
            await asyncio.sleep(2 * _TICK)

    return await watch_loop(read), given_up


def _measure_once(read: Read, data: bytes) -> Cost:
    gc.collect()
    _LIBC.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest there was
    before, began = read_memory("VmRSS"), time.process_time()
    with suppress(StokerError):
        read(data)
    took = time.process_time() - began
    return Cost(took, max(0, read_memory("VmHWM") - before), len(data))


async def watch_loop(work: Callable[[], Awaitable[object]]) -> float:
    """Return the longest that the event loop stood while this was awaited, in processor seconds."""
    longest, last, ended = 0.0, time.thread_time(), asyncio.Event()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            now = time.thread_time()
            longest, last = max(longest, now - last), now
            if ended.is_set():
                return
            await asyncio.sleep(_TICK)

    ticker = asyncio.ensure_future(tick())
    await asyncio.sleep(0)
    with suppress(StokerError):
        await work()
    ended.set()
    await ticker
    return longest
