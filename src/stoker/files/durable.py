"""Change files so that a crash, a full disk or a power cut leaves the old or the new, whole.

A file is replaced by writing a new one beside it, and grows at its end; either is on the disk
before we return. Operating system errors become ours here. Needs a POSIX file system.

`open_output` writes every file that a user names. The file beside it is created exclusively under
a name that cannot be guessed, so that no link planted there is followed.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError, StokerError, TransientError, UncertainError

STDOUT = Path("-")  # as people write it where a file is wanted

TMP = ".tmp"  # how the name of everything unfinished ends; the holder of the lock may remove it
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_ALREADY_THERE = "{} is already there; --force replaces it"
_FULL_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PERMISSION_ERRORS = {errno.EROFS, errno.EACCES, errno.EPERM}
_KIND_ERRORS = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG}
_MAX_LINKS = 40  # that lead from one to the next
_MAX_DIGITS = 9  # of an open file's number, which the system takes as a C int
_BUSY_ERRORS = {errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR}


class Disk:
    """Durable changes to files. One for all folders on the same disk.

    When the disk fails under a write, the operating system may already have dropped what it was
    given, and asking again would be answered with a yes that means nothing. So after the first
    such failure nothing more is written until the process is restarted.
    """

    def __init__(self) -> None:
        self._failure = ""

    @contextmanager
    def guard_changes(self, path: Path) -> Iterator[None]:
        """Turn operating system errors into ours; refuse to begin on a disk that has failed."""
        if self._failure:
            raise UncertainError(f"{self._failure}; nothing more is written until a restart")
        try:
            yield
        except OSError as error:
            meant = translate_os_error(error, path)
            if isinstance(meant, UncertainError):
                self._failure = str(meant)
            raise meant from error

    def make_folder(self, path: Path) -> None:
        """Make sure that the folder and those above it are there, also after a power cut.

        A new one is its owner's alone.
        """
        if path.is_dir():
            return
        self.make_folder(path.parent)
        with self.guard_changes(path), _sync_folder(path.parent):
            path.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)

    def replace(self, path: Path, data: bytes) -> None:
        """Give the file this content; it always has the old or the new, whole.

        It keeps its permissions; a new one is its owner's alone. The caller holds the lock of the
        folder. UncertainError only when the disk itself failed.
        """
        with self.guard_changes(path), _write_beside(path, mode=_PRIVATE_FILE) as stream:
            stream.write(data)

    def append(self, path: Path, data: bytes, *, end: int) -> None:
        """Add data at the file's end, which is at `end`; create the file when there is none.

        When the disk turns out to be full the file is as before. After a crash it may hold part
        of the data, so the data must be such that its reader can tell.
        """
        synced = nullcontext() if path.exists() else _sync_folder(path.parent)
        with self.guard_changes(path), synced:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            file = os.open(path, flags, _PRIVATE_FILE)
            try:
                try:
                    _write_all(file, data)
                    os.fsync(file)
                except OSError as error:
                    if error.errno in _FULL_ERRORS:
                        os.ftruncate(file, end)
                    raise
            finally:
                os.close(file)

    def truncate(self, path: Path, *, end: int) -> None:
        """Let the file end here."""
        with self.guard_changes(path), path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())

    def move(self, path: Path, to: Path) -> None:
        """Give a file or folder another name in the same folder."""
        with self.guard_changes(path), _sync_folder(path.parent):
            path.rename(to)

    def remove(self, folder: Path, names: Iterable[str]) -> None:
        """Let files and whole folders in a folder go, those that are there.

        Each is gone at once for every reader; none comes back after a power cut.
        """
        there = [folder / name for name in names if (folder / name).exists()]
        if not there:
            return
        with self.guard_changes(folder), _sync_folder(folder):
            for path in there:
                if path.is_dir():
                    _remove_folder(path)
                else:
                    path.unlink(missing_ok=True)


@contextmanager
def open_output(
    path: Path, *, replace: bool = True, make_folder: bool = False, private: bool = False
) -> Iterator[BinaryIO]:
    """Lend a stream; when the block ends well, its bytes are where a user wanted them.

    A regular file, or a new one, has them whole and durably or not at all. It keeps its
    permissions, and without `replace` nothing is written over; a `private` one becomes its owner's
    alone. A symbolic link stays, and the file it leads to is written. A pipe or a device that is
    no disk is written into, and `-` is stdout. Raises ConfigError when nothing can be written
    there, TransientError when the disk is full.
    """
    if path == STDOUT:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if (file := _open_stream(path)) is not None:
            with os.fdopen(file, "wb") as stream:
                yield stream
            return
        if path.exists() and not replace:
            raise ConfigError(_ALREADY_THERE.format(path))
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        mode = _PRIVATE_FILE if private else 0o666
        with _write_beside(path, mode=mode, keeps_mode=not private, is_new=not replace) as stream:
            yield stream
    except BrokenPipeError:
        raise  # the reader of a pipe has enough, which is no error
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.lexists(path):
            raise ConfigError(_ALREADY_THERE.format(path)) from error
        if error.errno in _FULL_ERRORS:
            raise translate_os_error(error, path) from error
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def _open_stream(path: Path) -> int | None:
    """Open what is written into; None for a regular file, or one that is not there yet."""
    if (own := _find_descriptor(path)) is not None:
        return os.dup(own)  # opened again, a file would be written over from its beginning
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(kind):
        return None
    if stat.S_ISFIFO(kind):
        try:
            file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            raise TransientError(
                f"no process reads the pipe {path}; start its reader, then run this again"
            ) from error
        os.set_blocking(file, True)
        return file
    if stat.S_ISCHR(kind):
        return os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    what = "a folder" if stat.S_ISDIR(kind) else "neither a file nor a pipe"
    raise ConfigError(f"{path} is {what}; name a file")


def _find_descriptor(path: Path) -> int | None:
    """Return the number of the open file that a path such as /dev/stdout or /dev/fd/3 names."""
    for _ in range(_MAX_LINKS):
        name = path.name
        is_number = name.isascii() and name.isdecimal() and len(name) <= _MAX_DIGITS
        if is_number and os.path.realpath(path.parent) == f"/proc/{os.getpid()}/fd":
            return int(name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


@contextmanager
def _write_beside(
    path: Path, *, mode: int, keeps_mode: bool = True, is_new: bool = False
) -> Iterator[BinaryIO]:
    """Lend a new file beside `path`; it takes its place durably when the block ends well.

    It gets the permissions of the file it replaces, unless `mode` is to hold; `is_new` raises
    FileExistsError when there is one.
    """
    target = Path(os.path.realpath(path))
    there = target.stat() if target.exists() else None
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise ConfigError(f"{path} is not a regular file; name one, or a new one")
    kept = there if keeps_mode else None
    beside = target.with_name(f".{target.name[:50]}.{secrets.randbelow(10**15)}{TMP}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with _sync_folder(target.parent):
        file = os.open(beside, flags, mode if kept is None else _PRIVATE_FILE)
        try:
            with os.fdopen(file, "wb") as stream:
                if kept is not None:
                    with suppress(PermissionError):  # only root gives files away
                        os.fchown(file, kept.st_uid, kept.st_gid)
                    os.fchmod(file, stat.S_IMODE(kept.st_mode) & 0o777)
                yield stream
                stream.flush()
                os.fsync(file)
            if is_new:
                target.hardlink_to(beside)  # unlike a rename it fails when another was faster
            else:
                beside.replace(target)
        finally:
            _remove_quietly(beside)


@asynccontextmanager
async def open_output_in_thread(path: Path) -> AsyncIterator[BinaryIO]:
    """Replace a file as `open_output` does; nothing of it holds the event loop up."""
    creation = open_output(path, make_folder=True)
    stream = await asyncio.to_thread(creation.__enter__)
    try:
        yield stream
    except BaseException as error:
        await asyncio.to_thread(creation.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(creation.__exit__, None, None, None)


class FileLock:
    """The right to write below one folder: one thread of one process at a time, readers never.

    The operating system ends it with the process, so a crash leaves nothing to clear up.
    """

    def __init__(self, path: Path, *, patience: timedelta) -> None:
        self._path = path
        self._timeout = patience
        self._thread_lock = threading.Lock()  # threads of this process wait in line, not in a poll

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Wait for our turn and hold it; TransientError when another writer keeps it too long."""
        deadline = time.monotonic() + self._timeout.total_seconds()
        if not self._thread_lock.acquire(timeout=self._timeout.total_seconds()):
            raise self._build_timeout_error()
        try:
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                file = os.open(self._path, flags, _PRIVATE_FILE)
            except OSError as error:
                raise translate_os_error(error, self._path) from error
            try:
                while not _try_lock(file):
                    if time.monotonic() >= deadline:
                        raise self._build_timeout_error()
                    time.sleep(0.005)
                yield
            finally:
                os.close(file)  # which also gives the lock back
        finally:
            self._thread_lock.release()

    def _build_timeout_error(self) -> TransientError:
        return TransientError(
            f"another process is writing in {self._path.parent} and did not finish within "
            f"{self._timeout.total_seconds():g} s; nothing was written, try again later"
        )


