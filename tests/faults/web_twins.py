"""Clients that do it wrong, kept so that the lab can show that it notices.

`Unguarded` goes anywhere. `CheckedFirst` looks a name up, checks it, and then lets somebody else
look it up again; it follows redirects without looking. `swallowed` undoes a body in one go.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from ipaddress import ip_address
from urllib.parse import urljoin, urlsplit


class Unguarded:
    """Fetches whatever it is told to, five redirects deep."""

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
    """Checks, then fetches. Between the two, the world changes."""

    async def fetch(self, url: str) -> bytes:
        host = urlsplit(url).hostname or ""
        found = await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)
        if any(ip_address(where[0].split("%")[0]).is_private for _, _, _, _, where in found):
            raise OSError("private")
        return await super().fetch(url)


def swallowed(wire: bytes) -> bytes:
    """Return a gzip body undone in one go, then cut."""
    return zlib.decompress(wire, 31)[:5_000_000]
