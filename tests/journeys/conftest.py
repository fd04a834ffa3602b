"""Opens installations for journeys: settings, a store, the sandbox and a register."""

import pytest

import pg
from night_house import house


@pytest.fixture
def here(tmp_path):
    """Opens an installation in memory."""

    def opening(**how):
        return house(tmp_path, backend="memory", **{"troubles": False, **how})

    return opening


@pytest.fixture(params=["sqlite", "postgres"])
def anywhere(request, tmp_path):
    """Opens an installation on each database."""
    environment = {}
    if request.param == "postgres":
        _, app_url = pg.fresh_database(request.getfixturevalue("postgres"))
        environment["STOKER_STORAGE_POSTGRES_URL"] = app_url

    def opening(more_environment=None, **how):
        variables = {**environment, **(more_environment or {})}
        options = {"troubles": False, "environment": variables, **how}
        return house(tmp_path, backend=request.param, **options)

    return opening
