"""Call functions on strangers' bytes in worker processes, each call within limits of its own.

A page can make any parser slow, large or crash. In a worker it holds up nothing else: the kernel
ends a worker whose call takes too much processor time, and another worker takes its place. Workers
start when they are first needed, inherit no files, sockets or environment, and end with the
process, even when it is killed.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, ParamSpec, TypeVar

from stoker.base.errors import PermanentError

CPU_SECONDS = 2.0  # processor time of one call
WALL_SECONDS = 30.0  # of one call, on a machine however busy
MAX_MEMORY = 512 * 1024 * 1024  # bytes of address space of a worker
MAX_RESULT_BYTES = 8_000_000
MAX_WORKERS = 4
_MAX_CALLS = 2_000  # of one worker; a new one has no memory in pieces
_SMALL_BYTES = 100_000  # of an answer that is read at once
_HEADER_BYTES = 8
_MOMENTS = {each.__name__: each for each in (datetime, timedelta, timezone)}
_MAIN = "from stoker.base.process_pool import serve; serve()"

ArgsT = ParamSpec("ArgsT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Aborted:
    """A call that was given up, and why."""

    reason: str


class ProcessPool:
    """Calls functions in a few workers; others wait in the order of asking.

    All pools of a process share its workers; `workers` is a smaller share of its own.
    """

    def __init__(self, *, workers: int | None = None, cpu_seconds: float = CPU_SECONDS) -> None:
        self._own_slots = None if workers is None else asyncio.Semaphore(workers)
        self._cpu_seconds = cpu_seconds
        self._preparation: asyncio.Future[list[Any]] | None = None

    async def run(
        self, function: Callable[ArgsT, ResultT], *args: ArgsT.args, **kwargs: ArgsT.kwargs
    ) -> ResultT | Aborted:
        """Return what a function of a module returns for these arguments, or why it was given up.

        Its result consists of plain values, dataclasses and enums. Raises PermanentError where the
        function does.
        """
        async with self._own_slots or _get_shared_slots():
            try:
                worker = await _take_worker()
            except OSError as error:
                return Aborted(f"no process could be started for it ({error.strerror})")
            try:
                async with asyncio.timeout(2 * WALL_SECONDS):
                    answer = await worker.call((self._cpu_seconds, function, args, kwargs))
            except (OSError, EOFError):  # being late is one
                worker.end()
                return Aborted(await worker.find_reason())
            except BaseException:
                worker.end()
                raise
            outcome, value = answer
            if outcome == "failed":  # its process is not fit for another call
                worker.end()
                return Aborted(value)
            _give_back(worker)
        if outcome == "raised":
            raise PermanentError(value)
        return value  # type: ignore[no-any-return]

    def prepare(self, function: Callable[..., Any]) -> None:
        """Start workers that have imported a function's module; what is asked next waits less."""
        if self._preparation is None and not _IDLE:
            slots = min(MAX_WORKERS, os.cpu_count() or 1)
            calls = [self.run(_import, function) for _ in range(slots)]
            self._preparation = asyncio.gather(*calls, return_exceptions=True)


def _import(function: object) -> None:
    """Do nothing; reading the arguments of this call has imported the function's module."""


class _Worker:
    """One process that makes one call at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self.calls = 0
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, "-P", "-c", _MAIN],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # Nothing else of ours: the environment holds keys.
                env={
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                process_group=0,  # Ctrl-C is for the process that asks
            )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def call(self, what: tuple[Any, ...]) -> tuple[str, Any]:
        """Raises OSError or EOFError when the worker ends before it has answered."""
        loop, request = asyncio.get_running_loop(), pickle.dumps(what)
        self.calls += 1
        await loop.sock_sendall(self._socket, len(request).to_bytes(_HEADER_BYTES))
        await loop.sock_sendall(self._socket, request)
        size = int.from_bytes(await self._receive(_HEADER_BYTES))
        if size > MAX_RESULT_BYTES:
            raise EOFError
        answer = await self._receive(size)
        # A large answer is read in a thread: the event loop has its turns meanwhile.
        return await asyncio.to_thread(_load, answer) if size > _SMALL_BYTES else _load(answer)

    async def _receive(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        received = bytearray(size)
        rest = memoryview(received)
        while rest:
            count = await loop.sock_recv_into(self._socket, rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return bytes(received)

    def end(self) -> None:
        """End the process. The system forgets it when it is next looked at."""
        self._socket.close()
        self._process.kill()
        _ENDED[:] = [process for process in (*_ENDED, self._process) if process.poll() is None]

    async def find_reason(self) -> str:
        """Return why it ended, if it did so by itself."""
        code = await asyncio.to_thread(self._process.wait)
        if code == -signal.SIGPROF:
            return "it takes too much processor time to read"
        if code == -signal.SIGALRM:
            return "it takes too long to read"
        return "reading it ended its process"


class _Unpickler(pickle.Unpickler):
    """Takes plain values, our dataclasses and enums: a worker may be in a stranger's hands."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "datetime" and name in _MOMENTS:
            return _MOMENTS[name]
        found = super().find_class(module, name) if module.startswith("stoker.") else None
        if isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum)):
            return found
        raise EOFError


