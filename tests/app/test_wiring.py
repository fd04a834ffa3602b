"""What is built from settings: who shares rates, and who keeps them alone."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from stoker.app import open_app, read_settings
from stoker.base.errors import ConfigError
from stoker.base.events import Overrun
from stoker.base.types import TenantId
from stoker.budgets.charges import SpendRequest
from stoker.budgets.model import Paid
from stoker.budgets.service import build_budget, build_reset_rule
from stoker.heat.service import build_sweep_task
from stoker.maintenance.service import build_maintenance
from stoker.nightly.setup import build_nightly_run, build_nightly_task
from stoker.pulls.service import build_pull_run
from stoker.rate_limits.host_delays import LocalHostPacer, SharedHostPacer, build_host_pacer
from stoker.rate_limits.limiter import build_call_limiter, build_vendor_limits
from stoker.rate_limits.rate_limit import LocalRateLimiter, SharedRateLimiter
from stoker.scheduling.service import build_task
from stoker.testing import EventRecorder, FakeClock

ACME, BOLT = TenantId("acme"), TenantId("bolt")
TENANTS = "\n[tenants.acme]\npacing.weight = 3\n[tenants.bolt]\n"


@pytest.fixture
def on_app(tmp_path):
    """Run a scenario on an app opened with these settings."""

    def run(toml, scenario, **said):
        (tmp_path / "stoker.toml").write_text(toml + TENANTS)
        own = read_settings(directory=tmp_path, config=None, flags={}, environment={})

        async def whole():
            async with open_app(own, observer=EventRecorder(), **said) as app:
                return await scenario(app)

        return asyncio.run(whole())

    return run


@pytest.mark.parametrize(
    ("toml", "pace", "hosts"),
    [
        ('storage.backend = "memory"', LocalRateLimiter, LocalHostPacer),
        ('storage.backend = "sqlite"', SharedRateLimiter, SharedHostPacer),
        ('storage.backend = "json"', SharedRateLimiter, SharedHostPacer),
        ('storage.backend = "sqlite"\npacing.processes = "one"', LocalRateLimiter, LocalHostPacer),
        (
            'storage.backend = "memory"\npacing.processes = "many"',
            SharedRateLimiter,
            SharedHostPacer,
        ),
    ],
)
def test_rates_are_shared_through_every_store_that_others_can_open_unless_settings_say_otherwise(
    on_app, toml, pace, hosts
):
    async def look(app):
        assert isinstance(
            app.get(build_vendor_limits).get_limiter("tavily", tenant=ACME).rate, pace
        )
        assert isinstance(app.get(build_host_pacer), hosts)
        assert (app.get(build_vendor_limits).get_limiter("tavily", tenant=ACME).slots is None) == (
            pace is LocalRateLimiter
        )

    on_app(toml, look)


@pytest.mark.parametrize("clock", [None, FakeClock()])
def test_a_process_alone_keeps_its_rate_by_whatever_clock_it_is_given(on_app, clock):
    toml = 'storage.backend = "memory"\n[tavily]\ncalls = 1\nper_s = 0.05\nburst = 1\n'

    async def calls(app):
        began = app.clock.elapsed()
        for _ in range(4):
            async with app.for_tenant(ACME).get(build_call_limiter).acquire_slot("tavily"):
                pass
        return app.clock.elapsed() - began

    assert on_app(toml, calls, clock=clock) >= timedelta(seconds=0.149)


def test_gates_of_one_app_have_one_owner_and_caps_of_their_own_tenant(on_app):
    async def look(app):
        gates = [await app.for_tenant(tenant).open(build_budget) for tenant in (ACME, BOLT)]
        assert gates[0] is not gates[1]
        with pytest.raises(ConfigError, match="there is no tenant"):
            await app.for_tenant(TenantId("carol")).open(build_budget)

    on_app('storage.backend = "memory"', look)


def test_nights_and_pulls_whose_process_died_are_gone_on_with_in_their_day_and_upkeep_is_not(
    on_app,
):
    async def look(app):
        for night in (
            build_nightly_run(app.for_tenant(ACME)),
            build_pull_run(app.for_tenant(ACME)),
        ):
            assert build_nightly_task(
                app.for_tenant(ACME), night
            ).resume_window == build_reset_rule(app.settings.for_tenant(ACME))
        assert (
            build_task(app.for_tenant(ACME), build_maintenance(app.for_tenant(ACME))).resume_window
            is None
        )
        assert build_sweep_task(app.for_tenant(ACME)).resume_window is None

    on_app('storage.backend = "memory"', look)


def test_a_gate_opened_before_reports_to_the_observer_of_the_block(on_app):
    other = EventRecorder()
    request = SpendRequest(key="k", connector="lusha", amounts={"credits": 1})

    async def charge_more():
        return Paid(answer="answer", cost={"credits": 2})

    async def spend(app):
        before = await app.for_tenant(ACME).open(build_budget)
        with app.redirect_events(other) as seen:
            assert await seen.for_tenant(ACME).open(build_budget) is before
            await before.spend(request, charge_more)
        await before.spend(replace(request, key="after"), charge_more)
        return app.observer

    own = on_app('storage.backend = "memory"', spend)
    assert [event.key for event in other.of_type(Overrun)] == ["k"]
    assert [event.key for event in own.of_type(Overrun)] == ["after"]


def test_listing_runs_imports_neither_numpy_nor_vendors(tmp_path):
    script = (
        "import sys; from stoker.cli.main import main; main(sys.argv[1:])\n"
        "print([name for name in sys.modules if name == 'numpy' or name.startswith("
        "('stoker.vendors.', 'stoker.http.client', 'stoker.pulls.', 'stoker.enrichment'))\n"
        " and not name.endswith(('.settings', '.table'))])"
    )

    def run(*words):
        command = [sys.executable, "-c", script, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1]

    assert "stoker.vendors.schema" in run("db", "migrate")  # so that the list below can fail
    assert run("runs", "list") == "[]"
