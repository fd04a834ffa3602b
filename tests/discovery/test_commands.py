"""`stoker discover` and `stoker sources`, asked the way a person does."""

import json
import re
from pathlib import Path

import pytest

from running_box import RunningBox
from stoker.cli.main import main
from stoker.cli.output import Exit
from stoker.sandbox.world.jobs import list_openings

DATA = Path(__file__).parents[1] / "data"

FEW = (
    "title,url,company,posted_at,description\n"
    "Senior Data Engineer,https://acme.com/1,Acme,2026-11-01,Python and AWS\n"
    "=cmd(),https://acme.com/2,Acme,2026-11-01,\n"
    "Nowhere,nowhere,Acme,,\n"
)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "few.csv").write_text(FEW)
    (tmp_path / "stoker.toml").write_text('[discovery]\nsources = ["file:few.csv | Acme"]\n')
    return tmp_path


@pytest.fixture
def stoker(home, capsys):
    def asking(*words, **sets):
        flags = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
        code = main(["-C", str(home), *flags, *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return asking


@pytest.fixture
def told(stoker):
    """Ask for JSON; return it."""

    def asking(*words, code=0, **sets):
        got, out, err = stoker(*words, "--json", **sets)
        assert got == code, err
        return json.loads(out)

    return asking


def files(home):
    there = home / "discovered"
    names = sorted(path.name for path in there.iterdir()) if there.exists() else []
    return [re.sub(r"\d{8}_\d{6}", "TS", name) for name in names]


def test_by_default_one_csv_is_written_and_nothing_more(stoker, home):
    code, out, _ = stoker("discover")
    assert code == 0
    assert files(home) == ["jobs_discovered_TS.csv", "jobs_discovered_TS.summary.json"]
    assert "2 postings saved" in out
    assert "few.csv, line 4: it has no web address" in out
    (written,) = (home / "discovered").glob("*.csv")
    assert "\n'=cmd()," in written.read_text()


def test_enrich_also_writes_what_postings_are_and_how_good(told, home):
    (run,) = told("discover", "--enrich")
    assert files(home) == [
        "jobs_discovered_TS.csv",
        "jobs_discovered_TS.summary.json",
        "jobs_enriched_TS.json",
        "jobs_scored_TS.csv",
    ]
    assert (run["state"], run["kept"], run["enriched"], run["scored"]) == ("DONE", 2, 2, 2)
    assert [source["name"] for source in run["sources"]] == ["file:few.csv"]
    assert len(run["files"]) == 4
    assert all(run["run"] in name for name in run["files"])


def test_summary_only_writes_no_file_and_keeps_the_run(told, home):
    (run,) = told("discover", "--enrich", "--summary-only")
    assert (files(home), run["files"], run["kept"]) == ([], [], 2)
    assert told("runs", "list", "--kind", "discovery")[0]["run"] == run["run"]


def test_a_summary_alone_goes_where_one_says(told, home):
    (run,) = told("discover", "--summary-only", "--enrich", "--out-dir", "there")
    [path] = (home / "there").iterdir()
    assert path.name == f"jobs_discovered_{run['run']}.summary.json"
    summary = json.loads(path.read_text())
    assert summary["run_ts"] == run["run"]
    assert summary["counts"] == {"total_discovered": 3, "filtered_out": 1, "exported": 2}
    assert summary["per_source"]["malformed_entries"] == {"file:few.csv": 1}
    assert files(home) == []


def test_all_flags_together(told, home):
    rarely = {"scheduling.mode": "interval", "scheduling.interval_minutes": "100000"}
    flags = ("--schedule", "--enrich", "--out-dir", "here")
    (run,) = told("discover", *flags, **rarely)
    assert len(list((home / "here").iterdir())) == len(run["files"]) == 4
    assert told("discover", *flags, "--summary-only", **rarely) == []


def test_a_file_of_postings_as_scripts_wrote_it_keeps_source_and_date(told, home):
    (home / "few.csv").write_text((DATA / "jobs_discovered_20260205_010000.csv").read_text())
    (run,) = told("discover")
    [path] = [Path(each) for each in run["files"] if each.endswith(".csv")]
    before = sorted((DATA / "jobs_discovered_20260205_010000.csv").read_text().splitlines())
    assert sorted(path.read_text().splitlines()) == before
    assert run["reasons"] == []


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_columns_that_mean_nothing_to_us_are_named(told, stoker, home, kind):
    row = {"title": "Cook", "url": "https://a.test/1", "posted_dat": "2026-02-05", "Salary": "9"}
    lines = [",".join(row), ",".join(row.values())] if kind == "csv" else [json.dumps(row)]
    (home / f"odd.{kind}").write_text("\n".join(lines) + "\n")
    odd = {"discovery.sources": f"file:odd.{kind}"}
    (run,) = told("discover", **odd)
    said = "Columns used: url, title. Not used: posted_dat, Salary."
    assert run["reasons"] == [f"file:odd.{kind}: {said}"]
    assert run["state"] == "DONE"
    _, out, _ = stoker("sources", "test", **odd)
    assert said in out


def test_files_go_where_one_says(told, home):
    (run,) = told("discover", "--out", "elsewhere/below")
    assert sorted(path.name for path in (home / "elsewhere" / "below").iterdir()) == [
        f"jobs_discovered_{run['run']}.csv",
        f"jobs_discovered_{run['run']}.summary.json",
    ]


def test_old_files_go_from_our_place_and_stay_in_yours(told, home):
    old = "jobs_discovered_20010101_000000.csv"
    for place in ("discovered", "mine"):
        (home / place).mkdir()
        (home / place / old).write_text("")
    told("discover")
    assert (home / "discovered" / old).exists()  # retention is off
    keeps = {"retention.enabled": "true", "retention.days": "30"}
    told("discover", "--out", "mine", **keeps)
    assert (home / "discovered" / old).exists()
    told("discover", **keeps)
    assert not (home / "discovered" / old).exists()
    assert (home / "mine" / old).exists()


def test_with_schedule_only_what_is_due_runs_and_once(stoker, told):
    rarely = {"scheduling.mode": "interval", "scheduling.interval_minutes": "100000"}
    assert len(told("discover", "--schedule", "--summary-only", **rarely)) == 1
    code, out, _ = stoker("discover", "--schedule", **rarely)
    assert code == 0
    assert re.search(r"default: nothing is due; next at \d{4}-\d\d-\d\d \d\d:\d\d UTC", out)
    assert told("discover", "--schedule", **rarely) == []
    assert len(told("discover", **rarely)) == 1  # without it, now is always a good time


def test_with_schedule_a_schedule_that_is_off_is_said_so(stoker):
    code, _, err = stoker("discover", "--schedule", **{"scheduling.enabled": "false"})
    assert code == 2
    assert "scheduling.enabled is false for default" in err


def test_without_sources_it_says_what_to_do(stoker):
    code, _, err = stoker("discover", **{"discovery.sources": ";"})
    assert code == 2
    assert "default has no source of postings; set discovery.sources" in err


def test_a_source_that_fails_shows_in_table_and_exit_code(stoker, told, home):
    both = {"discovery.sources": "file:few.csv;file:none.csv"}
    code, out, _ = stoker("discover", **both)
    assert code == Exit.PARTIAL
    assert "1 of 2 sources could not be read" in out
    listed = told("sources", "list", **both)
    assert [(each["name"], each["state"], each["postings"]) for each in listed] == [
        ("file:few.csv", "read", 2),
        ("file:none.csv", "failed", 0),
    ]
    assert "cannot be read" in listed[1]["because"]


def test_each_of_several_tenants_has_its_own_sources_and_its_own_files(home, told):
    (home / "stoker.toml").write_text(
        '[tenants.acme.discovery]\nsources = ["file:few.csv"]\n[tenants.bolt]\n'
    )
    (run,) = told("discover")
    assert run["tenant"] == "acme"
    assert [path.name for path in (home / "discovered").iterdir()] == ["acme"]
    code = main(["-C", str(home), "discover", "--tenant", "bolt"])
    assert code == 2


def test_sources_that_were_never_tried_are_listed_so(stoker):
    code, out, _ = stoker("sources", "list")
    assert code == 0
    assert "never read" in out
    assert stoker("sources", "list", **{"discovery.sources": ";"})[1].startswith("no source is set")


def test_a_source_can_be_tried_before_it_is_set_and_nothing_is_kept(stoker, told, home):
    (home / "more.jsonl").write_text('{"title": "Cook", "url": "https://a.com/1"}\n')
    (tried,) = told("sources", "test", "file:more.jsonl")
    assert (tried["ok"], tried["postings"], tried["first"]) == (True, 1, "Cook")
    (tried,) = told("sources", "test")
    assert (tried["name"], tried["postings"], tried["rejected"]) == ("file:few.csv", 2, 1)
    assert tried["first_reject"] == "line 4: it has no web address"
    assert told("sources", "list")[0]["state"] is None
    code, out, _ = stoker("sources", "test", "file:none.csv")
    assert (code, "WRONG" in out) == (1, True)
    code, _, err = stoker("sources", "test", "monster:acme")
    assert (code, "not a source of postings" in err) == (2, True)


def test_boards_of_the_sandbox_are_read_and_asked_again_only_for_what_changed(told):
    with RunningBox(companies=50) as box:
        company = next(
            each
            for each in (box.world.get_company(at) for at in range(50))
            if each.board == "greenhouse" and list_openings(box.world, each, night=0)
        )
        many = len(list_openings(box.world, company, night=0))
        at = {
            "sandbox.address": box.box.address,
            "discovery.sources": f"greenhouse:{company.slug}",
            "boards.burst": "10",
        }
        (tried,) = told("sources", "test", **at)
        assert (tried["ok"], tried["postings"]) == (True, many)
        states = [told("discover", **at)[0]["sources"][0]["state"] for _ in range(2)]
        assert states == ["read", "unchanged"]
        assert told("sources", "list", **at)[0]["conditional"]


def test_a_secret_in_a_feeds_address_is_shown_nowhere(stoker, told):
    name = "feed:https://feeds.test/jobs.rss?token="
    feeds = {
        "discovery.sources": f"{name}s3cr3t-1; {name}s3cr3t-2 ; file:few.csv",
        "boards.calls": 100_000,
        "crawl.gap_s": 0.001,
    }
    stoker("stop", "--connector", "boards")  # so that nobody is asked
    code, out, err = stoker("discover", **feeds)
    assert code == Exit.PARTIAL
    assert f"{name}[secret] #2" in out
    words = (
        ("discover", "--json"),
        ("sources", "list"),
        ("sources", "list", "--json"),
        ("sources", "test", f"{name}[secret]"),
        ("sources", "test", "--json"),
        ("runs", "show", "latest"),
        ("runs", "show", "latest", "--json"),
        ("runs", "compare", "latest", "latest", "--json"),
        ("config", "show"),
        ("config", "show", "--json"),
        ("ledger", "show", "--json"),
        ("doctor",),
    )
    told_all = [out, err, *(part for each in words for part in stoker(*each, **feeds)[1:])]
    assert not [text for text in told_all if "s3cr3t" in text]
    shown = [each["name"] for each in told("sources", "list", **feeds)]
    assert shown == [f"{name}[secret]", f"{name}[secret] #2", "file:few.csv"]
