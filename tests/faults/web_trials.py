"""Servers that never end and bodies that swell: each tried, and tallied.

Used with small counts by the tests and with large ones by `proof.web`.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from faults.hostile_server import BOMBS, HostileServer
from faults.tally import Tally
from stoker.base.errors import PermanentError, UncertainError
from stoker.http.client import HttpClient, Request

TESTS = Path(__file__).resolve().parents[1]
MIB = 1024 * 1024
MOST_GROWTH, MOST_OUT = 32 * MIB, 5_000_000
NEVER_ENDING = (
    "hang",
    "hang-in-body",
    "drip",
    "drip-headers",
    "drip-chunks",
    "drip-continue",
    "endless",
    "endless-chunks",
    "endless-extension",
    "endless-trailers",
    "endless-header",
    "endless-continue",
    "headers",
    "many-headers",
)


async def per_read(address: str, path: str) -> None:
    """The wrong way: a time limit for each read, which a drip never exceeds."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        more = b"x"
        while more:
            await asyncio.sleep(0)
            async with asyncio.timeout(1):
                more = await reader.read(65536)
    finally:
        writer.close()


async def total_deadline(address: str, path: str) -> None:
    """Our way."""
    http = HttpClient(user_agent="Stoker test", sandbox=address)
    try:
        call = Request(method="GET", url=f"http://site.test/{path}", deadline=timedelta(seconds=1))
        reply = await http.send(call)
        if not reply.truncated or len(reply.body) > call.max_bytes:
            raise AssertionError("that was no answer at all")
    finally:
        await http.close()


def ending(count: int, *, way: Callable[..., Any] = total_deadline, patience: float = 60) -> Tally:
    """Ask servers that never end; what is still waiting when patience is over never would end."""

    async def run() -> Tally:
        tally, todo = Tally(), iter([NEVER_ENDING[n % len(NEVER_ENDING)] for n in range(count)])
        async with HostileServer() as server:

            async def work() -> None:
                for path in todo:
                    tally.n += 1
                    try:
                        async with asyncio.timeout(patience):
                            await way(server.address, path)
                    except (PermanentError, UncertainError):
                        pass
                    except TimeoutError:
                        tally.broken.append(f"{path} never ended")
                    except Exception as error:  # noqa: BLE001  # anything else is what we look for
                        tally.broken.append(f"{path}: {error!r}")

            await asyncio.gather(*[work() for _ in range(7)])
        return tally

    return asyncio.run(run())


# Bombs.


def eating(times: int, *, way: str = "ours", kinds: tuple[str, ...] = BOMBS) -> tuple[Tally, int]:
    """Fetch every bomb so many times in a process of its own; return also its memory's growth."""

    async def run() -> dict[str, Any]:
        async with HostileServer() as server:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "faults.bomb_eater", server.address, way, str(times)),
                *kinds,
                cwd=TESTS,
                stdout=asyncio.subprocess.PIPE,
            )
            told, _ = await process.communicate()
            return dict(json.loads(told))

    told = asyncio.run(run())
    tally = Tally(n=len(told["ends"]))
    if told["growth"] > MOST_GROWTH:
        tally.broken.append(f"memory grew by {told['growth'] / MIB:.0f} MiB")
    if told["most"] > MOST_OUT:
        tally.broken.append(f"a body of {told['most']} bytes came out")
    return tally, told["growth"]
