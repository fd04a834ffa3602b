"""A clock that went back is reported by every command that runs something."""

import asyncio
from datetime import UTC, datetime

import pytest

from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.cli.main import main
from stoker.ledger.chain import NewEntry

RUNNING = (["heat", "sweep"], ["pulls", "plan"], ["pulls", "run"], ["nightly"], ["discover"],
           ["db", "maintain"])  # fmt: skip


@pytest.fixture
def stoker(tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text(
        'sandbox.address = "127.0.0.1:9"\nstorage.sqlite_path = "stoker.db"\n'
        '[tenants.acme]\ndiscovery.sources = ["lever:nowhere"]\n'
    )
    assert main(["-C", str(tmp_path), "icp", "set", "--industry", "any"]) == 0

    def run(*words):
        capsys.readouterr()
        code = main(["-C", str(tmp_path), *words])
        return code, capsys.readouterr().err

    return run


async def record_far_ahead(path):
    backend = SqliteBackend(path)
    note = NewEntry(at=datetime(2999, 1, 1, tzinfo=UTC), kind="X", subject="x", reason="")
    await backend.tenant(TenantId("acme")).ledger.append([note])
    await backend.close()


@pytest.mark.parametrize("words", RUNNING, ids=" ".join)
def test_a_clock_that_went_back_is_reported(stoker, tmp_path, words):
    assert "ClockBehind" not in stoker(*words)[1]
    asyncio.run(record_far_ahead(tmp_path / "stoker.db"))
    err = stoker(*words)[1]
    assert "ClockBehind" in err
    assert "2999-01-01" in err
    assert stoker("schedule", "accept-clock")[0] == 0
    assert "ClockBehind" not in stoker(*words)[1]
