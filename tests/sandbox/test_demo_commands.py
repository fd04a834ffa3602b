import io
import json
import re
from contextlib import redirect_stdout

import pytest

from kit.terminals import show
from stoker.cli.main import main


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Where one demo left everything when asked to, and what it said."""
    kept, said = tmp_path_factory.mktemp("demo") / "out", io.StringIO()
    with redirect_stdout(said):
        assert main(["demo", "--keep", str(kept), "--json"]) == 0
    return kept, json.loads(said.getvalue())


def test_the_demo_is_a_night_of_two_tenants_that_adds_up(shown):
    _, answer = shown
    nights = {night["tenant"]: night for night in answer["nights"]}
    assert set(nights) == {"hudson", "merlion"}
    assert sum(len(night["manifest"]["selected"]) for night in nights.values()) == 200
    for night in nights.values():
        assert night["state"] == "PARTIAL"  # its caps are small on purpose
        assert any("tavily was not called" in reason for reason in night["manifest"]["reasons"])
        assert night["leads"] > 20
        assert night["manifest"]["counts"]["crm_written"] > 200
    for vendor in ("tavily", "zerobounce", "lusha"):
        paid = sum(
            night["manifest"]["cost"].get(f"{vendor}/credits", 0) for night in nights.values()
        )
        assert paid == answer["charged"].get(vendor, {}).get("credits", 0)


def test_the_demo_finds_out_who_is_hiring(shown):
    kept, answer = shown
    (found,) = answer["discoveries"]
    assert (found["tenant"], found["state"], found["reason"]) == ("merlion", "DONE", "")
    kinds = [source["name"].partition(":")[0] for source in found["sources"]]
    assert kinds == ["greenhouse"] * 2 + ["lever"] * 2 + ["ashby"] * 2 + ["feed"]
    assert found["kept"] == found["scored"] > 20
    assert sum(source["twins"] for source in found["sources"]) > 0
    assert found["employers_matched"] > 2
    assert found["signals"] == found["matched"] > 0
    files = sorted(path.name for path in (kept / "discovered" / "merlion").iterdir())
    stamp = files[0].removeprefix("jobs_discovered_").removesuffix(".csv")
    assert files == [
        f"jobs_discovered_{stamp}.csv",
        f"jobs_discovered_{stamp}.summary.json",
        f"jobs_enriched_{stamp}.json",
        f"jobs_scored_{stamp}.csv",
    ]


def test_a_demo_that_is_kept_can_be_looked_around_in(shown, capsys):
    kept, _ = shown
    for words in (["leads"], ["caps", "list"], ["ledger", "verify"], ["nightly", "--plan"]):
        assert main(["-C", str(kept), *words]) == 0, words
    assert main(["-C", str(kept), "runs", "show", "latest", "--tenant", "hudson"]) == 0
    assert re.search(r"^hudson: nightly \w+ PARTIAL$", capsys.readouterr().out, re.MULTILINE)


SCREENS = """
    doctor; config show; tenants list; icp show --tenant merlion; crm show --tenant merlion
    connectors list --tenant merlion; registry status; registry rejects; db status
    nightly --plan; nightly --dry-run; pulls quote; pulls plan --tenant merlion; pulls price merlion
    pulls replay latest --tenant merlion; sources list --tenant merlion; leads; heat sweep; heat top
    caps list; holds; ledger list; ledger show 5 --tenant merlion; ledger verify; schedule next
    schedule audit; runs list; runs show latest --tenant hudson; why merlion/200300008R --flip
    touches import --leads --tenant merlion; touches plan --tenant merlion
    touches show --tenant merlion; touches today --tenant merlion; touches status --tenant merlion
    touches certify --tenant merlion; simulate coverage; simulate timing; simulate scores
"""


def test_every_screen_fits_into_80_columns(shown):
    kept, _ = shown
    wide = {}
    for line in SCREENS.replace("\n", ";").split(";"):
        if words := line.split():
            code, screen = show("-C", kept, *words)
            assert code == 0, words
            assert screen.lines, words
            if screen.widest > 80:
                wide[line.strip()] = screen.widest
    assert wide == {}


def test_a_directory_with_something_in_it_is_not_used(tmp_path, capsys):
    (tmp_path / "mine").write_text("precious")

    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "precious"
