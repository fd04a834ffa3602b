"""The register over two releases: real files where they are at hand, and all of a made-up one."""

import csv
import gzip
import json
from pathlib import Path

import pytest

import pg
from running_box import RunningBox
from stoker.cli.main import main
from stoker.core.ssic import SECTIONS, section_of

DATA = Path(__file__).parents[3] / "shared" / "data"
ONE, TWO = DATA / "acra_q_2025-09-30.csv.gz", DATA / "acra_q_2025-12-31.csv.gz"
FAST = ("--set", "datagov_downloads.calls=1000000", "--set", "datagov.calls=1000000")
real_files = pytest.mark.skipif(
    not (ONE.exists() and TWO.exists()), reason="the real files are not on this machine"
)


@pytest.fixture(params=["sqlite", "postgres"])
def stoker(request, tmp_path, capsys):
    settings = [*FAST, "--set", "storage.sqlite_path=register.db"]  # also of what is rehearsed
    if request.param == "postgres":
        if reason := pg.why_no_postgres():
            pytest.skip(reason)
        _, url = pg.fresh_database(pg.session_server())
        settings += ["--set", "storage.backend=postgres", "--set", f"storage.postgres_url={url}"]

    def stoker(*arguments):
        code = main(["-C", str(tmp_path), *settings, "registry", *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return stoker


def by_number(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return {row["uen"]: row for row in csv.DictReader(stream)}


@real_files
def test_the_real_files_are_read_without_a_reject_and_give_the_real_difference(stoker):
    before, after = by_number(ONE), by_number(TWO)
    new = sum(uen not in before for uen in after)
    changed = sum(uen in before and before[uen] != row for uen, row in after.items())

    code, told = stoker("import", str(TWO), str(ONE))
    first, second = told["files"]
    assert code == 0
    assert (first["new"], first["rejected"], first["doubts"]) == (len(before), 0, {})
    assert (second["new"], second["changed"], second["same"], second["rejected"]) == (
        new,
        changed,
        len(after) - new - changed,
        0,
    )
    assert second["gone"] == 0
    assert stoker("status")[1]["counts"].keys() == {"live", "closed"}
    assert sum(stoker("status")[1]["counts"].values()) == len(before.keys() | after.keys())

    _, again = stoker("import", str(ONE), str(TWO))
    assert all(each["before"] for each in again["files"])
    _, forced = stoker("import", str(TWO), "--again")
    assert forced["files"][0]["same"] == len(after)


@real_files
@pytest.mark.parametrize("version", ["2020", "2025"])
def test_real_classifications_are_read_whole_and_agree_with_our_sections(stoker, version):
    file = DATA / f"ssic{version}_codes.csv"
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))

    code, told = stoker("ssic", "import", str(file), "--version", version)
    assert (code, told["codes"], told["left_out"]) == (0, len(rows), 0)
    assert {row["code"] for row in rows if row["level"] == "section"} == SECTIONS[version].keys()
    section = ""
    for row in rows:
        section = row["code"] if row["level"] == "section" else section
        assert section in (row["code"], section_of(row["code"], version=version))


def test_a_whole_register_is_downloaded_twice_and_who_is_missing_then_is_gone(stoker):
    with RunningBox(companies=1_500) as box:
        where = ("--sandbox", box.box.address)
        _, first = stoker("import", "--download", *where)
        box.dials.turn("data_gov.night", 1)
        _, second = stoker("import", "--download", *where)
        _, third = stoker("import", "--download", *where)

    assert len(first["files"]) == len(second["files"]) == 27
    assert sum(each["rejected"] for each in first["files"] + second["files"]) == 0
    assert sum(each["changed"] for each in second["files"]) > 50
    gone = sum(each["gone"] for each in second["files"])
    assert gone == stoker("status")[1]["counts"].get("gone", 0) > 0
    assert all(each["before"] for each in third["files"])
