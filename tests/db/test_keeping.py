"""What every store can keep is given back as it will be read; the rest is refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import PermanentError
from stoker.base.types import MAX_TEXT_LENGTH, Job, JobScore, clean_text, is_storable
from stoker.db.codec import validate_json, validate_text
from stoker.ledger.chain import NewEntry, validate_new_entry
from stoker.runs.model import Manifest, Run, RunKey
from stoker.runs.schema import JOBS, RUNS, SCORES

AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
THERE = timezone(timedelta(hours=8))
JOB = Job.create(source="feed", url="https://example.com/1", title="title")

any_text = st.text(st.characters(exclude_categories=()), max_size=20)


@given(any_text)
def test_text_is_kept_exactly_when_every_store_could(text):
    if is_storable(text):
        assert validate_text(text, what="it") == text
    else:
        with pytest.raises(PermanentError, match="nothing was written"):
            validate_text(text, what="it")


@given(any_text)
def test_cleaned_text_is_always_kept(text):
    assert validate_text(clean_text(text), what="it") == clean_text(text)


@given(st.sampled_from(["id", "source", "url", "title", "company", "location"]), any_text)
def test_a_posting_is_refused_exactly_when_one_of_its_texts_is(field, text):
    job = replace(JOB, **{field: text})
    if is_storable(text):
        assert JOBS.store(job) == job
    else:
        with pytest.raises(PermanentError):
            JOBS.store(job)


def test_a_posting_may_be_longer_in_all_than_any_of_its_texts():
    long = replace(JOB, title="x" * MAX_TEXT_LENGTH, company="y" * MAX_TEXT_LENGTH)
    assert JOBS.store(long) == long
    with pytest.raises(PermanentError):
        JOBS.store(replace(JOB, title="x" * (MAX_TEXT_LENGTH + 1)))


def test_moments_are_given_back_in_utc():
    job = JOBS.store(replace(JOB, posted_at=AT.astimezone(THERE)))
    run = RUNS.store(
        Run(key=RunKey(AT.astimezone(THERE), 1), kind="x", instant=AT.astimezone(THERE))
    )
    note = validate_new_entry(NewEntry(at=AT.astimezone(THERE), kind="x", subject="", reason=""))
    for moment in (job.posted_at, run.at, run.instant, note.at):
        assert (moment, moment.tzinfo) == (AT, UTC)


def test_json_is_given_back_as_json_has_it():
    assert validate_json({"pair": (1, 2.5), "none": None}, what="it") == {
        "pair": [1, 2.5],
        "none": None,
    }
    run = Run(key=RunKey(AT, 1), kind="x", manifest=Manifest(config={"pair": (1, 2)}))
    assert RUNS.store(run).manifest.config == {"pair": [1, 2]}


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [float("nan"), {1, 2}, deep(), {"a\0": 1}, ["\ud800"], 10**5000],
    ids=["nan", "set", "deep", "NUL in a key", "half a pair", "endless number"],
)
def test_what_json_cannot_keep_is_refused(value):
    with pytest.raises(PermanentError, match="it") as caught:
        validate_json(value, what="it")
    assert "\n" not in str(caught.value)


def test_the_parts_of_a_score_are_numbers_that_can_be_written_down():
    good = JobScore(job=JOB.id, score=1 / 3, bucket="weak", components={"fit": 0.1})
    assert SCORES.store(good) == good
    with pytest.raises(PermanentError):
        SCORES.store(replace(good, components={"fit": float("inf")}))


numbers = st.floats(allow_nan=True) | st.integers() | st.booleans() | st.just(5e-324)


@given(any_text, any_text, st.dictionaries(any_text, numbers, max_size=4))
def test_a_score_is_kept_exactly_when_its_texts_and_parts_are(job, bucket, parts):
    score = JobScore(job=job, score=0.5, bucket=bucket, components=parts)
    try:
        validate_text(job, what="it")
        validate_text(bucket, what="it")
        plain = validate_json(parts, what="it")
    except PermanentError:
        with pytest.raises(PermanentError):
            SCORES.store(score)
        return
    kept = SCORES.store(score)
    assert kept == replace(score, components=plain)
    assert [repr(part) for part in kept.components.values()] == [
        repr(plain[name]) for name in kept.components
    ]
    assert kept.components is not parts