def _load(answer: bytes) -> tuple[str, Any]:
    try:
        outcome, value = _Unpickler(io.BytesIO(answer)).load()
    except Exception as error:  # pickles can be broken in any way
        raise EOFError from error
    return outcome, value


_SHARED_SLOTS: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


def _get_shared_slots() -> asyncio.Semaphore:
    loop = asyncio.get_running_loop()
    if loop not in _SHARED_SLOTS:
        for closed in [each for each in _SHARED_SLOTS if each.is_closed()]:
            del _SHARED_SLOTS[closed]
        _SHARED_SLOTS[loop] = asyncio.Semaphore(min(MAX_WORKERS, os.cpu_count() or 1))
    return _SHARED_SLOTS[loop]


_IDLE: list[_Worker] = []
_ENDED: list[subprocess.Popen[bytes]] = []  # the system still knows them


async def _take_worker() -> _Worker:
    while _IDLE:
        worker = _IDLE.pop()
        if worker.is_alive:
            return worker
        worker.end()
    # In a thread: on a busy machine it takes a while until a process has begun.
    starting = asyncio.get_running_loop().run_in_executor(None, _Worker)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_keep_started)
        raise


def _keep_started(done: asyncio.Future[_Worker]) -> None:
    if done.exception() is None:
        _give_back(done.result())


def _give_back(worker: _Worker) -> None:
    if worker.calls < _MAX_CALLS and len(_IDLE) < MAX_WORKERS:
        _IDLE.append(worker)
    else:
        worker.end()


@atexit.register
def _end_workers() -> None:
    while _IDLE:
        _IDLE.pop().end()
    while _ENDED:
        _ENDED.pop().wait()


def serve() -> None:
    """Make the calls that come in, until the other side closes. What a worker runs."""
    _set_limit(resource.RLIMIT_CORE, 0)
    _set_limit(resource.RLIMIT_FSIZE, 0)
    if sys.platform != "darwin":  # which has no such limit
        _set_limit(resource.RLIMIT_AS, MAX_MEMORY)
    # No handlers, whatever was inherited: the kernel ends the process, in whatever code it is.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for limit in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(limit, signal.SIG_DFL)
    with socket.socket(fileno=os.dup(0)) as channel, channel.makefile("rwb") as stream:
        while header := stream.read(_HEADER_BYTES):
            request = stream.read(int.from_bytes(header))
            cpu_seconds, function, args, kwargs = pickle.loads(request)  # noqa: S301  # our own
            del request
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
            signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
            answer = _call(function, args, kwargs)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            stream.write(len(answer).to_bytes(_HEADER_BYTES) + answer)
            stream.flush()


def _set_limit(kind: int, most: int) -> None:
    """Set a limit of this process, never above the one it was started with."""
    hard = resource.getrlimit(kind)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))


def _call(function: Callable[..., Any], args: Any, kwargs: Any) -> bytes:
    try:
        return pickle.dumps(("returned", function(*args, **kwargs)))
    except PermanentError as error:
        return pickle.dumps(("raised", str(error)))
    except MemoryError:
        return pickle.dumps(("failed", "it takes too much memory to read"))
    except Exception as error:  # noqa: BLE001  # strangers' bytes find every mistake
        return pickle.dumps(("failed", f"reading it failed ({type(error).__name__})"))
