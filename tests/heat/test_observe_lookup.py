"""What one look teaches: which facets it saw, whether they differ, what of it is news."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.model import Bucket, Company, CompanyId, CompanyRecord, Contact, LeadScore
from stoker.base.types import Depth
from stoker.crawl.model import PageState, SiteVisit, VisitOutcome
from stoker.heat.model import SignalKind
from stoker.heat.signals import observe_lookup

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
EARLIER = NOW - timedelta(days=3)
COMPANY = Company(id=CompanyId("200012345K"), name="Acme", website="https://a.test")
UNKNOWN = replace(COMPANY, website="")
LOW = LeadScore(value=0.2, bucket=Bucket.LOW, features={}, feature_hash="x", rationale="so")
HIGH = LeadScore(value=0.9, bucket=Bucket.HIGH, features={}, feature_hash="y", rationale="so")


def page(changed_at):
    return PageState(url="https://a.test/", status=200, seen_at=NOW, changed_at=changed_at)


def visit(outcome, *pages):
    return SiteVisit(site="https://a.test", outcome=outcome, reason="so", seen=pages)


def taught(visited, *, depth=Depth.DEEP, before=None, after=None, **known):
    before = before or CompanyRecord(company=COMPANY, looked_at=EARLIER, **known)
    after = after or CompanyRecord(company=COMPANY, looked_at=NOW)
    return observe_lookup(
        look="run/k", depth=depth, visit=visited, before=before, after=after, at=NOW
    )


@pytest.mark.parametrize(
    ("visited", "changed"),
    [
        (visit(VisitOutcome.READ, page(NOW), page(EARLIER)), True),
        (visit(VisitOutcome.READ, page(EARLIER)), False),
        (visit(VisitOutcome.THIN, page(NOW)), True),
        (visit(VisitOutcome.UNCHANGED, page(EARLIER)), False),
        (visit(VisitOutcome.BLOCKED), False),
        (visit(VisitOutcome.FAILED), False),
        (visit(VisitOutcome.GONE), False),
        (None, False),
    ],
)
def test_only_a_page_that_says_something_new_is_a_change(visited, changed):
    told = taught(visited)
    assert told.observed.surface is changed
    assert [each.kind for each in told.signals] == [SignalKind.SITE_CHANGED] * changed


def test_nothing_a_first_look_finds_is_news():
    first = taught(
        visit(VisitOutcome.READ, page(NOW)),
        before=CompanyRecord(company=COMPANY),
        after=CompanyRecord(company=COMPANY, looked_at=NOW, score=HIGH),
    )
    assert first.signals == ()
    assert first.observed.surface is True


def test_nothing_is_news_when_a_site_is_first_found():
    told = taught(
        visit(VisitOutcome.READ, page(NOW)),
        before=CompanyRecord(company=UNKNOWN, looked_at=EARLIER, score=LOW),
        after=CompanyRecord(company=COMPANY, looked_at=NOW, score=HIGH),
    )
    assert told.signals == ()


def test_a_shallow_look_sees_nothing_deep_and_a_deep_one_whether_people_changed():
    met = Contact(email="a@a.test", source="site", confidence=1.0)
    known = CompanyRecord(company=COMPANY, looked_at=NOW, contacts=(met,))
    assert taught(None, depth=Depth.SHALLOW, after=known).observed.deep is None
    assert taught(None, after=known).observed.deep is True
    assert taught(None, before=known, after=known).observed.deep is False


def test_a_lead_that_became_a_better_one_is_news():
    after = CompanyRecord(company=COMPANY, looked_at=NOW, score=HIGH)
    told = taught(None, after=after, score=LOW)
    assert [each.kind for each in told.signals] == [SignalKind.LEAD_SCORE]


def test_what_is_told_twice_is_the_same():
    one = visit(VisitOutcome.READ, page(NOW))
    assert taught(one) == taught(one)
