"""What upkeep tells a tenant. What it does over weeks is in `journeys`."""

import asyncio

from stoker import wiring
from stoker.core.model import TenantId
from stoker.core.runs import RunState
from stoker.engine.upkeep import CHECKED_FOR
from stoker.testing import FakeClock, Recorder

ACME, UMBRELLA = TenantId("acme"), TenantId("umbrella")


def test_what_is_wrong_with_one_tenants_files_is_not_told_to_another(tmp_path):
    (tmp_path / "stoker.toml").write_text(
        '[storage]\nbackend = "json"\n[tenants.acme]\n[tenants.umbrella]\n'
    )
    settings = wiring.settings(directory=tmp_path, config=None, flags={}, environment={})

    async def scenario():
        clock = FakeClock()
        async with wiring.opened(settings, clock=clock, observer=Recorder()) as app:
            scheduler = app.scheduler((ACME, UMBRELLA))
            theirs = await scheduler.start_now(app.task(UMBRELLA))
            damaged = tmp_path / "stoker-data" / UMBRELLA / "runs" / theirs.name / "run.json"
            damaged.write_text("{")
            clock.advance(CHECKED_FOR)
            return await scheduler.start_now(app.task(ACME))

    run = asyncio.run(scenario())

    assert run.state is RunState.FAILED
    assert "stoker doctor" in run.reason
    assert UMBRELLA not in run.reason
