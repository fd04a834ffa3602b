"""Posture of accounts, and which findings of a look are news."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import Bucket, CompanyId, LeadScore
from stoker.heat.model import SignalKind
from stoker.heat.signals import MIN_POSTURE, build_score_signal, build_site_signal, compute_posture

AT = datetime(2026, 11, 16, 8, tzinfo=UTC)
ACCOUNT = CompanyId("200012345K")


def score(value=0.5, bucket=Bucket.MEDIUM):
    return LeadScore(value=value, bucket=bucket, features={}, feature_hash="x", rationale="so")


@given(st.floats(0, 1))
def test_a_leads_score_is_its_posture(value):
    assert compute_posture(score(value)) == value


def test_whoever_was_never_scored_is_taken_to_fit_half_way():
    assert compute_posture(None) == MIN_POSTURE


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
    told = build_score_signal(
        ACCOUNT,
        look="run/k",
        before=score(bucket=before) if before else None,
        after=score(bucket=after) if after else None,
        at=AT,
    )
    assert (told is not None) is news
    if told:
        assert (told.kind, told.id) == (SignalKind.LEAD_SCORE, "score/run/k")


def test_one_look_tells_of_a_changed_site_once_however_often_it_is_told():
    one, again = (
        build_site_signal(ACCOUNT, look="run/k", site="https://a.test", at=AT) for _ in "12"
    )
    assert one == again
    assert one.kind is SignalKind.SITE_CHANGED
