"""Entities' numbers, names of files, releases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.sg import uen as numbers

from register_rows import number
from stoker.base.errors import ConfigError
from stoker.registry.acra import find_uen_problem
from stoker.registry.model import PARTS
from stoker.registry.releases import (
    find_part,
    find_part_in_name,
    find_release_in_name,
    parse_release,
)


@given(st.integers(0, 99_999), st.integers(1900, 2026))
def test_a_number_as_the_register_gives_them_is_no_doubt(index, year):
    assert find_uen_problem(number(index, year=year)) == ""


@given(st.integers(0, 99_999), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
def test_another_check_letter_is_a_doubt(index, letter):
    right = number(index)
    assert bool(find_uen_problem(right[:-1] + letter)) == (letter != right[-1])


@pytest.mark.parametrize("uen", ["00192200M", "197401143C", "S16FC0121D", "T01FC6132D"])
def test_numbers_of_every_kind_are_known(uen):
    assert numbers.is_valid(uen)
    assert find_uen_problem(uen) == ""


@pytest.mark.parametrize("uen", ["T23VC0219C", "T23YY0219C", "ABCDEFGH", "1234567890"])
def test_a_kind_or_a_shape_not_known_is_a_doubt_and_no_more(uen):
    assert "not known" in find_uen_problem(uen)


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_is_told_by_the_names_its_publisher_gives(part):
    assert find_part_in_name(f"ACRA Information on Corporate Entities ('{part}')") == part
    assert find_part_in_name(f"ACRAInformationonCorporateEntities{part}.csv") == part
    assert find_part(f" {part.lower()} ") == part


@pytest.mark.parametrize(
    "name", ["acra_q_2025-12-31.csv.gz", "Q.csv", "ACRA Information on Corporate Entities.csv", ""]
)
def test_no_other_name_tells_a_part(name):
    assert find_part_in_name(name) is None


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("acra_q_2025-12-31.csv.gz", "2025-12-31"),
        ("register20250930.csv", "2025-09-30"),
        ("acra_2025-02-31.csv", None),
        ("acra_120251231.csv", None),
        ("acra.csv", None),
    ],
)
def test_a_release_is_told_by_a_date_in_a_name(name, release):
    assert find_release_in_name(name) == release


def test_a_release_is_a_date():
    assert parse_release(" 2025-12-31 ") == "2025-12-31"
    with pytest.raises(ConfigError, match="2025-12-31"):
        parse_release("latest")
