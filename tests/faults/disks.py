"""Disks that lose power, fill up or refuse writes: real file systems on loop devices and in memory.

Mounting needs root, so each disk can say why it is not to be had here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 100  # tenths of a second
_SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN
_NO_LOG_FLUSH = 2  # as if the cable was pulled: nothing more reaches the disk
_SIZE = {"ext4": 48 << 20, "xfs": 320 << 20}  # about the least each kind can be made with
_FORMAT = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
}


class LoopDisk:
    """A file system in an image file, whose power can be cut."""

    def __init__(self, room: Path, *, kind: str = "ext4") -> None:
        self._image, self.path = room / f"{kind}.img", room / f"{kind}.disk"
        self.kind = kind

    def __enter__(self) -> LoopDisk:
        self.path.mkdir(exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(_SIZE[self.kind])
        _run(*_FORMAT[self.kind], str(self._image))
        self._mount()
        return self

    def __exit__(self, *problem: object) -> None:
        _unmount(self.path)
        self._image.unlink()

    def cut_power(self) -> None:
        """Let every write from now on fail, and forget what had not reached the disk."""
        mounted = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(mounted, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(mounted)

    def restore_power(self) -> None:
        """Mount again, which replays the journal. Nobody may hold a file of it open any more."""
        # Never lazily: the image would be mounted twice, and damage itself.
        _unmount(self.path, lazily=False)
        self._mount()

    def _mount(self) -> None:
        # Without the journal's timer, only what asks for it reaches the disk before a cut.
        options = {"ext4": "loop,commit=600"}.get(self.kind, "loop")
        _run("mount", "-o", options, "-t", self.kind, str(self._image), str(self.path))


@contextmanager
def memory_disk(path: Path, *, size: str) -> Iterator[Path]:
    """A disk of this size (`600k`), to be filled."""
    path.mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "stoker-faults", str(path))
    try:
        yield path
    finally:
        _unmount(path)


def make_read_only(path: Path) -> None:
    """Let nobody write to this mounted disk any more."""
    _run("mount", "-o", "remount,ro", str(path))


def why_no_disk(*, kind: str = "ext4") -> str | None:
    """Return what is missing to mount such a disk and cut its power, or None."""
    if os.geteuid() != 0:
        return "mounting a disk whose power can be cut needs root"
    for program in (_FORMAT[kind][0], "mount", "umount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    with tempfile.TemporaryDirectory() as room:
        try:
            with LoopDisk(Path(room), kind=kind) as disk:
                disk.cut_power()
        except (OSError, subprocess.CalledProcessError) as error:
            return f"this machine does not let us mount a {kind} image: {error}"
    return None


def why_no_memory_disk() -> str | None:
    """Return what is missing to mount a disk in memory, or None."""
    if os.geteuid() != 0:
        return "mounting a small disk needs root"
    with tempfile.TemporaryDirectory() as room:
        try:
            with memory_disk(Path(room) / "disk", size="64k"):
                return None
        except (OSError, subprocess.CalledProcessError) as error:
            return f"this machine does not let us mount a tmpfs: {error}"


def _unmount(path: Path, *, lazily: bool = True) -> None:
    # Somebody may still have a file open: a process that is being killed, or is just forking.
    for _ in range(_PATIENCE):
        if subprocess.run(["umount", str(path)], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    # A test that failed must not leave a mount behind.
    _run("umount", *(["--lazy"] if lazily else []), str(path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
