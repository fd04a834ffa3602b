"""A few threads, each with a connection of its own, so that waiting for Postgres blocks nobody.

A connection belongs to its thread, so whoever has the thread has the connection: there is no
second queue, a failure to connect is seen by the one who asked, and work that never got a lane
was certainly not done. Every call ends by its deadline, also when the peer has gone silent.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Lock, local
from typing import TypeVar

from stoker.errors import TransientError
from stoker.stores.postgres_link import Connection, connected, lost, parsed, place, psycopg

Result = TypeVar("Result")

# What DISCARD ALL does, in one round trip, and keeping the plans that the driver counts on.
FORGET = """
SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *;
SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES
"""


LONGEST_CONNECT = timedelta(seconds=10)


class Call:
    """One call on its way, so that its deadline can reach it on another thread."""

    def __init__(self) -> None:
        self.expired = False
        self._link: Connection | None = None
        self._lock = Lock()

    def uses(self, link: Connection | None) -> None:
        """Say which connection the call now waits on."""
        with self._lock:
            self._link = link
            if self.expired:
                self._cut()

    def expire(self) -> None:
        """Make whatever the call waits for fail now; how it ends is then its own to say."""
        with self._lock:
            self.expired = True
            self._cut()

    def _cut(self) -> None:
        if self._link is None or self._link.closed:
            return
        # Shutting the socket wakes the thread that waits on it; closing it under its feet would
        # let the number be reused. Asking the server to cancel is no use when it is not answering.
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self._link.fileno())) as s,
        ):
            s.shutdown(socket.SHUT_RDWR)


class Lanes:
    """At most so many connections, opened when first needed and kept."""

    def __init__(self, url: str, *, connections: int, deadline: timedelta) -> None:
        parsed(url)  # a URL that cannot work is refused now, not at the first verb
        self._url = url
        self._deadline = deadline
        self._connections = connections
        self._threads = ThreadPoolExecutor(max_workers=connections, thread_name_prefix="postgres")
        self._mine = local()
        self._links: set[Connection] = set()
        self._lock = Lock()

    async def run(self, job: Callable[[Call], Result]) -> Result:
        """Run a job on one of the threads; its deadline begins now.

        Raises TransientError when no thread was free in time. Once begun, a job is waited for
        until it says how it ended; past the deadline its connection fails under it.
        """
        call = Call()
        asked = self._threads.submit(job, call)
        answer = asyncio.wrap_future(asked)
        done, _ = await asyncio.wait({answer}, timeout=self._deadline.total_seconds())
        if not done:
            if asked.cancel():
                raise TransientError(
                    f"{place(self._url)}: all {self._connections} connections were busy for "
                    f"{self._deadline.total_seconds():g} s; nothing was done, try again later"
                )
            call.expire()
        return await answer

    @contextmanager
    def link(self, call: Call) -> Iterator[Connection]:
        """Lend this thread's connection; after any failure nothing of it is left on it."""
        link: Connection | None = getattr(self._mine, "link", None)
        if link is None or link.closed:
            link = self._mine.link = connected(
                self._url, within=min(LONGEST_CONNECT, self._deadline)
            )
            with self._lock:
                self._links.add(link)
        call.uses(link)
        try:
            yield link
        except BaseException as error:
            self._clean(link, broken=isinstance(error, psycopg.Error) and lost(error))
            raise
        finally:
            call.uses(None)

    async def close(self) -> None:
        """Finish what was asked, then close every connection."""
        await asyncio.to_thread(self._threads.shutdown)
        with self._lock:
            while self._links:
                self._links.pop().close()

    def _clean(self, link: Connection, *, broken: bool) -> None:
        try:
            if broken or link.closed:
                raise psycopg.OperationalError
            link.execute("ROLLBACK", prepare=False)
            link.execute(FORGET, prepare=False)
        except psycopg.Error:
            link.close()
            with self._lock:
                self._links.discard(link)
