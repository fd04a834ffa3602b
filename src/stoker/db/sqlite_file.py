"""Open a SQLite file durably, bring it to this program's schema, check its health.

The driver's errors stop here; what leaves is one of our five kinds, one line, naming the file. A
migration step and the version it leads to are written in one transaction, so a crash leaves the
file at one version or the next. Health checks raise nothing; they report.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.db.database import Check
from stoker.db.migrations import Schema, list_pending
from stoker.files.durable import Disk

# Before 3.51.3, two connections writing at once could, rarely, corrupt a file in WAL mode:
# https://sqlite.org/wal.html#walresetbug. apsw brings its own SQLite; the system's is often older.
MIN_SQLITE_VERSION = (3, 51, 3)

SYNCHRONOUS_FULL = 2  # what `PRAGMA synchronous` answers when every commit is fsynced

BUSY_SLEEPS = (0.001, 0.002, 0.003, 0.004, 0.005)  # seconds, while another process writes

_LOG_INDEX_BYTES = 32 * 1024  # of the file beside a log, which also reading needs

_Result = TypeVar("_Result")


def refuse_old_sqlite(version: str) -> None:
    """Raise ConfigError when this version of SQLite is known to damage files."""
    if tuple(int(part) for part in version.split(".")[:3]) < MIN_SQLITE_VERSION:
        raise ConfigError(
            f"SQLite {version} can damage a database that two connections write to; "
            "install apsw 3.51.3 or newer"
        )


def open_writer(path: Path, *, busy: timedelta, create: bool = False) -> apsw.Connection:
    """Open the file for durable writes; it is created only when asked, with its directories.

    What is created is its owner's alone; SQLite gives the log beside it the same permissions.
    Nothing in the file is changed yet, whatever it turns out to be.
    """
    if create:
        Disk().make_folder(path.parent)
        with suppress(OSError):  # it is there, or SQLite finds out what is wrong
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(os.path.realpath(path), flags, 0o600))
    with wrap_sqlite_errors(path):
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        connection = apsw.Connection(str(path), flags=flags)
        _prepare(connection, busy=busy)
        if connection.readonly("main"):
            connection.close()
            raise _build_read_only_error(path)
        connection.execute("PRAGMA synchronous = FULL")
        if connection.pragma("synchronous") != SYNCHRONOUS_FULL:
            raise ConfigError(f"{path} cannot be opened with full durability; nothing was written")
        return connection


def enable_wal(connection: apsw.Connection, path: Path, *, busy: timedelta) -> None:
    """Turn the write-ahead log on, for good: readers then never wait for the writer."""
    with wrap_sqlite_errors(path), wrap_disk_errors(connection, path):
        mode = retry_while_busy(lambda: connection.pragma("journal_mode", "wal"), busy=busy)
    if mode != "wal":
        raise ConfigError(
            f"{path} is on a file system that cannot hold a write-ahead log (it stays in "
            f"{mode!r} mode); choose a local disk for storage.sqlite_path"
        )


def open_reader(path: Path, *, busy: timedelta) -> apsw.Connection:
    """Open an existing file for reads only, also where nothing at all may be written."""
    with wrap_sqlite_errors(path):
        try:
            return _connect_reader(str(path), busy=busy)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # A write-ahead log needs a small shared file beside it, even to be read. Where that
            # cannot be made, no process can write either, and the file is safe to read.
            if _is_permitted(os.W_OK, path.parent) or not _is_permitted(os.R_OK, path):
                raise
            log = Path(f"{path}-wal")
            if log.exists() and log.stat().st_size:
                raise ConfigError(
                    f"the newest writes to {path} are still in {log.name}, which cannot be read "
                    "in a read-only directory; copy both files to a writable one and use them there"
                ) from None
            return _connect_reader(f"file:{quote(str(path.absolute()))}?immutable=1", busy=busy)


def retry_while_busy(attempt: Callable[[], _Result], *, busy: timedelta) -> _Result:
    """Try until it is no longer busy, for as long as we are ready to wait.

    SQLite itself does not wait for everything: changing the journal mode fails at once.
    """
    give_up = time.monotonic() + busy.total_seconds()
    while True:
        try:
            return attempt()
        except apsw.BusyError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(0.01)


@contextmanager
def wrap_disk_errors(connection: apsw.Connection, path: Path) -> Iterator[None]:
    """Turn a disk that fails under a write into UncertainError, and let go of the file for good.

    After a failed fsync the system may call lost pages clean, so a second one that succeeds
    proves nothing. We never ask again, not even by tidying up the log when closing.
    """
    try:
        yield
    except apsw.IOError as error:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()
        raise UncertainError(
            f"the disk failed while {path} was being written ({error}); it may have been done: "
            "check the disk, then read again before repeating it"
        ) from error


@contextmanager
def wrap_sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's failures inside the block into ours. All of them say: nothing was done."""
    try:
        yield
    except apsw.Error as error:
        raise translate_sqlite_error(error, path) from error
    except UnicodeEncodeError as error:
        raise PermanentError(
            "a text cannot be kept: clean it first, nothing was written"
        ) from error


