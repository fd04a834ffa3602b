import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.crawl.model import (
    MIN_TEXT_LENGTH,
    PageType,
    VisitOutcome,
    classify_page,
    find_page_end,
    find_status_end,
    get_visit_end,
)


def nature(text, *, title="", password=False, script=False):
    return classify_page(title=title, text=text, asks_for_password=password, wants_script=script)


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        ("Checking your browser before you go on", "", PageType.CHALLENGE),
        ("", "Just a moment...", PageType.CHALLENGE),
        ("Please verify you are human", "", PageType.CHALLENGE),
        ("This domain is for sale", "", PageType.PARKED),
        ("Buy this domain", "", PageType.PARKED),
        ("Accept cookies to go on.", "", PageType.COOKIE_WALL),
        ("Oops! We cannot find that page.", "Not found", PageType.MISSING),
        ("We make anvils.", "Acme", PageType.PAGE),
    ],
)
def test_pages_that_are_not_for_visitors_are_told_by_their_words(text, title, expected):
    assert nature(text, title=title) is expected


def test_a_page_that_asks_for_a_password_and_says_little_is_a_login():
    assert nature("Sign in", password=True) is PageType.LOGIN
    assert nature("We make anvils. " * 100, password=True) is PageType.PAGE


def test_a_shell_is_told_by_having_no_words_of_its_own():
    assert nature("", script=True) is PageType.SHELL
    assert nature("We make anvils. " * 30, script=True) is PageType.PAGE


@given(st.text(min_size=1600))
def test_a_page_with_much_to_say_is_a_page_whatever_it_says(text):
    assert nature(text) is PageType.PAGE


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((401, "blocked"), (403, "blocked"), (404, "gone"), (410, "gone"), (429, "failed")),
        *((451, "blocked"), (500, "failed"), (503, "failed"), (418, "failed"), (204, "failed")),
    ],
)
def test_a_home_page_that_does_not_come_ends_the_visit(status, outcome):
    ending = find_status_end(status)

    assert ending is not None
    assert ending.outcome == outcome
    assert str(status) in ending.reason


def test_a_home_page_that_comes_or_is_as_it_was_does_not():
    assert find_status_end(200) is None
    assert find_status_end(304) is None


def test_every_nature_but_a_page_is_an_end_with_a_sentence():
    for each in PageType:
        ending = find_page_end(each)
        assert (ending is None) == (each is PageType.PAGE)
        assert ending is None or len(ending.reason) > 20


counts = st.integers(0, 6)


@given(counts, counts, counts, st.integers(0, 1000))
def test_a_visit_is_unchanged_exactly_when_something_answered_and_nothing_was_new(
    read, changed, not_modified, letters
):
    changed = min(changed, read)
    ending = get_visit_end(read=read, changed=changed, not_modified=not_modified, letters=letters)

    same = not changed and read + not_modified > 0
    assert (ending.outcome is VisitOutcome.UNCHANGED) == same


def test_a_site_that_says_next_to_nothing_is_thin():
    ending = get_visit_end(read=1, changed=1, not_modified=0, letters=MIN_TEXT_LENGTH - 1)

    assert ending.outcome is VisitOutcome.THIN
