"""What is told at the end of a test session, whichever process the tests ran in."""

from __future__ import annotations

import pytest


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
