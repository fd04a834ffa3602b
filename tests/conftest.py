"""What belongs to a whole test session, in however many processes it runs.

One Postgres server, started by the first test that needs it and gone at the end; and the counts
of every fault injected, told at the end.
"""

import asyncio
import inspect
import os
import random
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import pg
from stoker.app import CLOCK_AHEAD

# Every session starts at this moment, whatever the machine's clock shows: it is far from midnight
# in the time zones that tests use, so that no night runs into the tenant's next day.
SESSION_STARTS_AT = datetime(2026, 11, 18, 6, tzinfo=UTC)

# `make test` draws the same examples every time, so that a failure means the change is wrong.
# `python -m proof properties` searches with new seeds: --hypothesis-profile=search.
settings.register_profile(
    "gate",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine breaks no property
)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("gate")


def pytest_configure(config: pytest.Config) -> None:
    """Choose a place for the session's server, and its time; other processes inherit both."""
    if not hasattr(config, "workerinput"):
        os.environ[pg.HOME] = str(pg.new_home())
        os.environ[CLOCK_AHEAD] = str((SESSION_STARTS_AT - datetime.now(UTC)).total_seconds())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server, whichever process started it."""
    if not hasattr(config, "workerinput"):
        pg.Server(Path(os.environ[pg.HOME])).remove()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed `random` with the test's name, unless a search chose a seed of its own."""
    if not item.config.pluginmanager.hasplugin("randomly"):
        random.seed(item.nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let hypothesis run each example of a coroutine test in an event loop of its own."""
    for item in items:
        given = getattr(getattr(item, "obj", None), "hypothesis", None)
        if given and inspect.iscoroutinefunction(given.inner_test):
            given.inner_test = _in_own_loop(given.inner_test)


def _in_own_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    return lambda *args, **kwargs: asyncio.run(test(*args, **kwargs))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test, in the event loop of the fixtures it uses."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if runner := pyfuncitem.funcargs.get("runner"):
        runner.run(test)
    else:
        asyncio.run(test)
    return True


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The test's event loop, for fixtures that open something in it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A random generator that is the same for one test every time."""
    return random.Random(request.node.nodeid)


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
