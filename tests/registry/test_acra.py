"""One row of the register: what an entity is made of, what is refused, what is only odd."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum.sg import uen as numbers

from register_rows import number, row
from stoker.base.errors import PermanentError
from stoker.base.types import is_storable
from stoker.registry.acra import (
    MAX_CELL_LENGTH,
    REQUIRED_COLUMNS,
    AcraColumns,
    ParsedRow,
    find_uen_problem,
    is_live_status,
)
from stoker.sandbox.world.register import COLUMNS

cells = st.text(max_size=30) | st.sampled_from(["na", "", "\0", "\ud800", "2010-13-40", "٣٣٣٣٣"])


def read(**said):
    return AcraColumns(COLUMNS).parse_row(list(row(**said).values()))


def entity(**said):
    reading = read(**said)
    assert isinstance(reading, ParsedRow), reading
    return reading.entity


def doubts(**said):
    reading = read(**said)
    assert isinstance(reading, ParsedRow), reading
    return reading.doubts


def test_a_row_becomes_an_entity():
    found = entity(
        secondary_ssic_code="1111",
        former_entity_name2="OLDER",
        former_entity_name1="OLD",
        former_entity_name3="OLD",
        building_name="ANVIL HOUSE",
        primary_user_described_activity="SOFTWARE, MOSTLY",
    )

    assert found.uen == number(1)
    assert (found.kind, found.company_type) == (
        "Local Company",
        "Private Company Limited by Shares",
    )
    assert (found.status, found.live) == ("Live Company", True)
    assert found.registered_on == date(2010, 5, 17)
    assert (found.ssic, found.ssic_secondary) == ("62011", "01111")
    assert found.street == "12 FORGE STREET #03-04 ANVIL HOUSE"
    assert (found.postal_code, found.officers) == ("069538", 3)
    assert found.former_names == ("OLD", "OLDER")
    assert found.activity == "SOFTWARE, MOSTLY"
    assert doubts() == ()


def test_na_is_nothing_but_a_name_may_be_in_capitals():
    found = entity(street_name="na", block="na", level_no="na", unit_no="na", entity_name="NA")

    assert found.name == "NA"
    assert found.street == ""
    assert "street_name" not in found.raw
    assert "na" not in found.raw.values()


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("69538", "069538"),
        ("069538", "069538"),
        ("0104", "0104"),
        ("na", ""),
        ("SW1A 1AA", "SW1A 1AA"),
    ],
)
def test_a_postal_code_that_lost_its_zero_has_it_again_and_an_old_one_stays(told, kept):
    assert entity(postal_code=told).postal_code == kept


@pytest.mark.parametrize(("told", "kept"), [("1111", "01111"), ("62011", "62011"), ("na", "")])
def test_an_industry_has_five_digits(told, kept):
    assert entity(primary_ssic_code=told).ssic == kept


@pytest.mark.parametrize(
    ("status", "alive"),
    [
        ("Live Company", True),
        ("Live", True),
        ("Struck Off", False),
        ("Gazetted To Be Struck Off", False),
        ("In Liquidation - Members voluntary winding up", False),
        ("Dissolved - Compulsory Winding Up (Insolvency)", False),
        ("Converted To LLP", False),
        ("Delivered", None),
        ("Liverpool", None),
    ],
)
def test_a_status_says_whether_an_entity_is_in_business(status, alive):
    assert is_live_status(status) is alive


def test_a_status_nobody_knows_is_closed_and_a_doubt():
    assert not entity(entity_status_description="Hibernating").live
    assert doubts(entity_status_description="Hibernating") == ("status not known, taken as closed",)


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("registration_incorporation_date", "17/05/2010", "registered_on"),
        ("registration_incorporation_date", "2010-02-30", "registered_on"),
        ("no_of_officers", "-3", "officers"),
        ("no_of_officers", "1" * 40, "officers"),
    ],
)
def test_what_makes_no_sense_is_left_out_doubted_and_still_in_raw(column, value, field):
    assert getattr(entity(**{column: value}), field) is None
    assert len(doubts(**{column: value})) == 1
    assert entity(**{column: value}).raw[column] == value


def test_an_industry_that_is_no_code_is_left_out_and_doubted():
    assert entity(primary_ssic_code="6201X").ssic == ""
    assert doubts(primary_ssic_code="6201X") == ("industry that is no code",)


@pytest.mark.parametrize("column", REQUIRED_COLUMNS[:4])
def test_a_row_without_what_is_needed_says_what_is_missing(column):
    assert read(**{column: "na"}) == f"it has no {column}"


def test_a_row_with_a_monstrous_cell_or_no_number_is_refused():
    assert "more than" in read(street_name="x" * (MAX_CELL_LENGTH + 1))
    assert "several lines" in read(entity_name="ONE\nTWO")
    assert "no number" in read(uen="=cmd|' /C calc'!A0")
    assert "53" in AcraColumns(COLUMNS).parse_row(["na"] * 52)


def test_columns_may_come_in_any_order_and_case_and_with_more_of_them():
    said = row()
    shuffled = sorted(said, reverse=True)
    other = AcraColumns([*(name.upper() for name in shuffled), "Paid-up Capital"])
    reading = other.parse_row([*(said[name] for name in shuffled), "na"])

    assert isinstance(reading, ParsedRow)
    assert reading.entity == entity()
    more = other.parse_row([*(said[name] for name in shuffled), "100"])
    assert isinstance(more, ParsedRow)
    assert more.entity.raw["paid_up_capital"] == "100"
    assert more.entity.digest != entity().digest


@pytest.mark.parametrize("column", REQUIRED_COLUMNS)
def test_a_header_without_a_needed_column_is_refused_by_its_name(column):
    with pytest.raises(PermanentError, match=column):
        AcraColumns([name for name in COLUMNS if name != column])


def test_a_header_that_names_a_column_twice_is_refused():
    with pytest.raises(PermanentError, match="twice"):
        AcraColumns([*COLUMNS, "UEN "])


@given(st.dictionaries(st.sampled_from(COLUMNS), cells))
def test_no_row_is_ever_more_than_an_entity_that_can_be_kept_or_a_reason(said):
    reading = read(**said)

    if isinstance(reading, str):
        assert reading
    else:
        texts = [reading.entity.name, reading.entity.street, *reading.entity.raw.values()]
        assert all(is_storable(text) for text in texts)
        assert reading.entity.ssic == "" or len(reading.entity.ssic) == 5


@given(st.sampled_from(COLUMNS[2:]), st.text("abcXYZ019", min_size=1, max_size=8))
def test_two_rows_have_the_same_digest_only_if_they_say_the_same(column, value):
    one, other = entity(), read(**{column: value})
    if isinstance(other, ParsedRow):
        assert (one.digest == other.entity.digest) == (one.raw == other.entity.raw)


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
