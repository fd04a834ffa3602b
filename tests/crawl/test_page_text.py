from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from stoker.crawl.model import Page, PageState, build_corpus

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def page(text, *, kind="about"):
    url = f"http://acme.test/{kind}"
    seen = PageState(url=url, status=200, seen_at=NOON, changed_at=NOON)
    return Page(url=url, kind=kind, title="", text=text, markup=b"", seen=seen)


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
