"""A terminal of a given width, held by the test: what a person would see on it."""

import os
import pty
import sys
import termios
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from unicodedata import east_asian_width

import pytest


class Screen:
    """What was written to the terminal, once it is closed."""

    def __init__(self):
        self.raw = ""

    @property
    def lines(self):
        return self.raw.replace("\r\n", "\n").split("\n")[:-1]

    @property
    def widest(self):
        return max(map(width, self.lines), default=0)


def width(line):
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in line)


@contextmanager
def terminal(columns=80, *, errors=False):
    """Send stdout (or stderr) to a new terminal; what it showed is in the screen afterwards."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    screen, parts = Screen(), []

    def read():
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed, and everything was read
                return
            if not part:
                return
            parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    redirect = redirect_stderr if errors else redirect_stdout
    before = os.environ.pop("COLUMNS", None)  # it counts more than the terminal's own size
    try:
        with os.fdopen(theirs, "w", encoding="utf-8") as stream, redirect(stream):
            yield screen
    finally:
        reader.join()
        os.close(ours)
        if before is not None:
            os.environ["COLUMNS"] = before
        screen.raw = b"".join(parts).decode()


def show(*words, columns=80):
    """Run a command on a terminal; return its exit code and the screen."""
    from stoker.cli.main import main

    with terminal(columns) as screen:
        code = main([*map(str, words)])
        sys.stdout.flush()
    return code, screen


def assert_golden(path, text):
    """Compare a screen with its file; STOKER_GOLDEN=write writes the file instead."""
    if os.environ.get("STOKER_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        pytest.fail(f"{path} is not there; write it with STOKER_GOLDEN=write")
    assert text == path.read_text(encoding="utf-8")
