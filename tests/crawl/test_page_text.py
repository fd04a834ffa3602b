from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.crawl.model import (
    MIN_TEXT_LENGTH,
    Page,
    PageState,
    PageType,
    VisitOutcome,
    build_corpus,
    classify_page,
    compute_exact_fingerprint,
    compute_fingerprint,
    find_page_end,
    find_status_end,
    get_visit_end,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def page(text, *, kind="about"):
    url = f"http://acme.test/{kind}"
    seen = PageState(url=url, status=200, seen_at=NOON, changed_at=NOON)
    return Page(url=url, kind=kind, title="", text=text, seen=seen)


@given(st.lists(st.text(max_size=300), max_size=8), st.integers(0, 500))
def test_a_corpus_is_never_longer_than_asked_for(texts, most):
    assert len(build_corpus([page(text) for text in texts], most=most)) <= most


def test_a_line_that_stands_on_every_page_stands_once():
    pages = [page("Menu\nWe make anvils", kind="home"), page("Menu\nCall us", kind="contact")]

    assert build_corpus(pages, most=1000) == (
        "[home] http://acme.test/home\nMenu\nWe make anvils\n"
        "[contact] http://acme.test/contact\nCall us"
    )


def test_a_long_page_does_not_crowd_out_the_others():
    pages = [page("\n".join(f"line {n}" for n in range(9999)), kind="home"), page("Call us at 12")]

    assert "Call us at 12" in build_corpus(pages, most=500)


def test_room_that_a_short_page_leaves_goes_to_the_next():
    pages = [page("short", kind="home"), page("\n".join(f"line {n}" for n in range(9999)))]

    assert len(build_corpus(pages, most=500)) == 500


def test_pages_without_words_are_left_out():
    assert build_corpus([page("  \n ")], most=100) == ""


PAGE = "Acme Pte Ltd\nWe make anvils since 1999.\nFrom $120. Call +65 6123 4567."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Generated 2026-11-16 04:05:06", "Generated 2026-11-17 23:59:59"),
        ("2026-11-16T04:05:06.123Z", "2026-11-17T05:06:07Z"),
        ("Mon, 16 Nov 2026 04:05:06", "Tue, 17 Nov 2026 05:06:07"),
        ("It is 10:11:12", "It is 13:14:15"),
        ("1,024 views", "1,031 views"),
        ("Visitors: 77", "Visitors: 78"),
        ("Page generated in 0.123 seconds", "Page generated in 0.087 seconds"),
        ("nonce 5f2c1d3e9a8b7c6d5e4f3a2b", "nonce 1a2b3c4d5e6f7a8b9c0d1e2f"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-42661417400f"),
        ("© 2025 Acme", "© 2026 Acme"),
        ("a   b\n\nc", "A b c"),
    ],
)
def test_what_differs_on_every_visit_does_not_count(one, other):
    assert compute_fingerprint(PAGE, one) == compute_fingerprint(PAGE, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [("$120", "$130"), ("anvils", "hammers"), ("4567", "4568"), ("1999", "1998"), ("Acme", "Apex")],
)
def test_prices_words_numbers_and_names_count(old, new):
    assert compute_fingerprint(PAGE) != compute_fingerprint(PAGE.replace(old, new))


@given(st.text(), st.text())
def test_the_same_words_have_the_same_fingerprint_however_they_are_spaced(one, other):
    assert compute_fingerprint(one, other) == compute_fingerprint(f" {one}\n", f"\t{other}  ")
    assert compute_fingerprint(one, other) == compute_fingerprint(one, other)


@given(st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_exact_fingerprints_differ_when_anything_does(one, other):
    clean = [
        [t.replace("\0", "").encode("utf-8", "replace") for t in some] for some in (one, other)
    ]
    if clean[0] != clean[1] and not any("\0" in text for text in one + other):
        assert compute_exact_fingerprint(one) != compute_exact_fingerprint(other)


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