def translate_sqlite_error(error: apsw.Error, path: Path) -> StokerError:
    """Return what a failure before a commit means: nothing was done, and this is what to do."""
    if os.path.isdir(path):  # noqa: PTH112  # Path raises where the folder may not be entered
        return ConfigError(f"{path} is a directory; storage.sqlite_path must name a file in it")
    match error:
        case apsw.NotADBError():
            return ConfigError(f"{path} is not a SQLite database; set storage.sqlite_path")
        case apsw.CorruptError():
            return ConfigError(f"{path} is damaged ({error}); restore it from a backup")
        case apsw.CantOpenError():
            return _translate_open_error(error, path)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return _build_read_only_error(path)
        case apsw.FullError() | apsw.IOError() if _is_full(error, path):
            return TransientError(
                f"the disk is full, so nothing was written to {path}; free some room and run again"
            )
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return TransientError(
                f"{path} is being written to by another process; nothing was done, try again later"
            )
        case apsw.IOError():
            return TransientError(
                f"the disk could not be read or written ({error}); nothing was done to {path}, "
                "check the disk before trying again"
            )
        case apsw.NoMemError() | apsw.InterruptError():
            return TransientError(f"{path}: {error}; nothing was done, try again later")
        case apsw.SQLError() if "no such table" in str(error):
            return ConfigError(f"{path} has no {error}; run `stoker db migrate`")
    return PermanentError(f"{path} refused a statement ({error}); nothing was written")


def _is_full(error: apsw.Error, path: Path) -> bool:
    # Where there is no room for the index of its log, SQLite speaks of an I/O error.
    code = getattr(error, "extendedresult", None)
    if isinstance(error, apsw.FullError) or code == apsw.SQLITE_IOERR_SHMSIZE:
        return True
    try:
        return shutil.disk_usage(path.parent).free < _LOG_INDEX_BYTES
    except OSError:
        return False


def _connect_reader(name: str, *, busy: timedelta) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags)
    try:
        _prepare(connection, busy=busy)
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error:
        connection.close()
        raise
    return connection


def _prepare(connection: apsw.Connection, *, busy: timedelta) -> None:
    connection.set_busy_handler(_build_busy_handler(busy))
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")  # a schema from elsewhere runs no functions
    connection.execute("PRAGMA cell_size_check = ON")  # notice damage sooner


def _build_busy_handler(busy: timedelta) -> Callable[[int], bool]:
    """Return how to wait for another process: retry often, and give up after this long.

    SQLite's own handler retries ten times a second. A process that writes without pause frees the
    file only for moments, and with so few attempts `stoker stop` takes seconds to meet one.
    """
    began = 0.0

    def wait(looks: int) -> bool:
        nonlocal began
        if looks == 0:
            began = time.monotonic()
        time.sleep(BUSY_SLEEPS[looks % len(BUSY_SLEEPS)])
        return time.monotonic() - began < busy.total_seconds()

    return wait


def _is_permitted(mode: int, path: Path) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _translate_open_error(error: apsw.Error, path: Path) -> StokerError:
    # SQLite says only that it could not; asking the system again tells why.
    try:
        path.open("rb").close()
    except FileNotFoundError:
        if path.parent.is_dir() and not _is_permitted(os.W_OK, path.parent):
            return _build_read_only_error(path.parent)
        return ConfigError(f"there is no database at {path} yet; run `stoker db migrate`")
    except OSError as cause:
        if cause.errno in (errno.EMFILE, errno.ENFILE):
            return TransientError(
                f"too many files are open to open {path} too; raise `ulimit -n` and run again"
            )
        return ConfigError(f"{path} cannot be opened ({cause.strerror}); check who may read it")
    return ConfigError(f"{path} cannot be opened ({error}); check its directory")


def _build_read_only_error(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is read-only, so nothing was written; make it and its directory writable, "
        "or choose another storage.sqlite_path"
    )


SELECT_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"

