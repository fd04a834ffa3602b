"""A web server that does everything a server should not, each misdeed under a path of its own.

It listens on loopback and speaks raw bytes, so that it can break every rule; it keeps what was
asked of it. Run it inside the event loop of a test, or by itself with
`python -m faults.hostile_server`, which prints its address and ends with its input.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import struct
import sys
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
        deed: Deed = getattr(self, "_" + asked.path.strip("/").split("/")[0].replace("-", "_"))
        keep = await deed(asked, writer)
        await writer.drain()
        self.answered += 1
        return keep

    # Misdeeds.

    async def _ok(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer())
        return True

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

    async def _hang(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(3600)
        return False

    async def _hang_in_body(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await asyncio.sleep(3600)
        return False

    async def _drip(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        return await self._dripped(writer, b"x")

    async def _drip_headers(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        return await self._dripped(writer, b"X")

    async def _drip_chunks(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        return await self._dripped(writer, b"1\r\nx\r\n")

    async def _drip_continue(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        return await self._dripped(writer, b"HTTP/1.1 102 Processing\r\n\r\n")

    async def _dripped(self, writer: asyncio.StreamWriter, drop: bytes) -> bool:
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(DRIP)

    async def _endless(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        return await self._poured(writer, bytes(64 * 1024))

    async def _endless_chunks(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        return await self._poured(writer, b"1\r\nx\r\n" * 10_000)

    async def _endless_extension(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        return await self._poured(writer, b"x" * 64 * 1024)

    async def _endless_trailers(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Long: ")
        return await self._poured(writer, b"x" * 64 * 1024)

    async def _endless_header(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        return await self._poured(writer, b"x" * 64 * 1024)

    async def _endless_continue(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        return await self._poured(writer, b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    async def _poured(self, writer: asyncio.StreamWriter, what: bytes) -> bool:
        while True:
            writer.write(what)
            await writer.drain()

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

    async def _close(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        return False

    async def _reset(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER: close by reset
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        await writer.drain()
        await asyncio.sleep(0.05)
        return False

    async def _build_timeout_error(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Promise more than comes."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")
        return False

    async def _too_short(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Promise less than comes; the rest looks like the answer to another request."""
        rest = answer(b"poison")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + rest)
        return True

    async def _late_poison(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer, then say something nobody asked for a little later."""
        writer.write(answer())
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(answer(b"poison"))
        return True

    async def _close_after(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer())
        return False

    async def _fickle(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer a connection's first request; take its second, and close without a word."""
        if writer in self._answered:
            return False
        self._answered.add(writer)
        writer.write(answer())
        return True

    async def _until_closed(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nall there is")
        return False

    async def _continue(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Length: 9\r\n\r\n"
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" + hints + answer())
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

    async def _loop(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer(status=302, headers="Location: /loop\r\n"))
        return True

    async def _chain(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Redirect as often as the last part of the path says."""
        left = int(asked.path.rsplit("/", 1)[1])
        where = f"Location: /chain/{left - 1}\r\n"
        writer.write(answer(status=302, headers=where) if left else answer(b"end"))
        return True


async def _serve() -> None:
    async with HostileServer() as server:
        print(server.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve())
