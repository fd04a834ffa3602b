"""Connections to Postgres on threads of their own, with deadlines and translated errors.

Each thread owns its connection, so there is no second queue: the caller sees a failure to
connect, and work that got no thread was certainly not done. Every call ends by its deadline, also
when the server is silent. Driver errors become one of the five kinds, one line, never with a
password in it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Lock, local
from typing import Any, TypeVar
from urllib.parse import urlsplit

from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)

try:
    # The other modules take the driver from here, so that its absence is explained once.
    import psycopg as psycopg
    from psycopg import conninfo
    from psycopg import errors as errors
    from psycopg import sql as sql
except ImportError as missing:  # the driver is an extra: most installations never need it
    raise ConfigError(
        "Postgres needs its driver; install it with: pip install 'stoker[postgres]'"
    ) from missing

Connection = psycopg.Connection[tuple[Any, ...]]

URL_FORMAT = "postgresql://user:password@host/database"

# A peer that is gone without saying so is noticed in about half a minute, also while it is idle.
_TIMEOUTS = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}

# Asked again from the start, these may well work.
RETRYABLE: tuple[type[psycopg.Error], ...] = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
)

# What a COMMIT can answer that says for certain that it did not happen.
_COMMIT_REFUSALS = ("23", "40")

_CONFIG_ERRORS: tuple[type[psycopg.Error], ...] = (
    errors.InvalidPassword,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
)


def parse_postgres_url(url: str, *, setting: str = "storage.postgres_url") -> dict[str, Any]:
    """Return the parts of a Postgres URL; ConfigError says what one looks like."""
    try:
        if urlsplit(url).scheme not in ("postgresql", "postgres"):
            raise ValueError
        parts = {key: value for key, value in conninfo.conninfo_to_dict(url).items() if value}
        if not all(port.isdecimal() for port in str(parts.get("port", "0")).split(",")):
            raise ValueError
        return parts
    except (ValueError, psycopg.Error):
        # The driver's own words may quote the URL, and with it the password.
        raise ConfigError(f"{setting} is not a Postgres URL; write it as {URL_FORMAT}") from None


def describe_url(url: str) -> str:
    """Return where a URL points, without its password."""
    parts = parse_postgres_url(url)
    user, host = parts.get("user", "the default user"), parts.get("host", "localhost")
    return f"Postgres database {parts.get('dbname', user)} on {host} as {user}"


def open_connection(url: str, *, within: timedelta = timedelta(seconds=10)) -> Connection:
    """Open a connection; nothing on it is in a transaction until it says BEGIN.

    What the URL says about waiting goes before `within`, of which less than 2 s count as 2.
    """
    wait = max(2, round(within.total_seconds()))
    parts = {**_TIMEOUTS, "connect_timeout": str(wait), **parse_postgres_url(url)}
    try:
        return psycopg.connect(**parts, autocommit=True, client_encoding="utf8")
    except psycopg.Error as error:
        raise _translate_connect_error(error, url) from _find_safe_cause(error, url)


def is_connection_lost(error: psycopg.Error) -> bool:
    """Return whether the error ended the connection: the server left, or nothing came back."""
    gone = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return gone and (error.sqlstate is None or error.sqlstate.startswith(("08", "57P")))


def translate_error(error: psycopg.Error, *, where: str) -> StokerError:
    """Return what a failure before COMMIT means: nothing was done, and this is what to do next."""
    message = _get_first_line(error)
    match error:
        case errors.SerializationFailure() | errors.DeadlockDetected() | errors.LockNotAvailable():
            return TransientError(
                f"{where}: another process holds a lock we need ({message}); try again later"
            )
        case errors.QueryCanceled():
            return TransientError(
                f"{where}: a statement took too long ({message}); try again later"
            )
        case errors.DiskFull() | errors.OutOfMemory() | errors.TooManyConnections():
            return TransientError(
                f"{where}: the server is out of room ({message}); free some first"
            )
        case errors.ReadOnlySqlTransaction():
            return TransientError(
                f"{where}: it only answers reads now; is it a standby? ({message})"
            )
        case errors.InsufficientPrivilege() if "request.tenant_id" in message:
            return PermanentError(f"{where}: {message}; open the tenant's store to reach its rows")
        case errors.InsufficientPrivilege():
            return ConfigError(f"{where}: {message}; run `stoker db setup` again")
        case errors.UndefinedTable() | errors.InvalidSchemaName() | errors.UndefinedFunction():
            return ConfigError(f"{where}: {message}; run `stoker db setup` first")
        case errors.ProgramLimitExceeded():
            return PermanentError(f"{where}: a name is too long for a key; nothing was written")
        case psycopg.DataError() | psycopg.IntegrityError():
            return PermanentError(f"{where} refused a value ({message}); nothing was written")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return TransientError(f"{where}: the connection was lost ({message}); try again later")
    return PermanentError(f"{where} refused a statement ({message}); nothing was written")


def translate_commit_error(error: psycopg.Error, *, where: str) -> StokerError:
    """Return what a failed COMMIT means: refused only if the server answered so."""
    if (error.sqlstate or "").startswith(_COMMIT_REFUSALS):
        return translate_error(error, where=where)
    return UncertainError(
        f"{where}: the connection was lost while committing; it may have been done, "
        "read again before repeating it"
    )


def _translate_connect_error(error: psycopg.Error, url: str) -> StokerError:
    where = describe_url(url)
    _, refused, reason = _hide_password(_get_first_line(error), url).rpartition("FATAL:")
    message = reason.strip()
    if isinstance(error, _CONFIG_ERRORS) or "authentication failed" in message:
        return ConfigError(f"{where} refuses our login ({message}); check storage.postgres_url")
    # Before the login the server sends only a text, without an error code.
    if refused and "does not exist" in message:
        return ConfigError(f"{where} is not there ({message}); create it, or correct the URL")
    if "no password supplied" in message:
        return ConfigError(f"{where} wants a password; put one into storage.postgres_url")
    return TransientError(f"{where} cannot be reached ({message}); is it running?")


def _get_first_line(error: psycopg.Error) -> str:
    message = (error.diag.message_primary or str(error)).strip()
    return message.splitlines()[0] if message else type(error).__name__


def _hide_password(text: str, url: str) -> str:
    password = parse_postgres_url(url).get("password")
    return text.replace(str(password), "***") if password else text


def _find_safe_cause(error: psycopg.Error, url: str) -> psycopg.Error | None:
    return error if _hide_password(str(error), url) == str(error) else None


Result = TypeVar("Result")

# What DISCARD ALL does, in one round trip, and keeping the plans that the driver counts on.
RESET_SESSION = """
SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *;
SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES
"""

MAX_CONNECT_TIME = timedelta(seconds=10)
MIN_WORK_TIME = timedelta(milliseconds=100)  # a call with less of its time left is not begun


class Deadline:
    """One call on its way, so that its deadline can reach it on another thread."""

    def __init__(self) -> None:
        self.expired = False
        self._link: Connection | None = None
        self._lock = Lock()

    def attach(self, link: Connection | None) -> None:
        """Say which connection the call now waits on."""
        with self._lock:
            self._link = link
            if self.expired:
                self._shut_down_socket()

    def expire(self) -> None:
        """Make whatever the call waits for fail now; how it ends is then its own to say."""
        with self._lock:
            self.expired = True
            self._shut_down_socket()

    def _shut_down_socket(self) -> None:
        if self._link is None or self._link.closed:
            return
        # Shutting the socket wakes the thread that waits on it; closing it under its feet would
        # let the number be reused. Asking the server to cancel is no use when it is not answering.
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self._link.fileno())) as s,
        ):
            s.shutdown(socket.SHUT_RDWR)


class ConnectionThreads:
    """At most so many connections, opened when first needed and kept."""

    def __init__(self, url: str, *, connections: int, deadline: timedelta) -> None:
        parse_postgres_url(url)  # a URL that cannot work is refused now, not at the first verb
        self._url = url
        self._deadline = deadline
        self._connections = connections
        self._threads = ThreadPoolExecutor(max_workers=connections, thread_name_prefix="postgres")
        self._local = local()
        self._links: set[Connection] = set()
        self._lock = Lock()

    async def run(self, job: Callable[[Deadline], Result]) -> Result:
        """Run a job on one of the threads; its deadline begins now.

        Raises TransientError when no thread was free in time. Once begun, a job is waited for
        until it says how it ended; past the deadline its connection fails under it.
        """
        call = Deadline()
        begin_by = time.monotonic() + (self._deadline - MIN_WORK_TIME).total_seconds()

        def begin() -> Result:
            # The call before it used up the time: begun now it would be cut off, perhaps while
            # committing, and its caller could not know whether it was done.
            if time.monotonic() > begin_by:
                raise self._make_busy_error()
            return job(call)

        asked = self._threads.submit(begin)
        answer = asyncio.wrap_future(asked)
        done, _ = await asyncio.wait({answer}, timeout=self._deadline.total_seconds())
        if not done:
            if asked.cancel():
                raise self._make_busy_error()
            call.expire()
        return await answer

    def _make_busy_error(self) -> TransientError:
        return TransientError(
            f"{describe_url(self._url)}: all {self._connections} connections were busy for "
            f"{self._deadline.total_seconds():g} s; nothing was done, try again later"
        )

    @contextmanager
    def borrow_connection(self, call: Deadline) -> Iterator[Connection]:
        """Lend this thread's connection; after any failure nothing of it is left on it."""
        link: Connection | None = getattr(self._local, "link", None)
        if link is None or link.closed:
            link = self._local.link = open_connection(
                self._url, within=min(MAX_CONNECT_TIME, self._deadline)
            )
            with self._lock:
                self._links.add(link)
        call.attach(link)
        try:
            yield link
        except BaseException as error:
            self._reset_connection(
                link, broken=isinstance(error, psycopg.Error) and is_connection_lost(error)
            )
            raise
        finally:
            call.attach(None)

    async def close(self) -> None:
        """Finish what was asked, then close every connection."""
        await asyncio.to_thread(self._threads.shutdown)
        with self._lock:
            while self._links:
                self._links.pop().close()

    def _reset_connection(self, link: Connection, *, broken: bool) -> None:
        try:
            if broken or link.closed:
                raise psycopg.OperationalError
            link.execute("ROLLBACK", prepare=False)
            link.execute(RESET_SESSION, prepare=False)
        except psycopg.Error:
            link.close()
            with self._lock:
                self._links.discard(link)
