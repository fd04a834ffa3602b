import json

import pytest

from running_box import RunningBox
from stoker.cli.main import main
from stoker.cli.output import Exit
from stoker.vendors.table import VENDORS

CANARY = "tvly-sandbox-canary-77"


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=20) as running:
        yield running


@pytest.fixture
def stoker(tmp_path, capsys):
    """Run a command in a directory of its own; return its exit code, stdout and stderr."""

    def stoker(*arguments, box=None):
        on = ["--set", f"sandbox.address={box.box.address}"] if box else []
        code = main(["-C", str(tmp_path), *on, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return stoker


def listed(stoker, *arguments, box=None):
    _, out, _ = stoker("connector", "list", "--json", *arguments, box=box)
    return {line["name"]: line for line in json.loads(out)["connectors"]}


def test_every_connector_is_listed_with_its_state_and_the_reason(stoker, tmp_path):
    code, out, _ = stoker("connector", "list")
    lines = listed(stoker)

    assert code == Exit.OK
    assert "tavily      off    https://api.tavily.com" in out
    assert list(lines) == list(VENDORS)
    assert lines["tavily"]["because"] == "keys.tavily (TAVILY_API_KEY) is not set"
    assert lines["tavily"]["health"] == "unknown"
    assert (lines["crawl"]["state"], lines["datagov"]["state"]) == ("on", "on")
    assert lines["zerobounce"]["pace"] == "5 in 63 s, 2 at once"
    assert list(tmp_path.iterdir()) == []  # looking makes nothing


def test_what_is_used_of_its_caps_stands_beside_a_connector(stoker):
    stoker("caps", "set", "tenant_connector/tavily/credits/day", "7")
    caps = {each["cap"]: each for each in listed(stoker)["tavily"]["caps"]}

    assert caps["tenant_connector/tavily/credits/day"]["free"] == 7
    assert {cap.split("/")[1] for cap in caps} == {"tavily"}


def test_a_stop_is_seen_in_the_list(stoker, box):
    stoker("stop", "--connector", "tavily", "--reason", "bill is odd", box=box)
    lines = listed(stoker, box=box)

    assert (lines["tavily"]["state"], lines["lusha"]["state"]) == ("stopped", "on")
    assert lines["tavily"]["because"] == "stopped: bill is odd"


def test_listing_asks_nobody(stoker, box):
    before = box.meter.requests
    code, out, _ = stoker("connector", "list", box=box)

    assert (code, box.meter.requests) == (Exit.OK, before)
    assert f"THE SANDBOX IS ON, at {box.box.address}" in out
    assert all(
        line["make_believe"] for line in listed(stoker, box=box).values() if line["addresses"]
    )


def test_all_are_well_in_the_sandbox_and_testing_costs_nothing(stoker, box):
    before = dict(box.box.charges)
    code, out, _ = stoker("connector", "test", "--json", box=box)
    told = json.loads(out)

    assert code == Exit.OK
    assert [line["name"] for line in told["connectors"]] == list(VENDORS)
    assert all(line["ok"] for line in told["connectors"])
    assert told["sandbox"] == box.box.address
    assert box.box.charges == before


@pytest.mark.parametrize("name", [name for name, row in VENDORS.items() if row.needs])
def test_one_that_is_off_is_no_problem_until_it_is_asked_for(stoker, name):
    code, out, _ = stoker("connector", "test", name, "--json")

    assert code == Exit.CONFIG
    (line,) = json.loads(out)["connectors"]
    assert (line["on"], line["ok"]) == (False, None)
    assert "not set" in line["detail"]


def test_a_refused_key_is_told_in_words_and_never_shown(stoker, box):
    arguments = ("--set", f"keys.tavily={CANARY}-wrong", "connector", "test")
    code, out, err = stoker(*arguments, box=box)

    assert code == Exit.PROBLEMS
    assert "tavily      WRONG  tavily refuses our key" in out
    assert CANARY not in out + err


def test_a_name_nobody_knows_is_answered_with_those_there_are(stoker):
    code, _, err = stoker("connector", "test", "tavly")

    assert code == Exit.CONFIG
    assert "there is no connector 'tavly'; there are: crawl, tavily" in err


def test_a_sandbox_that_is_not_there_is_a_problem_in_one_line_each(stoker):
    arguments = ("--set", "sandbox.address=127.0.0.1:9", "connector", "test", "tavily", "odoo")
    code, out, _ = stoker(*arguments)

    assert code == Exit.PROBLEMS
    assert out.count("WRONG") == 2


def test_doctor_says_loudly_that_the_sandbox_is_on_and_what_is_real_all_the_same(stoker, box):
    real = ("--set", "lusha.base_url=https://lusha.example.com", "--set", "keys.lusha=lu-12345678")
    _, out, _ = stoker(*real, "doctor", box=box)

    assert "SANDBOX" in out
    assert "REAL although the sandbox is on: lusha" in out
    assert "lu-12345678" not in out


def test_doctor_says_which_connectors_are_on(stoker):
    _, out, _ = stoker("doctor")

    assert "on: crawl, datagov, boards; off: tavily, openai, lusha, zerobounce, odoo" in out
    assert "SANDBOX" not in out
