import csv
from itertools import islice
from pathlib import Path

import pytest
from stdnum.sg import uen

from running_box import RunningBox
from stoker.base.errors import ConfigError
from stoker.sandbox.world.companies import MAX_COMPANIES, World
from stoker.sandbox.world.register import COLUMNS, NOTHING, RELEASES, iterate_lines

WORLD = World(seed=5, size=4000)
SAMPLE = Path(__file__).parents[1] / "samples" / "acra_q_2025-12-31.csv"


def rows(release, **how):
    return list(csv.DictReader(iterate_lines(WORLD, release=release, **how)))


FIRST, SECOND = ({row["uen"]: row for row in rows(release)} for release in RELEASES)


def test_every_row_has_the_53_columns():
    assert len(COLUMNS) == 53
    for line in islice(iterate_lines(WORLD), 500):
        assert len(next(csv.reader([line]))) == 53
        assert line.endswith("\n")


def test_the_columns_are_those_of_the_published_register():
    with SAMPLE.open(encoding="utf-8") as sample:
        assert next(sample) == next(iterate_lines(WORLD))


def test_numbers_are_valid_and_no_number_stands_twice():
    assert all(uen.is_valid(number) for number in FIRST)
    assert len(FIRST) == len(rows(RELEASES[0]))


def test_what_is_missing_says_so_and_nothing_is_empty():
    cells = [cell for row in FIRST.values() for cell in row.values()]

    assert "" not in cells
    assert NOTHING in cells
    assert all(len(row["primary_ssic_code"]) in (4, 5) for row in FIRST.values())
    assert any(len(row["primary_ssic_code"]) == 4 for row in FIRST.values())
    assert any("," in row["entity_name"] for row in FIRST.values())


def test_two_releases_differ_as_real_ones_do():
    common = FIRST.keys() & SECOND.keys()
    changed = sum(FIRST[number] != SECOND[number] for number in common) / len(common)

    assert 0.06 < changed < 0.10
    assert 0.005 < len(SECOND.keys() - FIRST.keys()) / len(FIRST) < 0.03
    assert 0 < len(FIRST.keys() - SECOND.keys()) / len(FIRST) < 0.005


def test_a_row_describes_the_company_of_the_world():
    for number, row in islice(FIRST.items(), 100):
        company = WORLD.find_by_uen(number)
        assert row["entity_name"].replace(", PTE", " PTE") == company.name
        assert row["primary_ssic_code"].zfill(5) == company.ssic
        assert row["registration_incorporation_date"] == company.incorporated.isoformat()


def test_parts_cover_the_register_and_share_nothing():
    parts = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "Others"]
    found = [row["uen"] for part in parts for row in rows(RELEASES[0], part=part)]

    assert sorted(found) == sorted(FIRST)


def test_a_register_of_millions_begins_at_once():
    assert len(list(islice(iterate_lines(World(size=MAX_COMPANIES)), 100))) == 100


def test_a_release_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="there is no release"):
        next(iterate_lines(WORLD, release="1999-01-01"))


def test_the_register_is_served():
    with RunningBox(seed=5, companies=4000) as box:
        told = box.ask("sandbox.test", "GET", "/registry.csv?rows=300&release=2025-12-31")
        refused = box.ask("sandbox.test", "GET", "/registry.csv?release=never")

    assert told.body.decode() == "".join(iterate_lines(WORLD, rows=300, release="2025-12-31"))
    assert refused.status == 400