SELECT_VERSION = "SELECT value FROM meta WHERE key = 'schema_version'"

SET_VERSION = """
INSERT INTO meta (key, value) VALUES ('schema_version', :version)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


def read_schema_version(connection: apsw.Connection, path: Path) -> int:
    """Return the version of the schema, 0 in an empty file.

    Raises ConfigError when the file is another program's: it has tables, and not our `meta`.
    """
    with wrap_sqlite_errors(path):
        tables = {name for (name,) in connection.execute(SELECT_TABLES)}
        versions = connection.execute(SELECT_VERSION).fetchall() if "meta" in tables else []
    if not tables:
        return 0
    try:
        [[version]] = versions
        return int(str(version))
    except ValueError:
        raise ConfigError(
            f"{path} is a database of another program; choose another storage.sqlite_path, "
            "nothing was changed"
        ) from None


def require_schema_version(connection: apsw.Connection, path: Path, schema: Schema) -> None:
    """Raise ConfigError unless the file has exactly the schema this program knows."""
    version = read_schema_version(connection, path)
    if schema.list_pending(version, where=str(path)):
        raise ConfigError(
            f"{path} has schema version {version}, this Stoker needs {schema.version}; "
            "run `stoker db migrate`"
        )


def apply_migrations(
    connection: apsw.Connection, path: Path, schema: Schema, *, busy: timedelta
) -> list[str]:
    """Take the steps still to take; return them, none when the file is current.

    Raises UncertainError, with the connection closed, when the disk fails under a step.
    """
    # Before anything is written: a newer file, or a stranger's, stays as it is.
    pending = schema.list_pending(read_schema_version(connection, path), where=str(path))
    enable_wal(connection, path, busy=busy)
    taken = []
    # A current file takes no lock, so that reading never waits for another process's write.
    for step in schema.sqlite[-len(pending) :] if pending else ():
        with wrap_sqlite_errors(path), wrap_disk_errors(connection, path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Read again under the lock: another program may have been faster, or be newer.
                version = read_schema_version(connection, path)
                if step in list_pending(schema.sqlite, version=version, where=str(path)):
                    connection.execute(step.script)
                    connection.execute(SET_VERSION, {"version": str(step.number)})
                    taken.append(str(step))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    return taken


MIN_FREE_BYTES = 64 * 1024 * 1024  # bytes; below this a night's work may not fit


def check_durability(connection: apsw.Connection) -> list[Check]:
    """Say whether what this connection commits survives a power cut."""
    journal, level = connection.pragma("journal_mode"), connection.pragma("synchronous")
    return [
        Check(what="journal mode", ok=journal == "wal", detail=f"{journal} (wal is needed)"),
        Check(
            what="synchronous",
            ok=level == SYNCHRONOUS_FULL,
            detail=f"{level} ({SYNCHRONOUS_FULL}, full, is needed)",
        ),
    ]


def check_file(path: Path, schema: Schema, *, busy: timedelta) -> list[Check]:
    """Look at the file: its schema, its pages, the room around it."""
    try:
        connection = open_reader(path, busy=busy)
        try:
            return [
                _check_schema(connection, path, known=schema.version),
                _check_pages(connection, path),
                *_check_free_space(path),
            ]
        finally:
            connection.close()
    except StokerError as error:
        return [Check(what="database file", ok=False, detail=str(error)), *_check_free_space(path)]


def _check_schema(connection: apsw.Connection, path: Path, *, known: int) -> Check:
    version = read_schema_version(connection, path)
    if version < known:
        detail = f"{version}; this Stoker needs {known}: run `stoker db migrate`"
    elif version > known:
        detail = f"{version}; newer than this Stoker knows ({known}): upgrade Stoker"
    else:
        detail = f"{version}, current"
    return Check(what="schema version", ok=version == known, detail=detail)


def _check_pages(connection: apsw.Connection, path: Path) -> Check:
    with wrap_sqlite_errors(path):
        answer = "; ".join(str(line) for (line,) in connection.execute("PRAGMA quick_check(1)"))
    detail = "sound" if answer == "ok" else f"{answer}; restore {path} from a backup"
    return Check(what="database file", ok=answer == "ok", detail=detail)


def _check_free_space(path: Path) -> list[Check]:
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return []  # the directory is missing, which the file's own check reports
    detail = f"{free // 2**20} MiB free"
    if free < MIN_FREE_BYTES:
        detail += "; free some, below 64 MiB a run may not fit"
    return [Check(what="disk room", ok=free >= MIN_FREE_BYTES, detail=detail)]
