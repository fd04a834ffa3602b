import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.counted_work import counted_calls
from stoker.accounts.evidence import (
    MAX_EVIDENCE_LENGTH,
    MAX_MARKS,
    Evidence,
    contains_number,
    contains_words,
    normalize_text,
    strip_invisible,
)

TEXT = (
    "ACME Pte. Ltd. — since 2009,\n  with 1,200 people.\u200b Call +65 6123 4567 or e\u2019mail us."
)


def test_spaces_case_and_unseen_letters_do_not_count():
    evidence = Evidence(TEXT)
    assert evidence.contains("acme pte. ltd. - SINCE 2009, with 1,200")
    assert evidence.contains("e'mail us")
    assert Evidence("A\u200bc\u00adme").contains("acme")


def test_words_that_are_not_there_or_not_in_a_row_are_not_held():
    evidence = Evidence(TEXT)
    assert not evidence.contains("ACME Pte. Ltd. with 1,200 people")
    assert not evidence.contains("")
    assert not evidence.contains(" \u200b ")


def test_a_part_of_a_word_or_number_is_something_else():
    assert not contains_words("founded in 2012", "12")
    assert not contains_words("acmeville", "acme")
    assert contains_words("acme-ville", "acme")
    assert contains_words("株式会社アクメ東京", "アクメ")


def test_a_later_whole_word_is_found_behind_a_part_of_one():
    assert contains_words("acmeville is not acme", "acme")


@pytest.mark.parametrize(("text", "words"), [("a", "a" * 599), ("ab ", "ab " * 190 + "a")])
def test_a_claim_is_checked_in_one_search_however_often_it_nearly_stands_there(text, words):
    evidence = Evidence(text * 30_000)
    with counted_calls() as calls:
        assert not evidence.contains(words)
    assert calls.total() < 50


def test_numbers_are_found_however_they_are_grouped():
    assert contains_number("Call +65 6123-4567", "6561234567")
    assert contains_number("1,200 people", "1200")
    assert contains_number("50-100 employees", "100")
    assert not contains_number("since 2009", "200")
    assert not contains_number("no digits", "")


def test_evidence_longer_than_its_bound_proves_nothing():
    text = "word " * 1_000
    assert Evidence(text).contains(text[:MAX_EVIDENCE_LENGTH].strip())
    assert not Evidence(text).contains(text[: MAX_EVIDENCE_LENGTH + 50])


@given(st.text(max_size=200), st.text(max_size=20))
def test_nothing_is_held_that_the_folded_text_does_not_contain(text, words):
    if Evidence(text).contains(words):
        assert normalize_text(words) in normalize_text(text)


@given(st.text(max_size=80), st.text(max_size=80), st.text(min_size=1, max_size=40))
def test_words_between_spaces_are_always_held(before, after, words):
    if (
        normalize_text(words)
        and normalize_text(f"{before} {words} {after}").find(normalize_text(words)) >= 0
    ):
        assert Evidence(f"{before} {words} {after}").contains(words)


@given(st.text(max_size=200))
def test_what_is_seen_once_is_seen_the_same_again(text):
    assert strip_invisible(strip_invisible(text)) == strip_invisible(text)
    assert not {"\u200b", "\u202e", "\x00", "\x1b"} & set(strip_invisible(text))


@pytest.mark.parametrize("letter", ["a", "ก", ""])
def test_one_letter_has_so_many_accents_and_no_more(letter):
    # Accents of two classes in turn: putting them in order takes the square of their number.
    text = normalize_text(f"b {letter}" + "\u0300\u0316" * 100_000 + " c")
    assert len(text) <= len("b a c") + MAX_MARKS
    assert normalize_text("tiê\u0301ng e\u0301te\u0301") == normalize_text("tiế\u006eg été")
