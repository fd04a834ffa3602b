"""The program whose processes reserve without a pause and write down when each call was made.

A line is when a reservation began and was answered, in nanoseconds of the clock that all processes
of the machine share, and whether it was granted.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from faults.forks import Forks, Order, serve
from stoker.backends.postgres import PostgresBackend
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.context import Backend

TENANTS = (TenantId("acme"), TenantId("bolt"))
CAP = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=10**12)
TASKS = 4


class Asked(NamedTuple):
    """One reservation."""

    began: int
    ended: int
    granted: bool


def open_backend(kind: str, where: str) -> Backend:
    """Return a backend of this kind; every process opens its own."""
    if kind == "postgres":
        return PostgresBackend(where, connections=TASKS)
    return SqliteBackend(where)


@contextmanager
def spending(
    kind: str, where: str, room: Path, *, processes: int, naive: bool = False
) -> Iterator[Callable[[], list[int]]]:
    """Let processes spend while inside; yield how many reservations each has made so far."""
    files = [room / f"{nth}" for nth in range(processes)]
    with Forks("faults.spenders") as forks:
        pids = [
            forks.start({"kind": kind, "where": where, "file": file, "nth": nth, "naive": naive})
            for nth, file in enumerate(files)
        ]
        while not all(file.exists() for file in files):
            time.sleep(0.01)
        try:
            yield lambda: [file.read_text().count("\n") for file in files]
        finally:
            (room / "end").touch()
            assert [forks.wait(pid) for pid in pids] == [0] * processes


def read_reservations(room: Path) -> list[Asked]:
    """Return all reservations of all processes, in the order in which they began."""
    lines = [line.split() for file in room.iterdir() for line in file.read_text().splitlines()]
    return sorted(Asked(int(began), int(ended), said == "yes") for began, ended, said in lines)


async def spend(order: Order) -> None:
    """Reserve until the room has a file called "end"."""
    backend, file = open_backend(order["kind"], order["where"]), Path(order["file"])
    money = backend.tenant(TENANTS[order["nth"] % 2]).budgets
    remembered = await money.list_stops()

    async def reserve(key: str) -> bool:
        if order["naive"]:
            await asyncio.sleep(0.001)
            return not remembered  # the twin read the stops once, when it started
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

    async def task(nth: int) -> None:
        turn = 0
        while not (file.parent / "end").exists():
            began, turn = time.monotonic_ns(), turn + 1
            granted = await reserve(f"{file}/{nth}/{turn}")
            lines.write(f"{began} {time.monotonic_ns()} {'yes' if granted else 'no'}\n")

    with file.open("w", buffering=1) as lines:
        await asyncio.gather(*(task(nth) for nth in range(TASKS)))
    await backend.close()


if __name__ == "__main__":
    serve(spend)
