"""What a shallow look saw waits for a deep one, and is read by it once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.crawl.model import Outcome, Page, PageSeen, SiteVisit
from stoker.enrichment.site_facts import as_remembered, noted_reading, waits_for_reading

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
THEN = NOW - timedelta(days=9)


def seen(url="https://a.test/", fingerprint="one", at=NOW):
    return PageSeen(url=url, status=200, fingerprint=fingerprint, seen_at=NOW, changed_at=at)


def visit(outcome, *pages):
    read = tuple(
        Page(url=each.url, kind="home", title="", text="", markup=b"", seen=each) for each in pages
    )
    return SiteVisit(site="https://a.test", outcome=outcome, reason="so", seen=pages, pages=read)


@pytest.mark.parametrize("outcome", [Outcome.READ, Outcome.THIN])
def test_what_was_only_seen_waits_and_what_was_read_does_not(outcome):
    assert waits_for_reading(noted_reading(visit(outcome, seen()), read=False))
    assert not waits_for_reading(noted_reading(visit(outcome, seen()), read=True))


@pytest.mark.parametrize(
    "outcome", [each for each in Outcome if each not in (Outcome.READ, Outcome.THIN)]
)
def test_a_visit_that_brought_nothing_leaves_the_note_as_it_was(outcome):
    assert noted_reading(visit(outcome), read=True) == {}
    assert noted_reading(None, read=False) == {}
    assert not waits_for_reading({})


def test_pages_given_again_have_changed_when_they_really_did():
    same, other = seen(), seen(url="https://a.test/b", fingerprint="two")
    known = [replace(same, changed_at=THEN), replace(other, fingerprint="old", changed_at=THEN)]
    told = as_remembered(visit(Outcome.READ, same, other), known)
    assert [page.changed_at for page in told.seen] == [THEN, NOW]
    assert [page.seen.changed_at for page in told.pages] == [THEN, NOW]
