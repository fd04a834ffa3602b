import errno
import os
import stat
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from stoker.base.errors import ConfigError, TransientError, UncertainError
from stoker.files.durable import Disk, FileLock, translate_os_error

OLD, NEW = b"old" * 1000, b"new" * 3000

# Run in a process of its own, because the limit holds for all of a process's files. A file that
# may not grow fails like a full disk, needs no privileges and stops half-way through the data.
ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from stoker.base.errors import TransientError
from stoker.files.durable import Disk

def naive_replace(path, data):
    with open(path, "wb") as file:
        file.write(data)

path, what = Path(sys.argv[1]), sys.argv[2]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
data = b"new" * 3000
try:
    if what == "replace":
        Disk().replace(path, data)
    elif what == "replace twice":
        disk = Disk()
        try:
            disk.replace(path, data)
        except TransientError:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            disk.replace(path, data)
    elif what == "append":
        Disk().append(path, data, end=3000)
    else:
        naive_replace(path, data)
except (TransientError, OSError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def on_a_full_disk(path, what):
    command = [sys.executable, "-c", ON_A_FULL_DISK, str(path), what]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(OLD)
    return path


def test_a_replaced_file_has_the_new_content_and_leaves_nothing_beside_it(path):
    Disk().replace(path, NEW)

    assert path.read_bytes() == NEW
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.faults
@pytest.mark.parametrize("what", ["replace", "append"])
def test_on_a_full_disk_the_old_content_stays_whole_and_the_error_says_what_to_do(path, what):
    said = on_a_full_disk(path, what)

    assert said.startswith("TransientError: the disk is full")
    assert "nothing was written" in said
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.faults
def test_the_same_full_disk_catches_a_file_that_is_simply_written_over(path):
    on_a_full_disk(path, "naive")

    assert path.read_bytes() not in (OLD, NEW)


@pytest.mark.faults
def test_after_the_disk_failed_under_a_write_nothing_more_is_written(path):
    # A device that takes data but cannot make it durable: its fsync really fails.
    device = path.with_name("lines")
    device.symlink_to("/dev/null")
    disk = Disk()

    with pytest.raises(UncertainError, match="the disk failed"):
        disk.append(device, NEW, end=0)
    with pytest.raises(UncertainError, match="until a restart"):
        disk.replace(path, NEW)

    assert path.read_bytes() == OLD
    Disk().replace(path, NEW)  # a new process may try
    assert path.read_bytes() == NEW


@pytest.mark.faults
def test_a_disk_that_is_full_may_be_written_to_again_later(path):
    assert on_a_full_disk(path, "replace twice") == ""

    assert path.read_bytes() == NEW


def test_what_is_new_is_its_owners_alone_and_what_is_there_keeps_its_permissions(tmp_path):
    disk, folder = Disk(), tmp_path / "store"
    disk.make_folder(folder / "acme")
    disk.replace(folder / "new", NEW)
    disk.append(folder / "lines", NEW, end=0)
    with FileLock(folder / ".lock", patience=timedelta(0)).acquire():
        pass
    (folder / "old").touch(mode=0o640)
    disk.replace(folder / "old", NEW)

    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "acme": 0o700,
        "new": 0o600,
        "lines": 0o600,
        ".lock": 0o600,
        "old": 0o640,
    }


def test_a_pipe_is_not_replaced_by_a_file_of_the_store(path):
    pipe, link = path.with_name("pipe"), path.with_name("link")
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for each in (pipe, link):
        with pytest.raises(ConfigError, match="not a regular file"):
            Disk().replace(each, NEW)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert link.is_symlink()


def test_a_file_grows_at_its_end_and_is_made_when_there_is_none(tmp_path):
    path = tmp_path / "lines.jsonl"
    disk = Disk()

    disk.append(path, b"one\n", end=0)
    disk.append(path, b"two\n", end=4)

    assert path.read_bytes() == b"one\ntwo\n"


def test_folders_are_made_all_the_way_down_and_twice_is_once(tmp_path):
    Disk().make_folder(tmp_path / "a" / "b" / "c")
    Disk().make_folder(tmp_path / "a" / "b" / "c")

    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_removing_takes_files_and_folders_and_passes_over_what_is_not_there(tmp_path):
    (tmp_path / "folder" / "deeper").mkdir(parents=True)
    (tmp_path / ".half.tmp").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "stays").touch()

    Disk().remove(tmp_path, ["folder", "file", "nothing", ".half.tmp"])
    Disk().remove(tmp_path / "nowhere", ["nothing"])

    assert list(tmp_path.iterdir()) == [tmp_path / "stays"]


def test_where_a_folder_is_wanted_a_file_is_refused_in_one_line(path):
    with pytest.raises(ConfigError, match=r"state\.json cannot be used .*name another path"):
        Disk().make_folder(path / "acme")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, TransientError),
        (errno.EDQUOT, TransientError),
        (errno.EFBIG, TransientError),
        (errno.EMFILE, TransientError),
        (errno.ENOENT, TransientError),
        (errno.EROFS, ConfigError),
        (errno.EACCES, ConfigError),
        (errno.EPERM, ConfigError),
        (errno.ENOTDIR, ConfigError),
        (errno.EISDIR, ConfigError),
        (errno.EIO, UncertainError),
        (errno.ENXIO, UncertainError),
    ],
)
def test_each_failure_asks_for_one_thing_to_be_done_next_and_names_the_file(number, kind):
    error = translate_os_error(OSError(number, "why"), Path("folder/file"))

    assert type(error) is kind
    assert "folder/file" in str(error)
    assert "\n" not in str(error)


def test_of_threads_that_want_to_write_one_does_at_a_time(tmp_path):
    writing, seen = [], []

    def write():
        # A Turn each, as two stores opened on one folder would have.
        with FileLock(tmp_path / ".lock", patience=timedelta(seconds=30)).acquire():
            writing.append(1)
            seen.append(len(writing))
            writing.pop()

    threads = [threading.Thread(target=write) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [1] * 20


@pytest.mark.parametrize("same", [True, False])
def test_a_writer_that_waits_too_long_is_told_to_try_later(tmp_path, same):
    holder = FileLock(tmp_path / ".lock", patience=timedelta(0))
    other = holder if same else FileLock(tmp_path / ".lock", patience=timedelta(0))

    with holder.acquire(), pytest.raises(TransientError, match="try again later"), other.acquire():
        pass

    with other.acquire():
        pass


@pytest.mark.faults
def test_a_writer_that_was_killed_holds_nobody_up(tmp_path):
    hold = """
import sys
from datetime import timedelta
from pathlib import Path
from stoker.files.durable import FileLock
with FileLock(Path(sys.argv[1]), patience=timedelta(0)).acquire():
    print("mine", flush=True)
    sys.stdin.read()
"""
    lock = tmp_path / ".lock"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", hold, str(lock)], **pipes) as holder:
        assert holder.stdout.readline() == b"mine\n"
        with pytest.raises(TransientError), FileLock(lock, patience=timedelta(0)).acquire():
            pass
        holder.kill()

    with FileLock(lock, patience=timedelta(0)).acquire():
        pass
