"""Every promise is tried on every backend, fresh and empty."""

import pytest

from contracts.backends import ACME, BACKENDS


@pytest.fixture(params=BACKENDS)
def backend(request, tmp_path, runner):
    """Each backend in turn, open in the test's own event loop."""
    opening = BACKENDS[request.param](tmp_path)
    yield runner.run(opening.__aenter__())
    runner.run(opening.__aexit__(None, None, None))


@pytest.fixture
def store(backend):
    """One tenant's store."""
    return backend.tenant(ACME)
