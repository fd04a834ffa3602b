"""Runs every contract on the backends that implement it, fresh and empty."""

import pytest

from contracts.backends import ACME, BACKENDS


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request, tmp_path, runner):
    """Each database in turn, open in the test's own event loop."""
    opening = BACKENDS[request.param](tmp_path)
    yield runner.run(opening.__aenter__())
    runner.run(opening.__aexit__(None, None, None))


@pytest.fixture
def store(backend):
    """One tenant's stores."""
    return backend.tenant(ACME)
