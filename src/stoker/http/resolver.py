"""Look host names up, each in a thread of its own, so that dead names hold up no others.

The system's lookup cannot be stopped, and a name whose servers are silent takes it half a minute.
So its callers leave when the time limit is over, the thread ends by itself, and the next name takes
its place, unless too many threads are late. A name is looked up once at a time however many ask for
it, and one that failed is not looked up again for a while.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from stoker.base.errors import PermanentError, TransientError

RESOLVE_TIMEOUT = timedelta(seconds=5)
MAX_REMEMBERED = 1_000  # names that failed
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}

Address = tuple[int, str]  # its family, and itself as text
LookUp = Callable[[str], Sequence[Address]]
CallLater = Callable[[float, Callable[[], None]], object]
_Outcome = Sequence[Address] | Exception


def look_up(host: str) -> Sequence[Address]:
    """Return all addresses of a host, as the system knows them. Blocks."""
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    # A scope of an IPv6 address is part of its text here, so that it is refused with it.
    return [(family, str(where[0])) for family, _, _, _, where in answers]


@dataclass(slots=True)
class _Lookup:
    outcome: asyncio.Future[_Outcome] = field(default_factory=asyncio.Future)
    has_slot: bool = True


class Resolver:
    """Looks names up: `most` at once, and up to `late` more that are past the time limit.

    A name that does not exist or is not answered for is refused for `remember` without asking.
    """

    def __init__(
        self,
        *,
        most: int,
        late: int,
        remember: timedelta = timedelta(0),
        look_up: LookUp = look_up,
        now: Callable[[], float] = time.monotonic,
        call_later: CallLater | None = None,
    ) -> None:
        self._slots = asyncio.Semaphore(most)
        self._late_left = late
        self._remember = remember.total_seconds()
        self._look_up, self._now, self._call_later = look_up, now, call_later
        self._running: dict[str, _Lookup] = {}
        self._failed: OrderedDict[str, tuple[float, Exception]] = OrderedDict()  # until, why
        self._closed = False

    async def resolve(self, host: str) -> Sequence[Address]:
        """Return the addresses of a host; waiting for a free thread is as long as the caller's.

        Raises PermanentError when there is no such host, TransientError when it was not found out.
        """
        outcome: _Outcome | None = self._find_failure(host)
        if outcome is None and host not in self._running:
            await self._slots.acquire()
            # Meanwhile another caller may have begun to look it up, or have found out.
            outcome = self._find_failure(host)
            if outcome is not None or host in self._running or self._closed:
                self._slots.release()
            else:
                self._start(host)
        if outcome is None:
            if host not in self._running:
                raise TransientError(f"the name {host} is not looked up: this process is closing")
            outcome = await asyncio.shield(self._running[host].outcome)
        if isinstance(outcome, Exception):
            raise _to_error(host, outcome) from outcome
        return outcome

    def close(self) -> None:
        """Start no more lookups; those under way end by themselves, and hold up no exit."""
        self._closed = True

    def _start(self, host: str) -> None:
        loop = asyncio.get_running_loop()
        lookup = self._running[host] = _Lookup()

        def work() -> None:
            outcome: _Outcome
            try:
                outcome = self._look_up(host)
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller has to know
                outcome = error
            with suppress(RuntimeError):  # the loop may be gone
                loop.call_soon_threadsafe(self._end, host, lookup, outcome)

        try:
            # A daemon: a process that is done does not wait for a name that is never answered.
            threading.Thread(target=work, name="stoker-resolve", daemon=True).start()
        except RuntimeError as error:  # no thread can be had
            loop.call_soon(self._end, host, lookup, error)
        call_later = self._call_later or loop.call_later
        call_later(RESOLVE_TIMEOUT.total_seconds(), lambda: self._give_up(host, lookup))

    def _give_up(self, host: str, lookup: _Lookup) -> None:
        """Let a lookup past the time limit go: its callers leave, the next name has its slot."""
        if lookup.outcome.done():
            return
        self._finish(host, lookup, TimeoutError())
        if self._late_left:
            self._late_left -= 1
            lookup.has_slot = False
            self._slots.release()

    def _end(self, host: str, lookup: _Lookup, outcome: _Outcome) -> None:
        del self._running[host]
        if not lookup.outcome.done():
            self._finish(host, lookup, outcome)
        if lookup.has_slot:
            self._slots.release()
        else:
            self._late_left += 1

    def _finish(self, host: str, lookup: _Lookup, outcome: _Outcome) -> None:
        lookup.outcome.set_result(outcome)
        if self._remember and isinstance(outcome, Exception) and _is_lasting(outcome):
            self._failed[host] = self._now() + self._remember, outcome
            self._failed.move_to_end(host)
            if len(self._failed) > MAX_REMEMBERED:
                self._failed.popitem(last=False)

    def _find_failure(self, host: str) -> Exception | None:
        until, why = self._failed.get(host, (0.0, None))
        if why is not None and until <= self._now():
            del self._failed[host]
            return None
        return why


def _is_lasting(why: Exception) -> bool:
    return isinstance(why, TimeoutError) or _is_no_host(why)


def _is_no_host(why: Exception) -> bool:
    return isinstance(why, socket.gaierror) and why.errno in _NO_SUCH_NAME


def _to_error(host: str, why: Exception) -> PermanentError | TransientError:
    if isinstance(why, TimeoutError):
        return TransientError(f"the name {host} was not resolved in time")
    if isinstance(why, ValueError):
        return PermanentError("the host is not a name DNS knows")
    if _is_no_host(why):
        return PermanentError(f"there is no host {host}")
    return TransientError(f"the name {host} could not be looked up now")