def translate_os_error(error: OSError, path: Path) -> StokerError:
    """Return what an operating system's error asks the caller to do next."""
    why = error.strerror or str(error)
    if error.errno in _FULL_ERRORS:
        return TransientError(
            f"the disk is full: {path} keeps its old content, nothing was written; "
            "free some room and run again"
        )
    if error.errno in _PERMISSION_ERRORS:
        return ConfigError(
            f"{path} cannot be used ({why}); make its folder writable or choose another one"
        )
    if error.errno in _KIND_ERRORS:
        return ConfigError(f"{path} cannot be used ({why}); name another path")
    if error.errno in _BUSY_ERRORS:
        return TransientError(f"{path} could not be opened ({why}); nothing was written, try later")
    return UncertainError(f"the disk failed at {path} ({why}); check the disk, then start again")


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


@contextmanager
def _sync_folder(path: Path) -> Iterator[None]:
    """Make what is done to the names in a folder outlast a power cut; a rename alone does not."""
    # Opened first: once the names have changed, there is no saying that nothing was done.
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield
        try:
            os.fsync(folder)
        except OSError as error:
            raise OSError(errno.EIO, error.strerror) from error
    finally:
        os.close(folder)


def _remove_folder(path: Path) -> None:
    # Out of sight first, or a reader would find it with half of its files.
    unseen = path if path.name.endswith(TMP) else path.with_name(f".{path.name}{TMP}")
    if unseen != path:
        path.rename(unseen)
    shutil.rmtree(unseen)


def _remove_quietly(path: Path) -> None:
    # A leftover is removed at the next start; the error that brought us here matters more.
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
