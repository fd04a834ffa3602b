"""Requests a second from the sandbox, beside a bare asyncio server that answers a constant.

Both run in a process of their own and are asked by the same client here, over the same number of
open connections. Pages are those of a thousand companies, asked for in turn.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import time
from multiprocessing.connection import Connection

from stoker.sandbox.server import Sandbox
from stoker.sandbox.world.companies import World
from stoker.sandbox.world.site_faults import SiteFault

SEED, COMPANIES = 1, 1000
CONNECTIONS, REQUESTS, ROUNDS = 32, 8_000, 3
MANY = 100_000
_QUICK = (SiteFault.FINE, SiteFault.THIN, SiteFault.HIDDEN_CONTACTS, SiteFault.GONE)


class Constant(asyncio.Protocol):
    """The least a server can do: the same bytes for every request."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(self.answer)


def serve(kind: str, told: Connection, body: bytes) -> None:
    async def serving() -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_reader(told.fileno(), stopped.set)
        if kind == "bare":
            answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
            server = await asyncio.get_running_loop().create_server(
                lambda: Constant(answer), "127.0.0.1", 0
            )
            told.send(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await stopped.wait()
            server.close()
            return
        async with Sandbox(seed=SEED, companies=MANY) as box:
            told.send(box.address)
            await stopped.wait()
            told.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    asyncio.run(serving())


async def ask(address: str, requests: list[bytes]) -> float:
    """Send the requests over open connections, one at a time on each; return how many a second."""
    host, port = address.split(":")
    waiting = iter(requests)

    async def client() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for request in waiting:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return len(requests) / (time.perf_counter() - began)


def wanted(companies: int, requests: int) -> list[bytes]:
    world = World(seed=SEED, size=MANY)
    domains = [
        company.domain
        for company in map(world.get_company, range(companies))
        if company.trouble in _QUICK
    ]
    return [
        f"GET / HTTP/1.1\r\nHost: {domains[nth % len(domains)]}\r\n\r\n".encode()
        for nth in range(requests)
    ]


def main() -> list[tuple[str, str, str, str]]:
    spawn = multiprocessing.get_context("spawn")
    requests = wanted(COMPANIES, REQUESTS)
    running, addresses = {}, {}
    for kind in ("bare", "sandbox"):
        here, there = spawn.Pipe()
        process = spawn.Process(target=serve, args=(kind, there, b"x" * 2000))
        process.start()
        running[kind], addresses[kind] = (process, here), here.recv()
    best = dict.fromkeys(running, 0.0)
    for _ in range(ROUNDS):
        for kind, address in addresses.items():
            best[kind] = max(best[kind], asyncio.run(ask(address, requests)))
    first_asked = asyncio.run(ask(addresses["sandbox"], wanted(20_000, REQUESTS * 2)))
    running["bare"][1].send("end")
    running["sandbox"][1].send("end")
    size = running["sandbox"][1].recv() / 1024
    for process, _ in running.values():
        process.join()
    ours, bare = best["sandbox"], best["bare"]
    return [
        (
            "sandbox pages, client included, beside a bare server's constant",
            f"{ours:,.0f}/s",
            f"{bare:,.0f}/s",
            f"{ours / bare:.2f}",
        ),
        (
            f"sandbox pages never asked for before; {size:,.0f} MB at most with {MANY:,} companies",
            f"{first_asked:,.0f}/s",
            f"{bare:,.0f}/s",
            f"{first_asked / bare:.2f}",
        ),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep="  ")
