"""What a night says of its steps and sources, and the pages that a vendor reads for it."""

import json

import pytest

from night_desk import Desk, small_internet
from stoker.base.types import Step
from stoker.cli.main import main


@pytest.fixture(scope="module")
def box():
    with small_internet() as running:
        yield running


@pytest.fixture
def stoker(tmp_path, capsys, box):
    return Desk(tmp_path, capsys, box).set_up("acme")


def run_logged(stoker, capsys, *words):
    """Run a command; return its answer and its log lines."""
    main(["-C", str(stoker.directory), "--log-level", "info", *words, "--json"])
    said = capsys.readouterr()
    return json.loads(said.out), [json.loads(line) for line in said.err.splitlines()]


def list_steps(lines):
    return [line["step"] for line in lines if line["event"] == "StepEnded"]


def test_each_of_the_nine_steps_has_a_line_with_work_or_without(stoker, capsys):
    _, lines = run_logged(stoker, capsys, "nightly", "--limit", "4")
    assert sorted(set(list_steps(lines)) - {"companies"}) == sorted(step.value for step in Step)
    assert len(list_steps(lines)) == len(set(list_steps(lines)))
    assert all(line["tenant"] == "acme" for line in lines if line["event"] == "StepEnded")

    _, again = run_logged(stoker, capsys, "nightly", "--only", "refresh", "--only", "score")
    assert set(list_steps(again)) - {"companies"} == {"refresh", "score"}


def test_the_reasons_of_a_company_are_a_list_in_the_log(stoker, capsys):
    _, lines = run_logged(stoker, capsys, "nightly", "--limit", "8")
    ended = [line["reasons"] for line in lines if line["event"] == "CompanyEnded"]
    assert len(ended) == 8
    assert all(isinstance(reasons, list) for reasons in ended)
    assert any(ended)


def test_a_night_lists_its_sources_and_pays_for_pages_where_sites_say_nothing(stoker, box):
    asked = len(box.box.log)
    [night] = stoker.told("nightly", "--limit", "30", "--skip", "export")[1]
    manifest = night["manifest"]
    sources = {each["step"]: each["items"] for each in manifest["sources"]}
    assert sources["crawl"] > 0
    assert sources["tavily"] > 0

    paths = [each.target for each in box.box.log[asked:] if each.host == "tavily.test"]
    read = paths.count("/extract")
    assert read > 0
    assert paths.count("/search") + read == manifest["cost"]["tavily/calls"]

    # The second night is answered from the cache.
    asked = len(box.box.log)
    stoker("nightly", "--from-manifest", night["run"], "--again", "--skip", "export")
    again = [each.target for each in box.box.log[asked:] if each.host == "tavily.test"]
    assert again == []
