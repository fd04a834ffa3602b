from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.evidence import LONGEST_EVIDENCE, Evidence, folded, says, says_number, visible

TEXT = (
    "ACME Pte. Ltd. — since 2009,\n  with 1,200 people.\u200b Call +65 6123 4567 or e\u2019mail us."
)


def test_spaces_case_and_unseen_letters_do_not_count():
    evidence = Evidence(TEXT)
    assert evidence.holds("acme pte. ltd. - SINCE 2009, with 1,200")
    assert evidence.holds("e'mail us")
    assert Evidence("A\u200bc\u00adme").holds("acme")


def test_words_that_are_not_there_or_not_in_a_row_are_not_held():
    evidence = Evidence(TEXT)
    assert not evidence.holds("ACME Pte. Ltd. with 1,200 people")
    assert not evidence.holds("")
    assert not evidence.holds(" \u200b ")


def test_a_part_of_a_word_or_number_is_something_else():
    assert not says("founded in 2012", "12")
    assert not says("acmeville", "acme")
    assert says("acme-ville", "acme")
    assert says("株式会社アクメ東京", "アクメ")


def test_a_later_whole_word_is_found_behind_a_part_of_one():
    assert says("acmeville is not acme", "acme")


def test_numbers_are_found_however_they_are_grouped():
    assert says_number("Call +65 6123-4567", "6561234567")
    assert says_number("1,200 people", "1200")
    assert says_number("50-100 employees", "100")
    assert not says_number("since 2009", "200")
    assert not says_number("no digits", "")


def test_evidence_longer_than_its_bound_proves_nothing():
    text = "word " * 1_000
    assert Evidence(text).holds(text[:LONGEST_EVIDENCE].strip())
    assert not Evidence(text).holds(text[: LONGEST_EVIDENCE + 50])


@given(st.text(max_size=200), st.text(max_size=20))
def test_nothing_is_held_that_the_folded_text_does_not_contain(text, words):
    if Evidence(text).holds(words):
        assert folded(words) in folded(text)


@given(st.text(max_size=80), st.text(max_size=80), st.text(min_size=1, max_size=40))
def test_words_between_spaces_are_always_held(before, after, words):
    if folded(words) and folded(f"{before} {words} {after}").find(folded(words)) >= 0:
        assert Evidence(f"{before} {words} {after}").holds(words)


@given(st.text(max_size=200))
def test_what_is_seen_once_is_seen_the_same_again(text):
    assert visible(visible(text)) == visible(text)
    assert not {"\u200b", "\u202e", "\x00", "\x1b"} & set(visible(text))
