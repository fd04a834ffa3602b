"""One thread that writes, and one fsync for all waiting callers.

A durable commit costs one fsync for one caller or many. So all work that arrives during a commit
goes into the next one together, and no caller gets its result before the disk has it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import apsw

from stoker.base.errors import ConfigError, StokerError, UncertainError
from stoker.db.sqlite_file import translate_sqlite_error, wrap_disk_errors

_Result = TypeVar("_Result")

_Work = Callable[[Any], Any]


class _WriteJob:
    """One piece of work and its future result."""

    def __init__(self, work: _Work, *, alone: bool) -> None:
        self.work = work
        self.alone = alone
        self.future: Future[Any] = Future()
        self.answer: Any = None
        self.error: BaseException | None = None

    def resolve(self) -> None:
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


class SqliteWriter:
    """The only writer of one SQLite file in this process. Safe to ask from any thread."""

    def __init__(self, path: Path, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._connection: apsw.Connection | None = None
        self._queue: queue.SimpleQueue[_WriteJob | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._broken: StokerError | None = None

    def submit(self, work: Callable[[apsw.Connection], _Result]) -> Future[_Result]:
        """Have work done in a transaction; the answer comes once its effects are durable.

        An error from the work undoes that work and nothing else.
        """
        return self._enqueue(_WriteJob(work, alone=False))

    def submit_exclusive(
        self, work: Callable[[apsw.Connection | None], _Result]
    ) -> Future[_Result]:
        """Have work done between two transactions, on the writer's connection if it has one yet."""
        return self._enqueue(_WriteJob(work, alone=True))

    def use_connection(self, connection: apsw.Connection) -> None:
        """Write through this connection from now on. Only for work done alone."""
        if self._connection is not None:
            self._connection.close()
        self._connection = connection

    def finish(self) -> None:
        """Do what was asked, then stop; asking later is refused. The connection stays open."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
            thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Finish, and let go of the file."""
        self.finish()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _enqueue(self, asked: _WriteJob) -> Future[Any]:
        with self._lock:
            if self._closed:
                raise ConfigError(f"the store in {self._path} was closed; open it again")
            if self._thread is None:
                # A daemon: work whose caller has no answer yet may be dropped at exit.
                self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
                self._thread.start()
            self._queue.put(asked)
        return asked.future

    def _run(self) -> None:
        last = False
        while not last:
            group: list[_WriteJob] = []
            for asked in self._take_waiting():
                if asked is None:
                    last = True
                elif not asked.future.set_running_or_notify_cancel():
                    continue  # the caller has gone
                elif asked.alone:
                    self._run_group(group, self._write)
                    self._run_group([asked], self._run_exclusive)
                    group = []
                else:
                    group.append(asked)
            self._run_group(group, self._write)

    def _take_waiting(self) -> list[_WriteJob | None]:
        waiting = [self._queue.get()]
        while True:
            try:
                waiting.append(self._queue.get_nowait())
            except queue.Empty:
                return waiting

    def _run_group(
        self, group: Sequence[_WriteJob], serve: Callable[[Sequence[_WriteJob]], None]
    ) -> None:
        if not group:
            return
        try:
            if self._broken is not None:
                raise self._broken
            serve(group)
        except Exception as error:  # noqa: BLE001 – it belongs to those who wait, not to this thread
            if isinstance(error, UncertainError):
                self._mark_broken(error)
            for asked in group:
                asked.error = self._translate_error(error)
        for asked in group:
            asked.resolve()

    def _write(self, group: Sequence[_WriteJob]) -> None:
        if self._connection is None:
            self._connection = self._connect()
        with wrap_disk_errors(self._connection, self._path):
            self._commit(self._connection, group)

    def _commit(self, connection: apsw.Connection, group: Sequence[_WriteJob]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for asked in group:
                self._attempt(connection, asked)
            connection.execute("COMMIT")
        except Exception:
            if connection.in_transaction:
                with contextlib.suppress(apsw.Error):  # what is never committed is never seen
                    connection.execute("ROLLBACK")
            raise

    def _attempt(self, connection: apsw.Connection, asked: _WriteJob) -> None:
        connection.execute("SAVEPOINT work")
        try:
            asked.answer = asked.work(connection)
        except Exception as error:
            # A full or failing disk ends the whole transaction, so every caller in it must know.
            if isinstance(error, apsw.IOError) or not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO work")
            asked.error = self._translate_error(error)
        connection.execute("RELEASE work")

    def _run_exclusive(self, group: Sequence[_WriteJob]) -> None:
        for asked in group:
            asked.answer = asked.work(self._connection)

    def _translate_error(self, error: Exception) -> Exception:
        if isinstance(error, apsw.Error):
            meaning = translate_sqlite_error(error, self._path)
            meaning.__cause__ = error
            return meaning
        return error

    def _mark_broken(self, error: UncertainError) -> None:
        self._broken = ConfigError(
            f"an earlier write to {self._path} failed on the disk ({error.__cause__}); "
            "check the disk, then start again"
        )
        self._connection = None
