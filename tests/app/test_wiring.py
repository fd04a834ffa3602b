"""What is built from settings: who shares rates, and who keeps them alone."""

import asyncio
from datetime import timedelta

import pytest

from stoker.app import opened, settings
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.crawl.politeness import OwnHosts, SharedHosts
from stoker.rate_limits.rate_limit import OwnPace, SharedPace
from stoker.testing import FakeClock, Recorder

ACME, BOLT = TenantId("acme"), TenantId("bolt")
TENANTS = "\n[tenants.acme]\npacing.weight = 3\n[tenants.bolt]\n"


@pytest.fixture
def on_app(tmp_path):
    """Run a scenario on an app opened with these settings."""

    def run(toml, scenario, **said):
        (tmp_path / "stoker.toml").write_text(toml + TENANTS)
        own = settings(directory=tmp_path, config=None, flags={}, environment={})

        async def whole():
            async with opened(own, observer=Recorder(), **said) as app:
                return await scenario(app)

        return asyncio.run(whole())

    return run


@pytest.mark.parametrize(
    ("toml", "pace", "hosts"),
    [
        ('storage.backend = "memory"', OwnPace, OwnHosts),
        ('storage.backend = "sqlite"', SharedPace, SharedHosts),
        ('storage.backend = "json"', SharedPace, SharedHosts),
        ('storage.backend = "sqlite"\npacing.processes = "one"', OwnPace, OwnHosts),
        ('storage.backend = "memory"\npacing.processes = "many"', SharedPace, SharedHosts),
    ],
)
def test_rates_are_shared_through_every_store_that_others_can_open_unless_settings_say_otherwise(
    on_app, toml, pace, hosts
):
    async def look(app):
        assert isinstance(app.pace("tavily", ACME), pace)
        assert isinstance(app.hosts, hosts)
        assert (app.places("tavily", ACME) is None) == (pace is OwnPace)

    on_app(toml, look)


@pytest.mark.parametrize("clock", [None, FakeClock()])
def test_a_process_alone_keeps_its_rate_by_whatever_clock_it_is_given(on_app, clock):
    toml = 'storage.backend = "memory"\n[tavily]\ncalls = 1\nper_s = 0.05\nburst = 1\n'

    async def calls(app):
        began = app.clock.elapsed()
        for _ in range(4):
            async with app.passages(ACME).through("tavily"):
                pass
        return app.clock.elapsed() - began

    assert on_app(toml, calls, clock=clock) >= timedelta(seconds=0.149)


def test_a_connector_without_settings_cannot_be_reached(on_app):
    async def ask(app):
        with pytest.raises(ConfigError, match="no settings for connector 'tavly'"):
            app.pace("tavly", ACME)

    on_app('storage.backend = "memory"', ask)


def test_gates_of_one_app_have_one_owner_and_caps_of_their_own_tenant(on_app):
    async def look(app):
        gates = [await app.gate(tenant) for tenant in (ACME, BOLT)]
        assert gates[0] is not gates[1]
        with pytest.raises(ConfigError, match="there is no tenant"):
            await app.gate(TenantId("carol"))

    on_app('storage.backend = "memory"', look)


def test_nights_and_pulls_whose_process_died_are_gone_on_with_in_their_day_and_upkeep_is_not(
    on_app,
):
    async def look(app):
        for night in (app.night(ACME), app.pulls(ACME)):
            assert app.night_task(ACME, night).goes_on_within == app.reset_for(ACME)
        assert app.task(ACME).goes_on_within is None
        assert app.sweep_task(ACME).goes_on_within is None

    on_app('storage.backend = "memory"', look)
