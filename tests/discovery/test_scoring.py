"""Scores of postings: bounded, monotone, in the words of the spec."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.base.types import EnrichedJob, JobId
from stoker.discovery.enrichment import (
    BUCKETS,
    choose_job_bucket,
    compute_role_fit,
    compute_stack_fit,
    score_job,
)
from stoker.discovery.settings import DiscoverySettings

TAGS = ["python", "aws", "sql", "kafka", "go"]
words = st.lists(st.sampled_from(["data", "engineer", "sales", "cook"]), max_size=4)
postings = st.builds(
    EnrichedJob,
    job=st.just(JobId("j")),
    title=words.map(" ".join),
    stack=st.lists(st.sampled_from(TAGS), unique=True).map(lambda tags: tuple(sorted(tags))),
    remote=st.booleans(),
)
weights = st.floats(0, 1000, allow_subnormal=True)


@st.composite
def rules(draw):
    limits = sorted(draw(st.lists(st.floats(0, 1), min_size=3, max_size=3)), reverse=True)
    given_weights = draw(st.tuples(weights, weights, weights).filter(lambda w: sum(w) >= 1e-6))
    return DiscoverySettings(
        roles=tuple(draw(st.lists(words.map(" ".join), max_size=3))),
        stack=tuple(draw(st.lists(st.sampled_from(TAGS), max_size=5))),
        role_weight=given_weights[0],
        stack_weight=given_weights[1],
        remote_weight=given_weights[2],
        exceptional_from=limits[0],
        strong_from=limits[1],
        moderate_from=limits[2],
    )


@given(postings, rules())
def test_scores_and_their_parts_are_between_0_and_1(posting, rule):
    score = score_job(posting, rule)
    assert 0 <= score.score <= 1
    assert all(0 <= part <= 1 for part in score.components.values())
    assert score.bucket in BUCKETS
    assert score == score_job(posting, rule)


@given(postings, rules(), st.sampled_from(TAGS))
def test_more_that_is_wanted_never_lowers_a_score(posting, rule, tag):
    before = score_job(posting, rule).score
    more = replace(posting, stack=tuple(sorted({*posting.stack, tag})))
    assert score_job(more, rule).score >= before
    assert score_job(replace(posting, remote=True), rule).score >= before
    assert score_job(replace(posting, title=f"{posting.title} data"), rule).score >= before


@given(rules(), st.floats(0, 1), st.floats(0, 1))
def test_a_better_score_is_never_in_a_worse_bucket(rule, one, other):
    low, high = sorted((one, other))
    assert BUCKETS.index(choose_job_bucket(high, rule)) <= BUCKETS.index(
        choose_job_bucket(low, rule)
    )


def test_by_default_the_role_counts_half_the_stack_three_tenths_and_remote_two():
    rule = DiscoverySettings()
    posting = EnrichedJob(job=JobId("j"), title="data engineer", stack=("aws", "go", "sql"))
    cook = EnrichedJob(job=JobId("j"), title="cook", remote=True)
    for each, score, bucket in (
        (posting, 0.8, "strong"),
        (replace(posting, remote=True), 1.0, "exceptional"),
        (cook, 0.2, "weak"),
    ):
        found = score_job(each, rule)
        assert (found.score, found.bucket) == (pytest.approx(score), bucket)


@pytest.mark.parametrize(
    ("score", "bucket"),
    [(0.85, "exceptional"), (0.8499, "strong"), (0.7, "strong"), (0.5, "moderate"), (0.49, "weak")],
)
def test_buckets_begin_where_the_spec_says(score, bucket):
    assert choose_job_bucket(score, DiscoverySettings()) == bucket


def test_a_few_of_many_wanted_technologies_are_enough():
    assert compute_stack_fit(("aws", "go", "sql"), tuple(TAGS)) == 1.0
    assert compute_stack_fit(("aws",), ("AWS", "aws")) == 1.0
    assert compute_stack_fit((), tuple(TAGS)) == 0.0


def test_a_role_fits_by_the_share_of_its_words():
    assert compute_role_fit("data engineer", ("head of data", "data engineer")) == 1.0
    assert compute_role_fit("data entry clerk", ("data engineer",)) == 0.5
    assert compute_role_fit("cook", ()) == compute_role_fit("cook", ("",)) == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"role_weight": 0.0, "stack_weight": 0.0, "remote_weight": 0.0},
        {"role_weight": -1.0},
        {"role_weight": float("nan")},
        {"remote_weight": float("inf")},
        {"strong_from": 0.9},
        {"exceptional_from": 1.1},
        {"moderate_from": float("nan")},
    ],
)
def test_a_rule_that_cannot_hold_is_refused(wrong):
    with pytest.raises(ConfigError):
        DiscoverySettings(**wrong)
