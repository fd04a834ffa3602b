"""What is stored of settings: snapshots in manifests and their digests stay the same.

`golden/every_setting.toml` sets every setting to something other than its default. To accept a
new setting, add it there and write the golden files anew: REWRITE_GOLDEN=1 pytest this_file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stoker.base.types import TenantId
from stoker.runs.model import compute_config_hash
from stoker.settings import FIELDS, Settings
from stoker.settings.load import load_settings

GOLDEN = Path(__file__).parent / "golden"


def every_setting() -> Settings:
    file = GOLDEN / "every_setting.toml"
    return load_settings(file=file, env_file=None, environment={}, flags={})


CASES = {
    "defaults": Settings,
    "every_setting": every_setting,
    "acme": lambda: every_setting().for_tenant(TenantId("acme")),
    "beta": lambda: every_setting().for_tenant(TenantId("beta")),
}


@pytest.mark.parametrize("name", CASES)
def test_snapshot_digest_caps_and_shown_values_stay_as_they_were(name: str) -> None:
    settings = CASES[name]()
    snapshot = settings.snapshot()
    found = {
        "config_hash": compute_config_hash(snapshot),
        "snapshot": snapshot,
        "caps": settings.list_cap_values(),
        "shown": {each.key: [each.value, each.origin] for each in settings.list_shown()},
    }
    file = GOLDEN / f"{name}.json"
    if os.environ.get("REWRITE_GOLDEN"):
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    assert found == json.loads(file.read_text(encoding="utf-8"))


def test_the_golden_file_sets_every_setting() -> None:
    changed, usual = every_setting(), Settings()
    same = [key for key in FIELDS if changed.get_value(key) == usual.get_value(key)]
    assert same == ["sandbox.address"]  # with it, values that nobody set would change too
