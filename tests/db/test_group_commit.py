"""What happens to those who wait when the disk fails under a commit."""

from datetime import timedelta

import apsw
import pytest

from stoker.backends.schema import SCHEMA
from stoker.base.errors import ConfigError, TransientError, UncertainError
from stoker.db.sqlite_file import apply_migrations, enable_wal
from stoker.db.sqlite_writer import SqliteWriter


class FailingDisk(apsw.VFS):
    """The real disk, until it is told that writes fail, or syncs, or the sync of a number."""

    def __init__(self, name):
        super().__init__(name, "")
        self.failing = None
        self.syncs = 0

    def xOpen(self, name, flags):  # noqa: N802 – SQLite's name for it
        return FailingFile(self, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        super().__init__("", name, flags)
        self._disk = disk

    def xSync(self, flags):  # noqa: N802
        self._disk.syncs += 1
        if self._disk.failing in ("sync", self._disk.syncs):
            raise apsw.IOError("the disk failed")
        super().xSync(flags)

    def xWrite(self, data, offset):  # noqa: N802
        if self._disk.failing == "write":
            raise apsw.FullError("no room")
        super().xWrite(data, offset)


@pytest.fixture
def disk(tmp_path):
    disk = FailingDisk(f"failing-{tmp_path}")
    yield disk
    disk.unregister()


@pytest.fixture
def writer(tmp_path, disk):
    path = tmp_path / "x.db"

    def connect():
        db = apsw.Connection(str(path), vfs=f"failing-{tmp_path}")
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.execute("CREATE TABLE IF NOT EXISTS words (word TEXT) STRICT")
        return db

    writer = SqliteWriter(path, connect)
    yield writer
    disk.failing = None
    writer.close()


def word(text):
    return lambda db: db.execute("INSERT INTO words VALUES (?)", (text,)) and text


def words(db):
    return [text for (text,) in db.execute("SELECT word FROM words")]


def test_nobody_is_told_yes_by_a_commit_whose_sync_failed(writer, disk):
    assert writer.submit(word("before")).result() == "before"
    disk.failing = "sync"
    errors = [promise.exception() for promise in [writer.submit(word("unsure")) for _ in range(5)]]
    # Those in that commit may have been written; those after it were not even tried.
    assert isinstance(errors[0], UncertainError)
    assert all(isinstance(error, UncertainError | ConfigError) for error in errors)


def test_a_failed_sync_is_never_asked_again_not_even_when_closing(writer, disk):
    writer.submit(word("before")).result()
    disk.failing = "sync"
    with pytest.raises(UncertainError):
        writer.submit(word("unsure")).result()
    disk.failing, asked = None, disk.syncs
    for ask in (writer.submit, writer.submit_exclusive):
        with pytest.raises(ConfigError, match="check the disk"):
            ask(word("later")).result()
    writer.close()
    assert disk.syncs == asked


def test_a_full_disk_undoes_the_whole_commit_and_the_next_one_works(writer, disk):
    writer.submit(word("before")).result()
    disk.failing = "write"
    with pytest.raises(TransientError, match="free some room"):
        writer.submit(word("no room")).result()
    disk.failing = None
    writer.submit(word("after")).result()
    assert writer.submit(words).result() == ["before", "after"]


def test_a_connection_that_cannot_be_opened_is_tried_again_for_the_next_caller(tmp_path):
    tries = []

    def connect():
        tries.append(1)
        if len(tries) == 1:
            raise ConfigError("not yet")
        return apsw.Connection(":memory:")

    writer = SqliteWriter(tmp_path / "x.db", connect)
    with pytest.raises(ConfigError, match="not yet"):
        writer.submit(lambda db: 1).result()
    assert writer.submit(lambda db: 1).result() == 1
    writer.close()
    writer.close()
    with pytest.raises(ConfigError, match="closed"):
        writer.submit(lambda db: 1)


def test_a_sync_that_fails_under_a_migration_is_never_asked_again(tmp_path, disk):
    syncs, busy = 0, timedelta(seconds=1)
    for nth in range(1, 1000):
        path = tmp_path / f"{nth}.db"
        disk.failing = None
        db = apsw.Connection(str(path), vfs=f"failing-{tmp_path}")
        # Before the log is on, SQLite undoes by writing the old pages again and syncing those.
        enable_wal(db, path, busy=busy)
        disk.failing, disk.syncs = nth, 0
        try:
            apply_migrations(db, path, SCHEMA, busy=busy)
        except UncertainError:
            syncs += 1
            assert disk.syncs == nth
        else:
            disk.failing = None
            db.close()
            break
    assert syncs >= SCHEMA.version
