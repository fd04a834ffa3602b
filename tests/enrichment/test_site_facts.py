from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.facts import Fact, FactField, Method
from stoker.crawl.model import Page, PageState, SiteVisit, VisitOutcome
from stoker.enrichment.site_facts import MAX_FACTS, merge_visit

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOME = "https://acme.sg/"


def finding(value, source=HOME, field=FactField.EMAIL):
    return Fact.build(field, value, source=source, how=Method.TEXT, confidence=0.5)


def visit(text, *, outcome=VisitOutcome.READ, changed=True):
    seen = PageState(
        url=HOME,
        status=200,
        seen_at=NOON,
        changed_at=NOON if changed else NOON - timedelta(days=1),
    )
    page = Page(url=HOME, kind="home", title="Acme", text=text, markup=b"", seen=seen)
    return SiteVisit(site="acme.sg", outcome=outcome, reason="", pages=(page,))


OLD = finding("old@acme.sg")


def test_a_page_that_changed_and_no_longer_says_it_takes_its_value_back():
    assert merge_visit([OLD], [], visit("Write to new@acme.sg")) == ()


def test_a_page_that_changed_and_still_says_it_keeps_its_value():
    assert merge_visit([OLD], [], visit("New: write to OLD@acme.sg")) == (OLD,)


@pytest.mark.parametrize(
    "seen",
    [
        None,
        visit("nothing", changed=False),
        visit("nothing", outcome=VisitOutcome.THIN),
        visit("nothing", outcome=VisitOutcome.UNCHANGED),
        visit("nothing", outcome=VisitOutcome.BLOCKED),
    ],
)
def test_what_nobody_took_back_stays(seen):
    assert merge_visit([OLD], [], seen) == (OLD,)


def test_what_others_said_stays_whatever_the_site_says():
    told = finding("old@acme.sg", source="https://directory.test/acme")
    assert merge_visit([told], [], visit("something else")) == (told,)


def test_what_was_found_now_comes_first_and_there_is_an_end():
    new = [finding(f"n{n}@acme.sg") for n in range(MAX_FACTS + 5)]
    known = merge_visit([OLD], new, None)
    assert known[0] == new[0]
    assert len(known) == MAX_FACTS
