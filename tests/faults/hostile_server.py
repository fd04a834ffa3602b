"""A web server that does everything a server should not, each misdeed under a path of its own.

It listens on loopback and speaks raw bytes, so that it can break every rule; it keeps what was
asked of it. Run it inside the event loop of a test.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from functools import lru_cache
from urllib.parse import parse_qs, urlsplit

MIB = 1024 * 1024
BOMB = 256 * MIB  # what a bomb would become
DRIP = 0.3  # seconds between bytes

# 2 GiB of zeros as the makers of these formats would send them need their packages; our client
# must not look inside anyway, so their first bytes are enough.
BROTLI_HEAD = bytes.fromhex("cbffff3f00e2b1207272")
ZSTD_HEAD = bytes.fromhex("28b52ffd0458")


def zeros(packer: zlib._Compress, size: int) -> bytes:
    block = bytes(MIB)
    return b"".join([packer.compress(block) for _ in range(size // MIB)]) + packer.flush()


@lru_cache(maxsize=9)
def bomb(kind: str) -> bytes:
    """Return a body that becomes far more than it is, or claims to."""
    if kind in ("gzip", "lying"):
        return zeros(zlib.compressobj(9, wbits=31), BOMB)
    if kind in ("deflate", "raw"):
        return zeros(zlib.compressobj(9, wbits=-15 if kind == "raw" else 15), BOMB)
    return {
        "nested": lambda: gzip.compress(bomb("gzip")),
        "br": lambda: BROTLI_HEAD * 200,
        "zstd": lambda: ZSTD_HEAD * 200,
        "plain": lambda: bytes(16 * MIB),
        "empties": lambda: gzip.compress(b"") * 500_000,
    }[kind]()


BOMBS = ("gzip", "deflate", "raw", "nested", "br", "zstd", "lying", "plain", "empties")


class Asked:
    """One request as it came."""

    def __init__(self, head: bytes, body: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        pairs = [line.partition(":") for line in lines[1:] if line]
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.path = urlsplit(self.target).path
        self.query = {k: v[0] for k, v in parse_qs(urlsplit(self.target).query).items()}
        self.body = body


Deed = Callable[[Asked, asyncio.StreamWriter], Awaitable[bool]]  # whether to keep the connection


def answer(body: bytes = b"ok", *, status: int = 200, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode("latin-1") + body


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
KEEP, CLOSE, HANG = "keep the connection", "close it", "never say anything again"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Length: 9\r\n\r\n"
MISDEEDS: dict[str, tuple[bytes, str | bytes | tuple[bytes, float]]] = {
    # By path: what is said at once, and what then; bytes are said without end, some with pauses.
    "ok": (answer(), KEEP),
    "close": (b"", CLOSE),
    "close-after": (answer(), CLOSE),
    "hang": (b"", HANG),
    "hang-in-body": (OK + b"Content-Length: 10\r\n\r\nhalf", HANG),
    "drip": (OK + b"Content-Length: 1000000\r\n\r\n", (b"x", DRIP)),
    "drip-headers": (OK, (b"X", DRIP)),
    "drip-chunks": (CHUNKED, (b"1\r\nx\r\n", DRIP)),
    "drip-continue": (b"", (b"HTTP/1.1 102 Processing\r\n\r\n", DRIP)),
    "endless": (OK + b"\r\n", bytes(64 * 1024)),
    "endless-chunks": (CHUNKED, b"1\r\nx\r\n" * 10_000),
    "endless-extension": (CHUNKED + b"1;", b"x" * 64 * 1024),
    "endless-trailers": (CHUNKED + b"0\r\nX-Long: ", b"x" * 64 * 1024),
    "endless-header": (OK + b"X-Long: ", b"x" * 64 * 1024),
    "endless-continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "too-long": (OK + b"Content-Length: 1000\r\n\r\nshort", CLOSE),  # than what comes
    # The rest looks like the answer to another request.
    "too-short": (OK + b"Content-Length: 2\r\n\r\nok" + answer(b"poison"), KEEP),
    "until-closed": (b"HTTP/1.0 200 OK\r\n\r\nall there is", CLOSE),
    "continue": (b"HTTP/1.1 100 Continue\r\n\r\n" + HINTS + answer(), KEEP),
    "loop": (answer(status=302, headers="Location: /loop\r\n"), KEEP),
}


class HostileServer:
    """Serves until closed; `asked` is everything it was asked, `opened` every connection."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answered = 0  # of them, with all there was to say
        self.opened = 0
        self.open = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answered: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> HostileServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=MIB)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.opened += 1
        self.open += 1
        try:
            while await self._served(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass  # they hung up
        except asyncio.CancelledError:
            pass  # we did
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.transport.abort()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(1)
        if not first.isalpha():
            return False  # TLS, most likely
        head = first + await reader.readuntil(b"\r\n\r\n")
        length = [
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ]
        asked = Asked(head[:-4], await reader.readexactly(length[0]) if length else b"")
        self.asked.append(asked)
        name = asked.path.strip("/").split("/")[0]
        if name in MISDEEDS:
            keep = await _misbehave(writer, *MISDEEDS[name])
        else:
            deed: Deed = getattr(self, "_" + name.replace("-", "_"))
            keep = await deed(asked, writer)
        await writer.drain()
        self.answered += 1
        return keep

    # Misdeeds that depend on what was asked, or on what came before.

    async def _echo(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        told = {"method": asked.method, "target": asked.target, "headers": asked.headers}
        writer.write(answer(json.dumps({**told, "body": asked.body.decode()}).encode()))
        return True

    async def _say(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer as the query says: a status, a header, a body in hexadecimal."""
        query = asked.query
        header = f"{query['header']}\r\n" if "header" in query else ""
        body = bytes.fromhex(query.get("body", ""))
        writer.write(answer(body, status=int(query.get("status", "200")), headers=header))
        return True

    async def _back(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer with what was sent."""
        writer.write(answer(asked.body))
        return True

    async def _raw(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer with just these bytes, then close."""
        writer.write(bytes.fromhex(asked.query["bytes"]))
        return False

    async def _headers(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Forty megabytes of headers."""
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(40):
            writer.write(b"X-%d: " % number + b"x" * MIB + b"\r\n")
            await writer.drain()
        writer.write(b"Content-Length: 2\r\n\r\nok")
        return True

    async def _many_headers(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        many = b"".join(b"x%d: y\r\n" % number for number in range(100_000))
        writer.write(b"HTTP/1.1 200 OK\r\n" + many + b"Content-Length: 2\r\n\r\nok")
        return True

    async def _reset(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER: close by reset
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        await writer.drain()
        await asyncio.sleep(0.05)
        return False

    async def _late_poison(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer, then say something nobody asked for a little later."""
        writer.write(answer())
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(answer(b"poison"))
        return True

    async def _fickle(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer a connection's first request; take its second, and close without a word."""
        if writer in self._answered:
            return False
        self._answered.add(writer)
        writer.write(answer())
        return True

    async def _bomb(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        kind = asked.path.rsplit("/", 1)[1]
        names = {"raw": "deflate", "nested": "gzip, gzip", "lying": "gzip", "empties": "gzip"}
        name = names.get(kind, kind if kind != "plain" else "identity")
        body = bomb(kind)
        length = 100 if kind == "lying" else len(body)
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: {length}\r\n\r\n"
        writer.write(head.encode() + body)
        return True

    async def _wire(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Send a bomb still compressed, for the caller to expand."""
        writer.write(answer(bomb(asked.path.rsplit("/", 1)[1])))
        return True

    async def _to(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Redirect where the query says, with the status it says."""
        where = f"Location: {asked.query['where']}\r\n"
        writer.write(answer(status=int(asked.query.get("status", "302")), headers=where))
        return True

    async def _chain(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Redirect as often as the last part of the path says."""
        left = int(asked.path.rsplit("/", 1)[1])
        where = f"Location: /chain/{left - 1}\r\n"
        writer.write(answer(status=302, headers=where) if left else answer(b"end"))
        return True


async def _misbehave(
    writer: asyncio.StreamWriter, said: bytes, then: str | bytes | tuple[bytes, float]
) -> bool:
    writer.write(said)
    if isinstance(then, str):
        if then == HANG:
            await asyncio.sleep(3600)
        return then == KEEP
    drop, pause = then if isinstance(then, tuple) else (then, 0)
    while True:
        writer.write(drop)
        await writer.drain()
        await asyncio.sleep(pause)
