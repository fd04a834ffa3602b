"""Run asynchronous services for scripts that are not: each call on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def run_in_thread(work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Return what a coroutine returns, or raise what it raises; also inside a running loop."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="stoker-compat") as pool:
        return pool.submit(lambda: asyncio.run(work())).result()
