"""A store that an earlier version filled (schema 10): it migrates, and everything in it is read."""

import gzip
import json
from pathlib import Path

import pytest

from stoker.cli.main import main

SAMPLE = Path(__file__).parents[1] / "samples" / "store_v10.db.gz"


@pytest.fixture
def run(tmp_path, capsys):
    (tmp_path / "stoker.db").write_bytes(gzip.decompress(SAMPLE.read_bytes()))

    def run(*words):
        assert main(["-C", str(tmp_path), *words, "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


def test_a_store_of_an_earlier_version_migrates_and_verifies(run):
    run("db", "maintain")

    verified = run("ledger", "verify")
    assert verified["ok"]
    assert [tenant["entries"] for tenant in verified["tenants"]] == [57]
    states = [(each["kind"], each["state"]) for each in run("runs", "list")]
    assert states == [
        ("upkeep", "DONE"),
        ("discovery", "DONE"),
        ("plan", "DONE"),
        ("sweep", "DONE"),
        ("nightly", "PARTIAL"),
    ]


def test_what_an_earlier_version_found_is_still_there(run):
    assert run("leads", "list")[0]["company"] == "200700004G"
    assert run("heat", "top", "--limit", "1")[0]["heat_score"] == 0.48
    days = run("touches", "show", "--week", "2026-W47")["days"]
    assert len(days) == 7
    assert {touch["person"] for day in days for touch in day["touches"]} <= {""}
    [stop] = run("caps", "list")["stops"]
    assert stop["connector"] == "lusha"


def test_a_plan_of_an_earlier_version_is_made_again_byte_for_byte(run):
    replayed = run("pulls", "replay", "latest")

    assert replayed["same"]
    assert replayed["ledger_agrees"]
    assert replayed["accounts"] == 21
