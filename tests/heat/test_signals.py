"""Signals out of tables: each row a signal, or the reason why it is none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    EmailStatus,
    LeadScore,
)
from stoker.base.types import Depth
from stoker.crawl.model import PageState, SiteVisit, VisitOutcome
from stoker.heat.model import Signal, SignalKind
from stoker.heat.signals import (
    MIN_POSTURE,
    SIGNAL_COLUMNS,
    compute_posture,
    observe_lookup,
    parse_signal,
)

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
ZONE = ZoneInfo("Asia/Singapore")
GOOD = {"account": "200012345K", "at": "2026-11-15T10:00:00Z"}


def read(**more):
    return parse_signal({**GOOD, **more}, zone=ZONE, now=NOW)


def test_a_row_with_account_and_time_is_a_signal_of_full_strength():
    told = read()
    assert told == Signal(
        id=told.id,
        account="200012345K",
        kind=SignalKind.IMPORTED,
        at=datetime(2026, 11, 15, 10, tzinfo=UTC),
        strength=1.0,
    )


def test_a_time_without_a_zone_is_the_tenants_own():
    assert read(at="2026-11-15 10:00").at == datetime(2026, 11, 15, 2, tzinfo=UTC)


def test_the_same_row_is_the_same_signal_and_another_is_another():
    assert read().id == read().id
    assert len({read().id, read(strength="0.5").id, read(source="x").id, read(id="7").id}) == 4


@pytest.mark.parametrize(
    ("wrong", "because"),
    [
        ({"account": " "}, "no account"),
        ({"at": ""}, "no at"),
        ({"at": "yesterday"}, "is none; write it like"),
        ({"at": "9999-12-31T23:59:59-23:00"}, "is none"),
        ({"at": (NOW + timedelta(seconds=1)).isoformat()}, "has not come yet"),
        ({"at": "1066-10-14T09:00:00Z"}, "in the years 1900"),
        ({"strength": "much"}, "is no number"),
        ({"strength": "nan"}, "strength is 0 to 1"),
        ({"strength": "1.1"}, "strength is 0 to 1"),
        ({"strength": "-1e-9"}, "strength is 0 to 1"),
    ],
)
def test_whatever_is_no_signal_is_told_in_a_sentence(wrong, because):
    told = read(**wrong)
    assert isinstance(told, str)
    assert because in told


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30))


@given(st.dictionaries(st.sampled_from(SIGNAL_COLUMNS), values))
def test_no_row_breaks_it(row):
    assert isinstance(parse_signal(row, zone=ZONE, now=NOW), Signal | str)
    told = parse_signal({**GOOD, "source": row.get("source")}, zone=ZONE, now=NOW)
    assert isinstance(told, Signal)


EARLIER = NOW - timedelta(days=3)
COMPANY = Company(id=CompanyId("200012345K"), name="Acme", website="https://a.test")
UNKNOWN = replace(COMPANY, website="")
LOW = LeadScore(value=0.2, bucket=Bucket.LOW, features={}, feature_hash="x", rationale="so")
HIGH = LeadScore(value=0.9, bucket=Bucket.HIGH, features={}, feature_hash="y", rationale="so")


def page(changed_at):
    return PageState(url="https://a.test/", status=200, seen_at=NOW, changed_at=changed_at)


def visit(outcome, *pages):
    return SiteVisit(site="https://a.test", outcome=outcome, reason="so", seen=pages)


def taught(
    visited,
    *,
    depth=Depth.DEEP,
    before=None,
    after=None,
    cut_short=False,
    unanswered=False,
    **known,
):
    before = before or CompanyRecord(company=COMPANY, looked_at=EARLIER, **known)
    after = after or CompanyRecord(company=COMPANY, looked_at=NOW)
    return observe_lookup(
        look="run/k",
        depth=depth,
        visit=visited,
        before=before,
        after=after,
        at=NOW,
        cut_short=cut_short,
        unanswered=unanswered,
    )


@pytest.mark.parametrize(
    ("visited", "changed"),
    [
        (visit(VisitOutcome.READ, page(NOW), page(EARLIER)), True),
        (visit(VisitOutcome.READ, page(EARLIER)), False),
        (visit(VisitOutcome.THIN, page(NOW)), True),
        (visit(VisitOutcome.UNCHANGED, page(EARLIER)), False),
        (visit(VisitOutcome.BLOCKED), None),
        (visit(VisitOutcome.FAILED), None),
        (visit(VisitOutcome.GONE), None),
        (None, None),
    ],
)
def test_only_a_page_that_says_something_new_is_a_change(visited, changed):
    told = taught(visited)
    assert told.observed.surface is changed
    assert [each.kind for each in told.signals] == [SignalKind.SITE_CHANGED] * bool(changed)


@pytest.mark.parametrize(
    ("visited", "failed", "gone"),
    [
        (visit(VisitOutcome.UNCHANGED), False, False),
        (visit(VisitOutcome.FAILED), True, False),
        (visit(VisitOutcome.BLOCKED), True, True),
        (visit(VisitOutcome.GONE), True, True),
        (None, False, False),
    ],
)
def test_a_look_that_could_not_see_the_site_failed(visited, failed, gone):
    seen = taught(visited).observed
    assert (seen.failed, seen.gone) == (failed, gone)


def test_a_search_that_leads_to_no_site_is_as_good_as_a_site_that_is_gone():
    nowhere = CompanyRecord(company=UNKNOWN, looked_at=NOW)
    assert taught(None, before=nowhere, after=nowhere).observed.gone
    assert not taught(None, before=nowhere, after=nowhere, depth=Depth.SHALLOW).observed.failed
    unknown = taught(None, before=nowhere, after=nowhere, unanswered=True).observed
    assert (unknown.failed, unknown.gone) == (False, False)


def test_a_deep_look_that_was_cut_short_has_not_seen_the_deep_level():
    assert taught(None).observed.deep is False
    assert taught(None, cut_short=True).observed.deep is None


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


def test_a_look_that_found_a_change_says_what_it_brought_and_others_say_nothing():
    met = [
        Contact(email=f"{name}@a.test", source="site", confidence=1.0, verdict=status)
        for name, status in (("a", EmailStatus.VALID), ("b", EmailStatus.UNKNOWN))
    ]
    known = CompanyRecord(company=COMPANY, looked_at=NOW, contacts=tuple(met), score=HIGH)
    changed, same = visit(VisitOutcome.READ, page(NOW)), visit(VisitOutcome.UNCHANGED)
    before = CompanyRecord(company=COMPANY, looked_at=EARLIER, score=LOW)
    assert taught(changed, before=before, after=known).observed.brought == 2.0
    assert taught(changed, before=known, after=known).observed.brought == 0.0
    assert taught(same, before=known, after=known).observed.brought is None
    first = CompanyRecord(company=COMPANY)
    assert taught(changed, before=first, after=known).observed.brought is None


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        (Bucket.LOW, Bucket.MEDIUM, True),
        (Bucket.LOW, Bucket.HIGH, True),
        (Bucket.MEDIUM, Bucket.HIGH, True),
        (Bucket.HIGH, Bucket.HIGH, False),
        (Bucket.HIGH, Bucket.LOW, False),
        (None, Bucket.HIGH, False),
        (Bucket.LOW, None, False),
    ],
)
def test_a_lead_that_became_better_is_news_and_a_first_score_is_not(before, after, news):
    told = taught(
        None,
        score=before and replace(LOW, bucket=before),
        after=CompanyRecord(
            company=COMPANY, looked_at=NOW, score=after and replace(LOW, bucket=after)
        ),
    )
    found = [(each.kind, each.id) for each in told.signals]
    assert found == [(SignalKind.LEAD_SCORE, "score/run/k")] * news


def test_whoever_was_never_scored_is_taken_to_fit_half_way():
    assert compute_posture(None) == MIN_POSTURE
