import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.identifiers import (
    parse_employee_range,
    parse_founding_year,
    parse_postal_code,
    parse_uen,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("00192200M", "00192200M"),
        ("197401143C", "197401143C"),
        ("UEN: 197401143c", "197401143C"),
        ("197401143D", None),
        ("S16FC0121D", "S16FC0121D"),
        ("", None),
        ("１９７４０１１４３C", None),
    ],
)
def test_a_company_number_has_its_form_and_check_letter(text, number):
    assert parse_uen(text) == number


@pytest.mark.parametrize(
    ("text", "code"),
    [("Singapore 049315", "049315"), ("990000", None), ("12345", None), ("1234567", None)],
)
def test_a_postal_code_is_a_place_in_singapore(text, code):
    assert parse_postal_code(text) == code


@pytest.mark.parametrize(
    ("text", "year"),
    [("2009-04-01", "2009"), ("since 1999.", "1999"), ("12009", None), ("3009", None), ("", None)],
)
def test_a_year_is_one_a_company_can_be_from(text, year):
    assert parse_founding_year(text) == year


@pytest.mark.parametrize(
    ("text", "employees"),
    [
        ("50", "50"),
        ("50-100", "50-100"),
        ("50 – 100 people", "50-100"),
        ("1,200+", "1200"),
        ("about 35", "35"),
        ("0", None),
        ("100-50", None),
        ("9999999", None),
        ("many", None),
    ],
)
def test_a_number_of_employees_is_a_number_or_a_range(text, employees):
    assert parse_employee_range(text) == employees


@given(st.text(max_size=300))
def test_no_text_makes_them_raise(text):
    for fact in (parse_uen, parse_postal_code, parse_founding_year, parse_employee_range):
        assert fact(text) is None or fact(text).isascii()
