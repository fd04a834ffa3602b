"""How leads are scored is each tenant's own setting, and reaches its nights."""

import pytest

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.nightly.setup import build_nightly_options
from stoker.settings.load import load_settings

ACME, BOLT = TenantId("acme"), TenantId("bolt")
OWN = """
[score]
size_weight = 0.5
[tenants.acme]
score.reachable_weight = 2
score.medium_from = 0.3
[tenants.bolt]
"""


def read(tmp_path, toml):
    (tmp_path / "stoker.toml").write_text(toml)
    return load_settings(file=tmp_path / "stoker.toml", env_file=None, environment={}, flags={})


def test_a_tenants_weights_and_buckets_are_those_of_its_nights(tmp_path):
    said = read(tmp_path, OWN)
    acme, bolt = (build_nightly_options(said.for_tenant(tenant)).score for tenant in (ACME, BOLT))
    assert (acme.weights["reachable"], bolt.weights["reachable"]) == (2, 0.3)
    assert acme.weights["size"] == bolt.weights["size"] == 0.5
    assert (acme.medium_from, bolt.medium_from) == (0.3, 0.45)
    assert said.for_tenant(ACME).snapshot()["score"]["reachable_weight"] == 2


def test_buckets_that_cannot_both_hold_are_refused_where_settings_are_read(tmp_path):
    with pytest.raises(ConfigError, match="medium_from not above high_from"):
        read(tmp_path, "[tenants.acme]\nscore.high_from = 0.2\n")
