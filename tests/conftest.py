"""What belongs to a whole test session, in however many processes it runs.

One Postgres server, started by the first test that needs it and gone at the end; and the counts
of every fault injected, told at the end.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

import pg

# What gates a change must say the same of the same change twice: its examples are drawn from the
# tests themselves. Everywhere else new ones are drawn each time, which is how odd values are found.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "search")


def pytest_configure(config: pytest.Config) -> None:
    """Choose a place for the session's server; worker processes inherit it."""
    if not hasattr(config, "workerinput"):
        os.environ[pg.HOME] = str(pg.new_home())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server, whichever process started it."""
    if not hasattr(config, "workerinput"):
        pg.Server(Path(os.environ[pg.HOME])).remove()


@pytest.fixture(scope="session")
def postgres() -> pg.Server:
    """The session's Postgres server. Make a database of your own in it."""
    if reason := pg.why_no_postgres():
        pytest.skip(reason)
    return pg.session_server()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the count of every injected fault: a zero without its n says nothing."""
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.getreports(kind)]
    lines = {
        value
        for each in reports
        if each.when == "call"
        for name, value in each.user_properties
        if name == "fault"
    }
    if lines:
        terminalreporter.section("faults injected")
        for line in sorted(lines):
            terminalreporter.line(line)
