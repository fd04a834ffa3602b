"""A vendor's cap per run: each run has its own, a run that is started again goes on with it."""

from contextlib import closing

import apsw
import pytest

from night_desk import Desk, small_internet

CAP = "tenant_connector/tavily/calls/run"


@pytest.fixture(scope="module")
def box():
    with small_internet() as running:
        yield running


@pytest.fixture
def stoker(tmp_path, capsys, box):
    desk = Desk(tmp_path, capsys, box)
    with (tmp_path / "stoker.toml").open("a") as file:
        file.write("[caps]\ntavily_queries_per_run = 4\n")
    return desk.set_up("acme")


def count_credits(box):
    return box.box.charges.get("tavily", {}).get("credits", 0)


def find_balances(stoker):
    caps = stoker.told("caps", "list")[1]["caps"]
    return {each["window"]: each for each in caps if each["cap"] == CAP}


def list_runs(stoker):
    return [each["run"] for each in stoker.told("runs", "list")[1] if each["kind"] == "nightly"]


def end_as_failed(stoker):
    """Write down what a killed run is found to be by the next one."""
    with closing(apsw.Connection(str(stoker.directory / "stoker-sandbox.db"))) as db:
        db.execute("UPDATE runs SET state = 'FAILED' WHERE kind = 'nightly'")
        assert db.changes() == 1


def test_a_run_is_refused_at_its_cap_and_the_next_run_has_its_own(stoker, box):
    assert "does not reset; the next run has its own" in stoker("caps", "list")[1]
    before = count_credits(box)
    code, [night] = stoker.told("nightly", "--limit", "6", "--skip", "export")
    assert (code, night["state"]) == (3, "PARTIAL")
    assert count_credits(box) - before == 4
    refusal = "tavily was not called: Tavily calls per run has too little left of 4"
    assert any(refusal in each for each in night["manifest"]["reasons"])
    assert night["manifest"]["resume_at"] is None  # the cap of a run never has room again
    [(window, balance)] = find_balances(stoker).items()
    assert (window, balance["used"], balance["free"]) == (f"run {list_runs(stoker)[0]}", 4, 0)

    stoker("nightly", "--limit", "6", "--skip", "export", "--again")
    [(window, balance)] = find_balances(stoker).items()
    assert window == f"run {list_runs(stoker)[0]}"
    assert balance["used"] > 0


def test_a_run_that_is_started_again_goes_on_within_the_same_cap(stoker, box):
    stoker("nightly", "--limit", "1", "--skip", "export")
    [first] = list_runs(stoker)
    used = find_balances(stoker)[f"run {first}"]["used"]
    assert 0 < used < 4
    end_as_failed(stoker)

    [quoted] = stoker.told("nightly", "--plan", "--limit", "6", "--skip", "export", "--again")[1]
    assert quoted["quote"]["calls"]["tavily"] <= 4 - used
    before = count_credits(box)
    stoker("nightly", "--limit", "6", "--skip", "export", "--again")
    assert len(list_runs(stoker)) == 2
    assert count_credits(box) - before == 4 - used
    assert {name: each["used"] for name, each in find_balances(stoker).items()} == {
        f"run {first}": 4
    }
