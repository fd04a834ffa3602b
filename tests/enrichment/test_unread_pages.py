"""What a shallow look saw waits for a deep one, and is read by it once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.crawl.model import Page, PageState, SiteVisit, VisitOutcome
from stoker.enrichment.site_facts import build_unread_note, has_unread_pages, restore_change_dates

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
THEN = NOW - timedelta(days=9)


def seen(url="https://a.test/", fingerprint="one", at=NOW):
    return PageState(url=url, status=200, fingerprint=fingerprint, seen_at=NOW, changed_at=at)


def visit(outcome, *pages):
    read = tuple(Page(url=each.url, kind="home", title="", text="", seen=each) for each in pages)
    return SiteVisit(site="https://a.test", outcome=outcome, reason="so", seen=pages, pages=read)


@pytest.mark.parametrize("outcome", [VisitOutcome.READ, VisitOutcome.THIN])
def test_what_was_only_seen_waits_and_what_was_read_does_not(outcome):
    assert has_unread_pages(build_unread_note(visit(outcome, seen()), read=False))
    assert not has_unread_pages(build_unread_note(visit(outcome, seen()), read=True))


@pytest.mark.parametrize(
    "outcome", [each for each in VisitOutcome if each not in (VisitOutcome.READ, VisitOutcome.THIN)]
)
def test_a_visit_that_brought_nothing_leaves_the_note_as_it_was(outcome):
    assert build_unread_note(visit(outcome), read=True) == {}
    assert build_unread_note(None, read=False) == {}
    assert not has_unread_pages({})


def test_pages_given_again_have_changed_when_they_really_did():
    same, other = seen(), seen(url="https://a.test/b", fingerprint="two")
    known = [replace(same, changed_at=THEN), replace(other, fingerprint="old", changed_at=THEN)]
    told = restore_change_dates(visit(VisitOutcome.READ, same, other), known)
    assert [page.changed_at for page in told.seen] == [THEN, NOW]
    assert [page.seen.changed_at for page in told.pages] == [THEN, NOW]
