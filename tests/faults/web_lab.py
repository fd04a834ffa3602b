"""A whole internet inside one network namespace, to see where a client really goes.

Every address there is leads to the lab's own web server, DNS gives the answers an attacker would,
and every TCP connection attempt is read off the wire: what a client says it did not do is not
taken on trust. Runs as a program of its own, under `unshare -nm`; `trial` starts it.
"""

import asyncio
import json
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

from faults.web_attacks import GOOD, INSIDE_V4, INSIDE_V6, attacks, fuzzed, named
from faults.web_world import PUBLIC_V4, PUBLIC_V6, Names, Sites, Wire, inside, prepare
from stoker.base.errors import PermanentError, StokerError
from stoker.http.client import HttpClient, Request
from stoker.http.ssrf import SafeConnector

TESTS = Path(__file__).resolve().parents[1]
STATUSES = (301, 302, 303, 307, 308)
AT_ONCE = 20


@dataclass
class Seen:
    """What one trial tried, and what came of it."""

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)  # pages of inside servers that were handed out
    hits: list[str] = field(default_factory=list)  # requests that inside servers got
    probes: list[str] = field(default_factory=list)  # connections tried that may never be
    legit: int = 0
    legit_of: int = 0


@lru_cache(maxsize=1)
def why_no_lab() -> str:
    """Return why there can be no lab on this machine; empty when there can."""
    if not (shutil.which("unshare") and shutil.which("ip") and shutil.which("openssl")):
        return "unshare, ip or openssl is missing"
    done = subprocess.run(
        ["unshare", "-nm", "ip", "link", "set", "lo", "up"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "this user may not make a network namespace"


def trial(
    client: str, *, fuzz: int = 0, rebinds: int = 100, redirects: int = 1, every: int = 1
) -> Seen:
    """Run all attacks with a client in a lab: ours, dialer, unguarded or checked first.

    `redirects` is with how many of the five statuses each attack is also given as a redirect;
    `every` leaves all but one in so many attacks out.
    """
    counts = {"fuzz": fuzz, "rebinds": rebinds, "redirects": redirects, "every": every}
    order = json.dumps({"client": client, **counts})
    done = subprocess.run(
        ["unshare", "-nm", sys.executable, "-m", "faults.web_lab", order],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"the lab broke down: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Seen(**{**told, "tried": Counter(told["tried"]), "refused": Counter(told["refused"])})


# Inside the namespace.


class Ours:
    """The client being tried."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._http = HttpClient(user_agent="Stoker lab", tls=trust, sandbox="127.0.0.1:8080")

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        call = Request(
            method="GET",
            url=url,
            headers=headers or {},
            deadline=timedelta(seconds=10),
            max_redirects=5,
        )
        return (await self._http.send(call)).body

    async def estimate_today(self) -> list[str]:
        """Return what should not have been trusted, and was."""
        key = {"Authorization": "Bearer canary"}
        down = redirected(f"http://{GOOD}/", 302).replace("http:", "https:", 1)
        wrong = []
        for url, headers in ((f"https://wrong.{GOOD}/", {}), (down, key)):
            try:
                await self.fetch(url, headers)
                wrong.append(f"believed: {url} {headers}")
            except PermanentError:
                pass
        if await self.fetch(down) != b"public":
            wrong.append(f"not reached though public: {down}")
        return wrong


class Unguarded:
    """The naive twin: fetches any address, five redirects deep."""

    async def fetch(self, url: str) -> bytes:
        for _ in range(6):
            head, body = await self._once(url)
            where = [
                line[9:].strip() for line in head.split("\r\n") if line.startswith("Location:")
            ]
            if not where:
                return body
            url = urljoin(url, where[0])
        raise OSError("redirects without end")

    async def _once(self, url: str) -> tuple[str, bytes]:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OSError("not for us")
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1", "ignore"))
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            return head, await reader.read(10)
        finally:
            writer.close()


class CheckedFirst(Unguarded):
    """The naive twin: checks a name, then fetches; between the two the answer may change."""

    async def fetch(self, url: str) -> bytes:
        host = urlsplit(url).hostname or ""
        found = await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)
        if any(ip_address(where[0].split("%")[0]).is_private for _, _, _, _, where in found):
            raise OSError("private")
        return await super().fetch(url)


class Dialled:
    """Only the innermost guard: whatever a URL's host is, it is handed to where sockets open."""

    def __init__(self) -> None:
        self._connector = SafeConnector()

    async def fetch(self, url: str) -> bytes:
        parts = urlsplit(url)
        (await self._connector.connect(parts.hostname or "", parts.port or 80)).close()
        return b"public"


Fetch = Callable[[str], Awaitable[bytes]]


def redirected(url: str, status: int) -> str:
    return (
        f"http://{GOOD}/to?status={status}&where={quote(url.encode('utf-8', 'replace'), safe='')}"
    )


def plan(order: dict[str, int]) -> list[tuple[str, str]]:
    """Return everything to try: what kind of attack, and the address."""
    rng = random.Random("lab")
    chosen = attacks()[:: order["every"]]
    made = [("direct", url) for url in chosen]
    for number, url in enumerate(chosen):
        for turn in range(order["redirects"]):
            made.append(("redirect", redirected(url, STATUSES[(number + turn) % len(STATUSES)])))
    hidden = [named(each).split(".")[0][3:] for each in (*INSIDE_V4, *INSIDE_V6)]
    for number in range(order["rebinds"]):
        after = (1, 2, rng.randint(3, 6))[number % 3]
        name = f"flip{after}-{hidden[number % len(hidden)]}-{number}.{GOOD}"
        made += [("rebind", f"http://{name}/")] * (after + 2)
    made += [("fuzzed", fuzzed(rng)) for _ in range(order["fuzz"])]
    return made


def legit() -> list[str]:
    return [
        f"http://{GOOD}/",
        f"https://{GOOD}/",
        f"http://{PUBLIC_V4}/",
        f"http://[{PUBLIC_V6}]/",
        f"http://bücher.{GOOD}/",
        redirected(f"https://www.{GOOD}/x", 301),
        redirected("/y", 302),
    ]


async def attacked(fetch: Fetch, order: dict[str, int], seen: Seen) -> None:
    """Try everything; the same name's turns come one after the other."""
    queues: dict[str, list[tuple[str, str]]] = {}
    for number, (kind, url) in enumerate(plan(order)):
        queues.setdefault(url if kind == "rebind" else str(number), []).append((kind, url))
    todo = iter(queues.values())

    async def work() -> None:
        for queue in todo:
            for kind, url in queue:
                seen.tried[kind] += 1
                try:
                    if b"CANARY" in await asyncio.wait_for(fetch(url), 10):
                        seen.leaks.append(f"{kind} {url}")
                except (
                    StokerError,
                    OSError,
                    ValueError,
                    asyncio.IncompleteReadError,
                    TimeoutError,
                ):
                    seen.refused[kind] += 1

    await asyncio.gather(*[work() for _ in range(AT_ONCE)])


async def run(order: dict[str, int], client: str, room: Path, trust: ssl.SSLContext) -> Seen:
    names, wire, sites, seen = Names(), Wire(), Sites(room), Seen()
    for thread in (names, wire, sites):
        thread.start()
    sites.ready.wait(20)
    clients = {"unguarded": Unguarded, "checked first": CheckedFirst, "dialer": Dialled}
    fetch = clients[client]() if client in clients else Ours(trust)
    await attacked(fetch.fetch, order, seen)
    for url in legit():
        seen.legit_of += 1
        try:
            seen.legit += await asyncio.wait_for(fetch.fetch(url), 10) == b"public"
        except (StokerError, OSError, asyncio.IncompleteReadError):
            seen.leaks.append(f"not reached though public: {url}") if client == "ours" else None
    if isinstance(fetch, Ours):
        seen.leaks += await fetch.estimate_today()
    await asyncio.sleep(0.2)  # what is on the wire is read by another thread
    seen.hits = sites.hits
    seen.probes = [
        f"{to}:{port}"
        for (to, port), _ in wire.tried.items()
        if inside(to) or port not in (80, 443)
    ]
    assert wire.tried, "the wire is not being read"
    return seen


def main() -> None:
    order = json.loads(sys.argv[1])
    client = order.pop("client")
    with tempfile.TemporaryDirectory() as folder:
        trust = prepare(Path(folder))
        seen = asyncio.run(run(order, client, Path(folder), trust))
    print(json.dumps(vars(seen)), flush=True)


if __name__ == "__main__":
    main()
