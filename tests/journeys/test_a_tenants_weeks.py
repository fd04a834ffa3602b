"""A tenant's weeks, end to end: the production wiring on a real store and a clock we turn."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from kit.old_files import make_file
from stoker import app as wiring
from stoker.app import build_scheduler
from stoker.backends.schema import SCHEMA
from stoker.base.events import Migrated
from stoker.calendar.recurrence import compute_next_run
from stoker.ledger.chain import find_first_break
from stoker.maintenance.service import build_maintenance
from stoker.runs.model import RunState
from stoker.scheduling.service import read_audit
from stoker.testing import EventRecorder, FakeClock

TOML = """
[scheduling]
cron = "30 2 * * *"
timezone = "America/New_York"
[retention]
enabled = true
days = 10
keep_latest_n_runs = 5
[storage]
backend = "{backend}"
[tenants.acme]
[tenants.umbrella]
timezone = "Asia/Kathmandu"
"""
START = datetime(2026, 2, 20, tzinfo=UTC)  # three weeks with a clock change in New York


async def weeks(settings, *, days=24, off=range(12, 15)):
    """Live through some days, the machine being off for some of them."""
    clock, heard = FakeClock(START), EventRecorder()
    async with wiring.open_app(settings, clock=clock, observer=heard) as app:
        tenants = settings.list_active_tenants()
        schedules = [settings.get_schedule(tenant) for tenant in tenants]
        scheduler = build_scheduler(app, tenants)
        while clock.now() < START + timedelta(days=days):
            due = min(compute_next_run(clock.now(), schedule) for schedule in schedules)
            clock.advance(due - clock.now())
            if (clock.now() - START).days not in off:
                await scheduler.run_once()
        now = clock.now()
        told = {}
        for tenant in tenants:
            store, work = app.backend.tenant(tenant), build_maintenance(app.for_tenant(tenant))
            rule = settings.for_tenant(tenant).retention
            findings = await read_audit(
                store,
                work.kind,
                work.schedule,
                since=START - timedelta(days=1),
                until=now + timedelta(seconds=1),
                now=now,
                kept_for=timedelta(days=rule.days),
            )
            told[tenant] = (
                Counter(finding.status.value for finding in findings),
                await store.runs.list_runs(),
                await store.ledger.list_entries(),
            )
        return told


@pytest.mark.parametrize("backend", ["memory", "sqlite", "json"])
async def test_every_night_is_accounted_for_and_old_runs_are_gone(tmp_path, backend):
    (tmp_path / "stoker.toml").write_text(TOML.format(backend=backend))
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})

    told = await weeks(settings)

    assert set(told) == {"acme", "umbrella"}
    for kinds, runs, entries in told.values():
        assert set(kinds) == {"RAN", "MISSED"}
        assert 2 <= kinds["MISSED"] <= 3
        assert {run.state for run in runs} == {RunState.DONE}
        assert 9 <= len(runs) <= 12, "ten days are kept, and nothing older"
        assert find_first_break(entries) is None
        assert len(entries) == sum(kinds.values())


async def test_the_night_on_which_clocks_change_runs_once(tmp_path):
    (tmp_path / "stoker.toml").write_text(TOML.format(backend="memory"))
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})

    told = await weeks(settings, off=())

    instants = [run.instant for run in told["acme"][1]]
    assert instants.count(datetime(2026, 3, 8, 7, 0, tzinfo=UTC)) == 1  # 03:00 EDT, the first valid
    assert [at.hour for at in instants if (at.month, at.day) == (3, 8)] == [7]


def test_a_store_that_is_brought_up_to_date_says_so_and_a_new_one_does_not(tmp_path):
    settings = wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})

    def opened():
        heard = EventRecorder()

        async def open_and_close():
            async with wiring.open_app(settings, observer=heard):
                pass

        asyncio.run(open_and_close())
        return [event.step for event in heard.of_type(Migrated)]

    make_file(tmp_path / "stoker.db", version=2, rows=1)

    assert opened() == [str(step) for step in SCHEMA.sqlite[2:]]
    assert opened() == []
    for path in tmp_path.glob("stoker.db*"):
        path.unlink()
    assert opened() == []
