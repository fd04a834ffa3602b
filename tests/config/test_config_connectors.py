"""How vendors are called, as settings say it."""

from datetime import timedelta

import pytest

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.settings import Settings
from stoker.settings.load import load_settings

ACME, BOLT = TenantId("acme"), TenantId("bolt")


@pytest.fixture
def read(tmp_path):
    def read(toml):
        (tmp_path / "stoker.toml").write_text(toml)
        return load_settings(file=tmp_path / "stoker.toml", env_file=None, environment={}, flags={})

    return read


@pytest.mark.parametrize(
    ("connector", "calls", "seconds"),
    [
        ("tavily", 100, 60),
        ("openai", 60, 60),
        ("lusha", 40, 60),
        ("zerobounce", 5, 63),
        ("datagov", 4, 10),
        ("datagov_downloads", 2, 10),
    ],
)
def test_without_settings_no_vendor_is_called_faster_than_its_smallest_plan_allows(
    connector, calls, seconds
):
    rate = Settings().get_connector(connector).to_rate()
    assert (rate.calls, rate.per) == (calls, timedelta(seconds=seconds))


def test_a_connector_s_table_says_how_it_is_called_and_where_that_was_said(read):
    settings = read("[tavily]\ncalls = 1000\nburst = 20\nshare = 0.6\n")
    rate = settings.get_connector("tavily").to_rate()
    assert (rate.calls, rate.burst, rate.share) == (1000, 20, 0.6)
    shown = {line.key: (line.value, line.origin) for line in settings.list_shown()}
    assert shown["tavily.share"] == ("0.6", "stoker.toml:4")
    assert shown["tavily.concurrency"] == ("8", "default")


def test_a_burst_beyond_what_is_ours_is_refused_where_it_stands(read):
    with pytest.raises(ConfigError, match=r"stoker\.toml:2: lusha\.calls.*a burst is 1 to 5"):
        read("[lusha]\ncalls = 10\nshare = 0.5\nburst = 6\n")


def test_a_rate_belongs_to_a_key_and_not_to_a_tenant(read):
    with pytest.raises(ConfigError, match=r"no setting 'lusha\.calls' for one tenant alone"):
        read("[tenants.acme]\nlusha.calls = 10\n")


def test_what_a_look_counts_is_set_for_all_for_a_connector_or_for_a_tenant(read):
    settings = read(
        "[pulls]\ndeep_units = 4\n[tavily]\nshallow_units = 2\n"
        "[tenants.acme]\ntavily.deep_units = 9\npacing.weight = 3\n[tenants.bolt]\n"
    )
    acme, bolt = settings.for_tenant(ACME), settings.for_tenant(BOLT)
    assert [acme.get_pull_units("tavily", deep=deep) for deep in (False, True)] == [2, 9]
    assert [bolt.get_pull_units("tavily", deep=deep) for deep in (False, True)] == [2, 4]
    assert [bolt.get_pull_units("crawl", deep=deep) for deep in (False, True)] == [1, 4]
    assert (acme.pacing.weight, bolt.pacing.weight) == (3, 1)


def test_a_connector_without_settings_is_answered_with_those_there_are():
    with pytest.raises(ConfigError, match=r"connector 'tavly'; there are: tavily, openai"):
        Settings().get_connector("tavly")
