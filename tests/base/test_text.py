import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.base.text import escape_cell, to_html_safe_json

texts = st.text(st.characters(exclude_categories=["Cs"]))
signs = st.sampled_from("=+-@\t\r\n|%＝＋－＠")
blanks = st.text(" \u00a0\ufeff\u200b", max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=10,
)


@given(blanks, signs, texts)
def test_whatever_begins_like_a_formula_gets_a_mark_in_front(before, sign, rest):
    text = before + sign + rest

    assert escape_cell(text) == "'" + text.replace("\0", "")


@pytest.mark.parametrize(
    "text",
    [
        *("\x0b=1", "\x0c=1", "\x01=1", "\x7f=1", "\u2060=1", "\u3000=1", "\u2028=1", "\u00ad=1"),
        *("﹦1", "﹢1", "﹣1", "﹫x", "⩵1", "｜x", "％x", "\0=1", "'", "'x"),
    ],
)
def test_so_does_what_some_program_may_read_as_one(text):
    assert str(escape_cell(text)).startswith("'")


@pytest.mark.parametrize(
    "text", ["", "a", "1+1", "a=b", "日本", "  x", "\u200b", "(=1)", "!x", "{", '"=']
)
def test_plain_text_stays_as_it_is(text):
    assert escape_cell(text) == text


@given(texts)
@example("'")
@example("''=1")
def test_a_cell_can_be_read_back(text):
    assert str(escape_cell(text)).removeprefix("'") == text.replace("\0", "")


@given(st.integers() | st.floats(allow_nan=False))
def test_a_number_stays_a_number(number):
    assert escape_cell(number) is number


def test_nothing_is_an_empty_cell():
    assert escape_cell(None) == ""


@given(values)
@example("</script>\u2028\u2029&<!--")
def test_json_is_inert_in_a_page_and_says_the_same(value):
    text = to_html_safe_json(value)

    assert text.isascii()
    assert not set(text) & set("<>&\n")
    assert json.loads(text) == value


def test_json_has_no_numbers_that_are_none():
    with pytest.raises(ValueError):
        to_html_safe_json(float("nan"))


@pytest.mark.parametrize(("text", "cell"), [("a\0b", "ab"), ("\0a", "a"), ("a\0=1", "a=1")])
def test_a_cell_has_no_nul(text, cell):
    assert escape_cell(text) == cell
