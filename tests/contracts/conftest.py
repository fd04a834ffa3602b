"""How a promise is tried on every backend: as a scenario, given a fresh and empty one."""

import asyncio

import pytest

from contracts.backends import ACME, BACKENDS


@pytest.fixture(params=BACKENDS)
def on_backend(request, tmp_path):
    """Run an async scenario on a backend."""

    def run(scenario):
        async def whole():
            async with BACKENDS[request.param](tmp_path) as backend:
                return await scenario(backend)

        return asyncio.run(whole())

    return run


@pytest.fixture
def on_store(on_backend):
    """Run an async scenario on one tenant's store."""

    def run(scenario):
        async def behind_the_door(backend):
            return await scenario(backend.tenant(ACME))

        return on_backend(behind_the_door)

    return run
