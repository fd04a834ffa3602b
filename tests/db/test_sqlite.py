"""What is special about SQLite: one file, shared commits, and what a bad file or disk is told."""

import asyncio
import os
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from faults.disks import make_read_only, memory_disk, why_no_memory_disk
from stoker.backends.schema import SCHEMA
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConfigError, ConflictError, TransientError
from stoker.base.types import TenantId
from stoker.db.sqlite_file import refuse_old_sqlite
from stoker.ledger.chain import NewEntry, find_first_break
from stoker.runs.model import Run, RunKey

ACME = TenantId("acme")
AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
NOTE = NewEntry(at=AT, kind="NOTE", subject="x", reason="")
NO_TIME = timedelta(milliseconds=20)


@asynccontextmanager
async def opened(path, *, migrate=True, busy=timedelta(seconds=30)):
    backend = SqliteBackend(path, busy=busy)
    try:
        if migrate:
            await backend.migrate()
        yield backend
    finally:
        await backend.close()


async def noted(path, count=1):
    """Leave a file with this many ledger entries behind."""
    async with opened(path) as backend:
        await backend.tenant(ACME).ledger.append([NOTE] * count)


async def entries(path):
    async with opened(path, migrate=False) as backend:
        return await backend.tenant(ACME).ledger.list_entries()


async def sentence(kind, verb, *, naming):
    with pytest.raises(kind) as caught:
        await verb
    said = str(caught.value)
    assert "\n" not in said
    assert str(naming) in said
    return said


@pytest.fixture
def path(tmp_path):
    return tmp_path / "stoker.db"


# Commits


