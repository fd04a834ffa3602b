"""Servers that never end, bodies that swell and JSON from madmen: each tried, and tallied.

Used with small counts by the tests and with large ones by `proof.web`.
"""

import asyncio
import json
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from faults.hostile_server import BOMBS, HostileServer
from faults.tally import Tally
from stoker.base.errors import PermanentError, StokerError, UncertainError
from stoker.base.strict_json import MAX_DEPTH, MAX_DIGITS
from stoker.base.types import is_storable
from stoker.http.api_client import VendorApi
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


# JSON.


def odd_json(rng: random.Random) -> bytes:
    """Return a body that is JSON, nearly, or not at all."""
    value = _value(rng, 4)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    whole = text.encode("utf-8", "surrogatepass")
    kind = rng.randrange(14)
    if kind == 0:
        return whole[: rng.randrange(len(whole) + 1)]
    if kind == 1:
        return rng.randbytes(rng.randrange(200))
    if kind == 2:
        return text.encode("latin-1", "replace")
    if kind == 3:
        return b"\xef\xbb\xbf" + whole
    if kind == 4:
        return text.encode("utf-16", "surrogatepass")
    if kind == 5:
        deep = rng.choice([10, MAX_DEPTH, MAX_DEPTH + 1, 500, 990, 5_000, 100_000])
        opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
        return opening * deep + (b"1" + closing * deep if rng.random() < 0.7 else b"")
    if kind == 6:
        return b'{"n": ' + b"7" * rng.choice([10, MAX_DIGITS, 400, 4301, 100_000]) + b"}"
    if kind == 7:
        return rng.choice([b"NaN", b"[Infinity]", b'{"a": -Infinity}', b"1e400", b"-1e999999"])
    if kind == 8:
        return b'{"a": 1, "b": ' + whole + b', "a": 2}'
    if kind == 9:
        return whole + rng.choice([b"x", b"{}", b"\0", b",", b" \n"])
    if kind == 10:
        spot = rng.randrange(len(whole) + 1)
        return whole[:spot] + rng.randbytes(rng.randint(1, 3)) + whole[spot:]
    if kind == 11:
        return rng.choice([b"<html>", b"", b"null", b"undefined", b"'x'", b"\\", b'"\\u12"'])
    return whole


def _value(rng: random.Random, deeper: int) -> Any:
    kind = rng.randrange(9 if deeper else 7)
    if kind < 3:
        letters = 'aé😀\0\ud800\udfff\u2028"\\ \n=<>'
        return "".join(rng.choice(letters) for _ in range(rng.randrange(12)))
    if kind < 7:
        return rng.choice([None, True, 0, -1, 2**63, 10**30, 0.1, 1e300, -0.0])
    if kind == 7:
        return [_value(rng, deeper - 1) for _ in range(rng.randrange(4))]
    return {
        f"k{n}\0"[: rng.randint(2, 3)]: _value(rng, deeper - 1) for n in range(rng.randrange(4))
    }


def wrong_in(value: Any, depth: int = 0) -> str:
    """Return what no store could keep, or what is too much; empty when all is well."""
    if depth > MAX_DEPTH:
        return "too deep"
    if isinstance(value, str):
        return "" if is_storable(value) else "a text no store can keep"
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int):
        return "" if abs(value) < 10**MAX_DIGITS else "an endless number"
    if isinstance(value, float):
        return "" if abs(value) < float("inf") else "a number that is none"
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    return next((wrong for each in inner if (wrong := wrong_in(each, depth + 1))), "")


def reading(rng: random.Random, count: int, *, read: Callable[[bytes], Any]) -> Tally:
    """Have so many odd bodies read; a refusal by an error of ours is as good as a clean value."""
    tally = Tally()
    for _ in range(count):
        body = odd_json(rng)
        tally.n += 1
        try:
            if wrong := wrong_in(read(body)):
                tally.broken.append(f"{body[:60]!r}: {wrong}")
            else:
                tally.acked += 1
        except StokerError:
            pass
        except (Exception, RecursionError) as error:  # noqa: BLE001  # what we look for
            tally.broken.append(f"{body[:60]!r}: {type(error).__name__}")
    return tally


def answering(rng: random.Random, count: int) -> Tally:
    """The same through a real server, as a vendor's answers: clean, or uncertain."""

    async def run() -> Tally:
        tally = Tally()
        async with HostileServer() as server:
            http = HttpClient(user_agent="Stoker test", sandbox=server.address)
            vendor = VendorApi(
                http,
                name="acme",
                base_url="http://acme.test",
                headers={"api_key": "k"},
                deadline=timedelta(seconds=20),
            )
            for _ in range(count):
                body = odd_json(rng)
                tally.n += 1
                try:
                    reply = await vendor.send("POST", "/back", body=body)
                    answered = vendor.read(reply)
                    if wrong := wrong_in(answered.data):
                        tally.broken.append(f"{body[:60]!r}: {wrong}")
                    else:
                        tally.acked += 1
                except UncertainError:
                    pass
                except (Exception, RecursionError) as error:  # noqa: BLE001  # what we look for
                    tally.broken.append(f"{body[:60]!r}: {error!r}")
            await http.close()
        return tally

    return asyncio.run(run())
