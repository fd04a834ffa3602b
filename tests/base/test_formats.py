import pytest

from stoker.base.formats import format_amount, format_amounts, format_count, format_few


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "company", "1 company"),
        (2, "company", "2 companies"),
        (0, "day", "0 days"),
        (1200, "match", "1,200 matches"),
    ],
)
def test_a_count_agrees_with_its_noun(number, noun, text):
    assert format_count(number, noun) == text


@pytest.mark.parametrize(
    ("unit", "amount", "text"),
    [
        ("calls", 1, "1 call"),
        ("tokens", 6428, "6,428 tokens"),
        ("money:USD", 89, "USD 0.89"),
        ("pull_units", 2, "2 pull units"),
    ],
)
def test_an_amount_is_read_with_its_unit(unit, amount, text):
    assert format_amount(unit, amount) == text


def test_amounts_are_listed_by_unit():
    assert format_amounts({"money:USD": 1, "calls": 2}) == "2 calls, USD 0.01"


def test_a_long_list_says_how_many_more_there_are():
    assert format_few(["a", "b"], limit=2) == "a, b"
    assert format_few(list("abcde"), limit=2) == "a, b and 3 more"