async def test_a_failure_undoes_its_own_work_and_nobody_elses(path):
    runs = [Run(key=RunKey(AT + timedelta(seconds=n // 2), 1), kind=f"{n}") for n in range(20)]

    async with opened(path) as backend:
        store = backend.tenant(ACME).runs
        answers = await asyncio.gather(
            *(store.insert_run(run) for run in runs), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [type(None), ConflictError] * 10
        assert await store.list_runs() == runs[18::-2]


async def test_an_error_in_the_work_itself_comes_back_to_whoever_asked(path):
    def broken(tx):
        tx.execute("DELETE FROM runs")
        raise ZeroDivisionError

    async with opened(path) as backend:
        store = backend.tenant(ACME)
        await store.runs.insert_run(Run(key=RunKey(AT, 1), kind="kept"))
        with pytest.raises(ZeroDivisionError):
            await backend.write(broken)
        assert len(await store.runs.list_runs()) == 1
        await store.ledger.append([NOTE])


async def test_somebody_who_stops_waiting_stops_nobody_else(path):
    async with opened(path) as backend:
        book = backend.tenant(ACME).ledger
        waiting = [asyncio.ensure_future(book.append([NOTE])) for _ in range(20)]
        await asyncio.sleep(0)
        for one in waiting[::2]:
            one.cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        kept = await book.list_entries()
        assert find_first_break(kept) is None
        assert all(answer[0] in kept for answer in answers[1::2])


async def test_closing_finishes_what_was_asked_and_closing_twice_is_once(path):
    backend = SqliteBackend(path)
    await backend.migrate()
    book = backend.tenant(ACME).ledger
    asked = [asyncio.ensure_future(book.append([NOTE])) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.gather(backend.close(), backend.close())
    await backend.close()
    assert len(await asyncio.gather(*asked)) == 10
    await sentence(ConfigError, book.append([NOTE]), naming=path)
    await sentence(ConfigError, book.list_entries(), naming=path)
    assert not path.with_name("stoker.db-wal").exists()
    assert len(await entries(path)) == 10


async def test_a_backend_says_how_durable_and_sound_it_is(path):
    async with opened(path) as backend:
        checks = {check.what: check for check in await backend.checks()}
    assert all(check.ok for check in checks.values()), checks
    assert checks["journal mode"].detail.startswith("wal")
    assert checks["synchronous"].detail.startswith("2")
    assert {"SQLite version", "schema version", "database file", "disk room"} <= checks.keys()


async def test_the_ledger_in_the_file_is_only_ever_added_to(path):
    await noted(path)
    with apsw.Connection(str(path)) as stranger:
        for attempt in ("UPDATE ledger SET reason = 'other'", "DELETE FROM ledger"):
            with pytest.raises(apsw.ConstraintError, match="append-only"):
                stranger.execute(attempt)
    stranger.close()
    assert len(await entries(path)) == 1


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.0"])
def test_a_sqlite_that_can_damage_files_is_refused(version):
    with pytest.raises(ConfigError, match=version):
        refuse_old_sqlite(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0.0"])
def test_a_sqlite_that_cannot_is_not(version):
    assert refuse_old_sqlite(version) is None


# Two at once


async def test_a_file_locked_for_too_long_is_left_for_later_and_still_read(path):
    await noted(path)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    async with opened(path, migrate=False, busy=NO_TIME) as backend:
        book = backend.tenant(ACME).ledger
        await sentence(TransientError, book.append([NOTE]), naming=path)
        assert len(await book.list_entries()) == 1
        other.execute("ROLLBACK")
        other.close()
        await book.append([NOTE])
        assert len(await book.list_entries()) == 2


OURS = """
import asyncio, sys
from datetime import UTC, datetime
from stoker.ledger.chain import NewEntry
from stoker.backends.sqlite import SqliteBackend

async def main():
    backend = SqliteBackend(sys.argv[1])
    await backend.migrate()
    note = NewEntry(at=datetime(2026, 2, 7, tzinfo=UTC), kind="NOTE", subject="x", reason="")
    for _ in range(int(sys.argv[2])):
        await backend.tenant("acme").ledger.append([note])
    await backend.close()

asyncio.run(main())
"""


def lost_writes(path, *, processes, each):
    """Return how many writes are missing after processes wrote theirs at once."""
    command = [sys.executable, "-c", OURS, str(path), str(each)]
    running = [subprocess.Popen(command) for _ in range(processes)]
    assert [one.wait() for one in running] == [0] * processes
    with apsw.Connection(str(path)) as db:
        [[there]] = db.execute("SELECT count(*) FROM ledger").fetchall()
    db.close()
    return processes * each - there


async def test_many_processes_lose_no_write_to_each_other(path, record_property):
    lost = lost_writes(path, processes=6, each=20)
    record_property("fault", f"B7 SQLite, 6 processes writing at once: n=120 writes, {lost} lost")
    assert lost == 0
    assert find_first_break(await entries(path)) is None


# Files that are something else


@pytest.mark.parametrize("content", [b"not a database at all\n" * 100, b"SQLite format 3\0" * 64])
async def test_a_file_that_is_no_database_is_named_and_left_alone(path, content):
    path.write_bytes(content)

    async with opened(path, migrate=False) as backend:
        for verb in (
            backend.migrate,
            backend.schema_version,
            backend.tenant(ACME).runs.list_runs,
            lambda: backend.tenant(ACME).ledger.append([NOTE]),
        ):
            await sentence(ConfigError, verb(), naming=path)
        assert not all(check.ok for check in await backend.checks())
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == ["stoker.db"]


async def test_another_programs_database_is_left_alone(path):
    with apsw.Connection(str(path)) as stranger:
        stranger.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    stranger.close()
    before = path.read_bytes()

    async with opened(path, migrate=False) as backend:
        for verb in (
            backend.migrate,
            backend.schema_version,
            backend.tenant(ACME).runs.list_runs,
        ):
            await sentence(ConfigError, verb(), naming=path)
    assert path.read_bytes() == before


async def test_a_damaged_file_says_so(path):
    await noted(path, 2000)
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(path.stat().st_size - 4096 * 3))

    async with opened(path, migrate=False) as backend:
        book = backend.tenant(ACME).ledger
        said = await sentence(ConfigError, book.list_entries(limit=5000), naming=path)
        assert "backup" in said
        assert not all(check.ok for check in await backend.checks())


async def test_a_directory_is_not_a_database(tmp_path):
    async with opened(tmp_path, migrate=False) as backend:
        assert await sentence(ConfigError, backend.migrate(), naming=tmp_path)
        assert await sentence(ConfigError, backend.tenant(ACME).runs.list_runs(), naming=tmp_path)


async def test_directories_are_made_when_the_file_is(tmp_path):
    deep = tmp_path / "some" / "where" / "stoker.db"
    await noted(deep)
    assert len(await entries(deep)) == 1


async def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")

    async with opened(tmp_path / "file" / "stoker.db", migrate=False) as backend:
        assert await sentence(ConfigError, backend.migrate(), naming=tmp_path / "file")


async def test_only_migrating_makes_a_file(path):
    async with opened(path, migrate=False) as backend:
        store = backend.tenant(ACME)
        assert await backend.schema_version() == 0
        for verb in (store.runs.list_runs(), store.ledger.append([NOTE])):
            said = await sentence(ConfigError, verb, naming=path)
            assert "stoker db migrate" in said
        assert not all(check.ok for check in await backend.checks())
        assert not path.exists()
        await backend.migrate()
        assert await store.runs.list_runs() == []


# Places that cannot be written to


@pytest.fixture
def room():
    """A directory that any user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def ordinary_user():
    """Be somebody whom permissions stop; root is not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def assert_read_only(path):
    async with opened(path, migrate=False) as backend:
        store = backend.tenant(ACME)
        for _ in range(2):
            assert len(await store.ledger.list_entries()) == 3
            said = await sentence(ConfigError, store.ledger.append([NOTE]), naming=path)
            assert "read-only" in said
        assert await backend.schema_version() == SCHEMA.version
        checks = {check.what: check.ok for check in await backend.checks()}
        assert checks["writing"] is False
        assert checks["database file"] is True


@pytest.mark.parametrize(("file", "directory"), [(0o444, 0o555), (0o444, 0o755), (0o644, 0o555)])
async def test_what_may_only_be_read_is_read(room, file, directory):
    path = room / "stoker.db"
    await noted(path, 3)
    path.chmod(file)
    room.chmod(directory)
    with ordinary_user():
        await assert_read_only(path)
    room.chmod(0o755)
    assert len(await entries(path)) == 3


async def test_a_read_only_disk_is_read(tmp_path):
    if reason := why_no_memory_disk():
        pytest.skip(reason)
    with memory_disk(tmp_path / "disk", size="4m") as disk:
        await noted(disk / "stoker.db", 3)
        make_read_only(disk)
        await assert_read_only(disk / "stoker.db")


async def test_writes_left_in_the_log_of_a_read_only_place_are_not_silently_missed(room):
    path, left = room / "stoker.db", room / "left" / "stoker.db"

    async def scenario():
        async with opened(path) as backend:
            await backend.tenant(ACME).ledger.append([NOTE])
            left.parent.mkdir()
            for name in ("stoker.db", "stoker.db-wal"):  # as a killed program would leave them
                (left.parent / name).write_bytes((room / name).read_bytes())

    await scenario()
    left.parent.chmod(0o555)
    with ordinary_user():

        async def reading():
            async with opened(left, migrate=False) as backend:
                verb = backend.tenant(ACME).ledger.list_entries()
                assert "-wal" in await sentence(ConfigError, verb, naming=left)

        await reading()
    left.parent.chmod(0o755)
    assert len(await entries(left)) == 1


async def test_a_full_disk_loses_nothing_and_says_what_to_do(tmp_path):
    if reason := why_no_memory_disk():
        pytest.skip(reason)

    async def scenario(disk):
        path = disk / "stoker.db"
        async with opened(path) as backend:
            book = backend.tenant(ACME).ledger
            await book.append([NOTE])
            ballast = disk / "ballast"
            free = os.statvfs(disk)
            ballast.write_bytes(bytes(free.f_bavail * free.f_frsize))
            big = [NewEntry(at=AT, kind="NOTE", subject="x", reason="y" * 90_000)] * 3
            for _ in range(3):
                said = await sentence(TransientError, book.append(big), naming=path)
                assert "disk is full" in said
                assert len(await book.list_entries()) == 1
            ballast.unlink()
            await book.append(big)
            kept = await book.list_entries()
            assert len(kept) == 4
            assert find_first_break(kept) is None

    with memory_disk(tmp_path / "disk", size="2m") as disk:
        await scenario(disk)


async def test_running_out_of_open_files_is_left_for_later(path):
    await noted(path)
    script = """
import asyncio, os, resource, sys
from stoker.base.errors import TransientError
from stoker.backends.sqlite import SqliteBackend

async def main():
    backend = SqliteBackend(sys.argv[1])
    ledger = backend.tenant("acme").ledger
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    try:
        await ledger.list_entries()
    except TransientError as error:
        print(error)
    for one in held:
        os.close(one)
    print(len(await ledger.list_entries()))
    await backend.close()

asyncio.run(main())
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said, count = done.stdout.splitlines()
    assert "ulimit -n" in said
    assert count == "1"
