"""The register over two releases: small files of our own in its format, and a made-up one."""

import csv
import gzip
import json
from pathlib import Path

import pytest

import pg
from running_box import RunningBox
from stoker.cli.main import main
from stoker.registry.ssic import SECTIONS, find_section

SAMPLES = Path(__file__).parents[1] / "samples"
FAST = ("--set", "datagov_downloads.calls=1000000", "--set", "datagov.calls=1000000")


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


def packed(name, folder):
    path = folder / f"{name}.gz"
    path.write_bytes(gzip.compress((SAMPLES / name).read_bytes()))
    return path


def test_two_releases_are_read_without_a_reject_and_give_their_difference(stoker, tmp_path):
    older = packed("acra_q_2025-09-30.csv", tmp_path)
    newer = packed("acra_q_2025-12-31.csv", tmp_path)
    before, after = by_number(older), by_number(newer)
    new = sum(uen not in before for uen in after)
    changed = sum(uen in before and before[uen] != row for uen, row in after.items())

    code, told = stoker("import", str(newer), str(older))
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

    _, again = stoker("import", str(older), str(newer))
    assert all(each["before"] for each in again["files"])
    _, forced = stoker("import", str(newer), "--again")
    assert forced["files"][0]["same"] == len(after)


@pytest.mark.parametrize("version", ["2020", "2025"])
def test_classifications_are_read_whole_and_agree_with_our_sections(stoker, version):
    file = SAMPLES / f"ssic{version}_codes.csv"
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))

    code, told = stoker("ssic", "import", str(file), "--version", version)
    assert (code, told["codes"], told["left_out"]) == (0, len(rows), 0)
    assert {row["code"] for row in rows if row["level"] == "section"} == SECTIONS[version].keys()
    section = ""
    for row in rows:
        section = row["code"] if row["level"] == "section" else section
        assert section in (row["code"], find_section(row["code"], version=version))


def test_a_whole_register_is_downloaded_twice_and_who_is_missing_then_is_gone(stoker):
    with RunningBox(companies=1_500) as box:
        where = ("--sandbox", box.box.address)
        _, first = stoker("import", "--download", *where)
        box.faults.set_value("data_gov.night", 1)
        _, second = stoker("import", "--download", *where)
        _, third = stoker("import", "--download", *where)

    assert len(first["files"]) == len(second["files"]) == 27
    assert sum(each["rejected"] for each in first["files"] + second["files"]) == 0
    assert sum(each["changed"] for each in second["files"]) > 50
    gone = sum(each["gone"] for each in second["files"])
    assert gone == stoker("status")[1]["counts"].get("gone", 0) > 0
    assert all(each["before"] for each in third["files"])
