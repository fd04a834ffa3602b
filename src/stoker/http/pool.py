"""Connections kept open for the next request: so many in all, idle ones soon let go.

One list per origin, so that finding one costs the same however many hosts there are.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from datetime import timedelta
from typing import cast

from stoker.base.errors import PermanentError, TransientError
from stoker.http.response import ResponseParser
from stoker.http.ssrf import SafeConnector
from stoker.http.url import Url

# Below the five seconds after which common servers close: a request that crosses their closing
# on the way would be lost.
MAX_IDLE = timedelta(seconds=4)
Origin = tuple[str, str, int, bool]


class Connection(asyncio.Protocol):
    """One connection to one origin, used by one request at a time."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.idle_since: float | None = None  # None for one that was never used before
        self._transport: asyncio.Transport | None = None
        self._answer: ResponseParser | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._is_open = True

    async def exchange(self, request: bytes, answer: ResponseParser) -> None:
        """Send a request, and wait until its answer is done. Deadlines are the caller's."""
        if self._transport is None or not self._is_open:
            answer.feed_eof()
            return
        self._answer = answer
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._waiting
        finally:
            self._answer = self._waiting = None

    @property
    def is_usable(self) -> bool:
        """Whether the other side is still there, silent, and has everything that was sent."""
        there = self._is_open and self._transport is not None and not self._transport.is_closing()
        return there and not cast(asyncio.Transport, self._transport).get_write_buffer_size()

    def abort(self) -> None:
        """Close at once. Closing twice is once."""
        self._is_open = False
        if self._transport is not None:
            self._transport.abort()

    # What the event loop tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.abort()  # it answers no request
            return
        self._answer.feed(data)
        self._finish_if_done()

    def eof_received(self) -> bool:
        self._is_open = False
        if self._answer is not None:
            self._answer.feed_eof()
            self._finish_if_done()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        if self._answer is not None:
            self._answer.feed_loss() if exc is not None else self._answer.feed_eof()
            self._finish_if_done()

    def _finish_if_done(self) -> None:
        if self._answer is not None and self._answer.outcome is not None:
            if not self._answer.reusable:
                self.abort()
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)


class ConnectionPool:
    """Hands out connections, at most `most` at once; others wait in the order of asking."""

    def __init__(
        self, dialer: SafeConnector, *, most: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self._connector = dialer
        self._slots = asyncio.Semaphore(most)
        self._most = most
        self._busy = 0
        self._tls = tls
        self._idle: OrderedDict[Connection, None] = OrderedDict()  # longest idle first
        self._by_origin: dict[Origin, list[Connection]] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def acquire(
        self, address: Url, *, afresh: bool = False, is_vendor: bool = False
    ) -> Connection:
        """Return a connection to this origin, kept or new, or certainly new. Give it back, always.

        Raises as `SafeConnector.connect`; also PermanentError when the other side cannot prove who
        it is, TransientError when TLS fails otherwise.
        """
        await self._slots.acquire()
        self._busy += 1
        try:
            kept = None if afresh else self._find_idle(address.origin)
            return kept if kept is not None else await self._connect(address, is_vendor)
        except BaseException:
            self._busy -= 1
            self._slots.release()
            raise

    def release(self, connection: Connection, *, keep: bool) -> None:
        """Keep a connection for the next request, or close it."""
        self._busy -= 1
        self._slots.release()
        if not keep or not connection.is_usable or self._closed:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle[connection] = None
        self._by_origin.setdefault(connection.origin, []).append(connection)
        if self._idle_timer is None:
            self._idle_timer = loop.call_later(MAX_IDLE.total_seconds(), self._close_idle)

    async def close(self) -> None:
        """Close what is idle, and what is at work as soon as it is given back."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        while self._idle:
            self._drop_oldest()
        await asyncio.sleep(0)  # the event loop closes sockets when its turn comes

    def _find_idle(self, origin: Origin) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - MAX_IDLE.total_seconds()
        while kept := self._by_origin.get(origin):
            connection = kept[-1]
            self._remove(connection)
            if connection.is_usable and (connection.idle_since or 0.0) > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, address: Url, is_vendor: bool) -> Connection:
        host = address.host
        tls = self._get_tls_context() if address.scheme == "https" else None
        while self._idle and self._busy + len(self._idle) > self._most:
            self._drop_oldest()
        opened = await self._connector.connect(
            host,
            address.port,
            is_vendor=is_vendor,
            may_be_private=address.may_be_private,
            is_encrypted=tls is not None,
        )
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(address.origin),
                sock=opened,
                ssl=tls,
                server_hostname=host if tls is not None else None,
            )
            return connection
        except ssl.SSLCertVerificationError as error:
            raise PermanentError(f"{host} cannot prove that it is {host}") from error
        except (OSError, ssl.SSLError) as error:
            raise TransientError(f"{host} could not agree on TLS with us") from error
        except BaseException:
            opened.close()
            raise

    def _get_tls_context(self) -> ssl.SSLContext:
        # Made when first needed: reading the certificates takes longer than most requests.
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def _close_idle(self) -> None:
        """Close what has been idle for long, and look again when the next one will have been."""
        loop = asyncio.get_running_loop()
        self._idle_timer = None
        while self._idle:
            due = (next(iter(self._idle)).idle_since or 0.0) + MAX_IDLE.total_seconds()
            if due > loop.time():
                self._idle_timer = loop.call_at(due, self._close_idle)
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        connection = next(iter(self._idle))
        self._remove(connection)
        connection.abort()

    def _remove(self, connection: Connection) -> None:
        del self._idle[connection]
        kept = self._by_origin[connection.origin]
        kept.remove(connection)
        if not kept:
            del self._by_origin[connection.origin]
