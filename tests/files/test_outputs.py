"""Files that a user names: regular ones are replaced whole, anything else is written into."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.base.errors import ConfigError, TransientError
from stoker.files.durable import open_output

OLD, NEW = b"old" * 1000, b"new" * 3000


def write(path, data=NEW, **how):
    with open_output(path, **how) as stream:
        stream.write(data)


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(OLD)
    path.chmod(0o640)
    with open_output(path) as stream:
        stream.write(NEW)
        stream.flush()
        assert path.read_bytes() == OLD

    assert (path.read_bytes(), permissions(path)) == (NEW, 0o640)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("private", "mode"), [(False, 0o644), (True, 0o600)])
def test_a_new_file_is_as_open_as_the_user_wants_and_a_private_one_is_not(tmp_path, private, mode):
    before = os.umask(0o022)
    try:
        write(tmp_path / "x", private=private)
    finally:
        os.umask(before)
    assert permissions(tmp_path / "x") == mode


def test_a_private_file_that_was_open_to_others_is_closed(tmp_path):
    (tmp_path / "x").touch(mode=0o666)
    write(tmp_path / "x", private=True)
    assert permissions(tmp_path / "x") == 0o600


def test_a_block_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(OLD)

    def fail():
        with open_output(path) as stream:
            stream.write(NEW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_stays_and_what_it_leads_to_is_written(tmp_path, there):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "x", tmp_path / "link"
    if there:
        target.write_bytes(OLD)
    link.symlink_to(Path("real") / "x")
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == NEW
    assert list(target.parent.iterdir()) == [target]
    if there:
        with pytest.raises(ConfigError, match="already there"):
            write(link, replace=False)


def test_links_that_lead_in_a_circle_are_one_line(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigError, match="cannot be written: Too many levels"):
        write(tmp_path / "a")


def test_a_link_planted_where_the_new_file_was_expected_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(OLD)
    for name in (".x.tmp", f".x.{os.getpid()}.tmp"):  # as they once were
        (tmp_path / name).symlink_to(victim)
    write(tmp_path / "x")
    assert victim.read_bytes() == OLD
    assert not (tmp_path / "x").is_symlink()


def test_two_files_written_at_once_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "x"
    with open_output(path) as one:
        one.write(b"one")
        with open_output(path) as other:
            other.write(b"other")
        assert path.read_bytes() == b"other"
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_of_two_that_make_a_new_file_the_later_is_refused(tmp_path):
    path = tmp_path / "x"

    def come_second():
        with open_output(path, replace=False) as stream:
            stream.write(NEW)
            path.write_bytes(OLD)

    with pytest.raises(ConfigError, match="--force replaces it"):
        come_second()
    assert path.read_bytes() == OLD


@pytest.mark.parametrize("replace", [True, False])
def test_a_pipe_is_written_into(tmp_path, replace):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write(path, replace=replace)
        assert reader.read() == NEW
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_reader_of_a_pipe_that_has_enough_is_no_error_of_the_file(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def write_until_closed():
        with open_output(path) as stream:
            os.close(reader)
            stream.write(NEW)

    with pytest.raises(BrokenPipeError):
        write_until_closed()


def test_a_pipe_without_a_reader_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransientError, match="no process reads the pipe"):
        write(tmp_path / "pipe")


def test_a_device_is_written_into_and_stays_one(tmp_path):
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.open("wb").close()
    except PermissionError:
        pytest.skip("only root makes devices")
    link = tmp_path / "link"
    link.symlink_to(path)
    for each in (path, link):
        write(each, replace=False)
    assert stat.S_ISCHR(path.lstat().st_mode)
    assert link.is_symlink()


def test_a_full_device_is_called_full():
    with pytest.raises(TransientError, match="the disk is full"):
        write(Path("/dev/full"))


def test_a_folder_and_a_socket_are_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name in ("socket", "."):
            with pytest.raises(ConfigError, match="name a file"):
                write(tmp_path / name)
    assert stat.S_ISSOCK((tmp_path / "socket").stat().st_mode)


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_is_written_into_where_it_stands(tmp_path, name):
    script = (
        "import sys; from pathlib import Path; from stoker.files.durable import open_output\n"
        "print('before')\nwith open_output(Path(sys.argv[1])) as stream: stream.write(b'data\\n')\n"
        "print('after')"
    )
    path = tmp_path / "x"
    with path.open("wb") as file:
        subprocess.run([sys.executable, "-uc", script, name], stdout=file, check=True)
    assert path.read_bytes() == b"before\ndata\nafter\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/x", "No such file"),
        ("file/x", "Not a directory"),
        ("x" * 5000, "File name too long"),
        ("/dev/fd/999999999", "Bad file descriptor"),
        ("/dev/fd/9999999999", "No such file"),
        ("/dev/fd/99999999999999999999", "No such file"),
    ],
)
def test_a_path_where_nothing_can_be_is_one_line(tmp_path, name, reason):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"cannot be written: {reason}"):
        write(tmp_path / name)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_longest_name_there_can_be_is_written(tmp_path):
    name = "é" * 127
    write(tmp_path / name)
    assert (tmp_path / name).read_bytes() == NEW
