"""Processes that reserve without a pause and write down when each reservation began and ended.

Moments are on the machine's clock that only goes forward, which all its processes share.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.store import BudgetStore
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.context import Backend

TENANTS = (TenantId("acme"), TenantId("bolt"))
CAP = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=10**12)
TASKS = 4


class Asked(NamedTuple):
    """One reservation: when it was begun and answered, in nanoseconds, and what was said."""

    began: int
    ended: int
    granted: bool


def opened(kind: str, where: str) -> Backend:
    """Return a backend of this kind; every process opens its own."""
    if kind == "postgres":
        from stoker.backends.postgres import PostgresBackend

        return PostgresBackend(where, connections=TASKS)
    from stoker.backends.sqlite import SqliteBackend

    return SqliteBackend(where)


@contextmanager
def spending(
    kind: str, where: str, told: Path, *, processes: int, naive: bool = False
) -> Iterator[Callable[[], list[int]]]:
    """Let processes spend while inside; afterwards they have all written down what they did.

    Yields a function that returns how many reservations each has made so far.
    """
    spawn = multiprocessing.get_context("spawn")
    end, made = spawn.Event(), spawn.Array("q", processes, lock=False)
    crowd = [
        spawn.Process(
            target=_spend,
            args=(kind, where, str(told / f"{nth}"), TENANTS[nth % 2], naive, end, made, nth),
        )
        for nth in range(processes)
    ]
    for process in crowd:
        process.start()
    try:
        while len(list(told.iterdir())) < processes:  # each says that it is at work
            if not all(process.is_alive() for process in crowd):
                raise RuntimeError("a process did not begin to spend")
            time.sleep(0.01)
        yield lambda: list(made)
    finally:
        end.set()
        for process in crowd:
            process.join()


def written(told: Path) -> list[Asked]:
    """Return everything the processes wrote down, in the order in which it began."""
    lines = [line.split() for each in told.iterdir() for line in each.read_text().splitlines()]
    return sorted(Asked(int(began), int(ended), said == "yes") for began, ended, said in lines)


def _spend(
    kind: str,
    where: str,
    told: str,
    tenant: TenantId,
    naive: bool,
    end: Any,
    made: MutableSequence[int],
    place: int,
) -> None:
    def count() -> None:
        made[place] += 1

    asyncio.run(_spending(kind, where, told, tenant, naive, end, count))


async def _spending(
    kind: str,
    where: str,
    told: str,
    tenant: TenantId,
    naive: bool,
    end: Any,
    count: Callable[[], None],
) -> None:
    backend = opened(kind, where)
    money = backend.tenant(tenant).money
    remembered = await money.list_stops()
    found: list[Asked] = []

    async def task(nth: int) -> None:
        turn = 0
        while not end.is_set():
            began, turn = time.monotonic_ns(), turn + 1
            if naive:
                await asyncio.sleep(0.001)
                granted = not remembered  # the twin: it looked once, when it started
            else:
                granted = await _reserved(money, f"{told}/{nth}/{turn}")
            found.append(Asked(began, time.monotonic_ns(), granted))
            count()

    tasks = asyncio.gather(*(task(nth) for nth in range(TASKS)))
    await asyncio.to_thread(Path(told).touch)
    await tasks
    await backend.close()
    lines = [f"{one.began} {one.ended} {'yes' if one.granted else 'no'}" for one in found]
    await asyncio.to_thread(Path(told).write_text, "\n".join(lines))


async def _reserved(money: BudgetStore, key: str) -> bool:
    now = datetime.now(UTC)
    answer = await money.reserve(
        SpendRequest(key=key, connector="lusha", amounts={"credits": 1}),
        caps=[CAP],
        reset=ResetRule(),
        owner=key,
        until=now + timedelta(minutes=1),
        now=now,
    )
    return not isinstance(answer, Refusal)
