"""Sources of postings and what is wanted of them are settings, each tenant's own."""

import pytest

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.discovery.settings import DiscoverySettings
from stoker.settings import FIELDS
from stoker.settings.load import load_settings


def settings(**discovery):
    flags = {f"discovery.{name}": value for name, value in discovery.items()}
    return load_settings(file=None, env_file=None, environment={}, flags=flags)


def in_file(tmp_path, toml):
    file = tmp_path / "stoker.toml"
    file.write_text(toml)
    return load_settings(file=file, env_file=None, environment={}, flags={})


def test_by_default_it_is_quiet_and_scores_as_the_spec_says():
    section = settings().discovery
    assert section == DiscoverySettings()
    assert (section.sources, section.scheduled, section.enrich) == ((), False, False)


ANOTHER = {
    "roles": "Head of Data, cook",
    "stack": "Python,AWS, python",
    "role_weight": "1",
    "stack_weight": "2",
    "remote_weight": "3",
    "exceptional_from": "0.9",
    "strong_from": "0.8",
    "moderate_from": "0.6",
}


def test_every_part_of_a_score_can_be_set():
    rule, usual = settings(**ANOTHER).discovery, DiscoverySettings()
    assert [name for name in ANOTHER if getattr(rule, name) == getattr(usual, name)] == []
    assert (rule.roles, rule.stack) == (("head of data", "cook"), ("python", "aws"))


def test_sources_are_a_list_in_the_file_and_one_line_elsewhere(tmp_path):
    toml = """
[discovery]
sources = ["greenhouse:acme | Acme, Pte; Ltd", "feed:https://a.test/x?a=1;b=2"]
[tenants.bolt.discovery]
sources = []
[tenants.acme]
"""
    found = in_file(tmp_path, toml)
    names = [each.name for each in found.for_tenant(TenantId("acme")).discovery.sources]
    assert names == ["greenhouse:acme", "feed:https://a.test/x?a=1;b=2"]
    assert found.for_tenant(TenantId("bolt")).discovery.sources == ()
    said = settings(sources="lever:a | A ;\n ashby:b;").discovery.sources
    assert [str(each) for each in said] == ["lever:a | A", "ashby:b"]


def test_settings_with_sources_can_be_shown_and_kept_in_a_manifest(tmp_path):
    found = in_file(tmp_path, '[discovery]\nsources = ["lever:a | A | a.com"]\n')
    assert found.snapshot()["discovery"]["sources"] == ["lever:a | A | a.com"]
    (line,) = [each for each in found.list_shown() if each.key == "discovery.sources"]
    assert line.value == "lever:a | A | a.com"
    assert FIELDS["discovery.sources"].per_tenant


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('sources = ["acme"]', "not a source of postings"),
        ('sources = ["lever:a", "lever:a | A"]', "there twice"),
        ("sources = [3]", "allowed: a list such as"),
        ("sources = 3", "allowed: a list such as"),
        ("strong_from = 0.9", "buckets come in order"),
        ("role_weight = 0\nstack_weight = 0\nremote_weight = 0", "not all of them 0"),
        ("signal_strength = 2", "a number, 0 to 1"),
        ("roles = 3", "separated by commas"),
    ],
)
def test_nonsense_is_refused_in_one_line_with_its_place(tmp_path, toml, said):
    with pytest.raises(ConfigError, match=said) as caught:
        in_file(tmp_path, f"[discovery]\n{toml}\n")
    assert "\n" not in str(caught.value)


def test_a_feeds_secret_is_in_nothing_that_settings_say(tmp_path):
    feed = "feed:https://a.com/x?token=s3cr3t"
    found = in_file(tmp_path, f'[discovery]\nsources = ["{feed}"]\n')
    assert found.discovery.sources[0].name == feed
    assert "s3cr3t" not in str([each.value for each in found.list_shown()])
    assert "s3cr3t" not in str(found.snapshot())
    for wrong in (
        f'["{feed}", "{feed}"]',
        f'["{feed} | A | no domain", "nothing"]',
        f'"{feed[3:]}"',
    ):
        with pytest.raises(ConfigError) as caught:
            in_file(tmp_path, f"[discovery]\nsources = {wrong}\n")
        assert "a.com/x?token=" in str(caught.value)
        assert "s3cr3t" not in str(caught.value)
