import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.types import (
    MAX_TEXT_LENGTH,
    Job,
    JobId,
    JobScore,
    clean_text,
    compute_job_id,
    is_storable,
    parse_tenant_id,
    to_utc,
)

AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
any_text = st.text(st.characters() | st.sampled_from(["\0", "\ud800", "\udfff", "😀"]))


@pytest.mark.parametrize("good", ["a", "0", "acme", "acme-eu_2", "x" * 63])
def test_a_plain_id_names_a_tenant(good):
    assert parse_tenant_id(good) == good


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "x" * 64,
        "Acme",
        "-acme",
        "_acme",
        "ac me",
        "acme\n",
        "../acme",
        "a/b",
        "ä",
        "a'b",
        "a\0",
        "١",
    ],
)
def test_anything_else_is_refused_and_told_what_an_id_looks_like(bad):
    with pytest.raises(ConfigError, match="is not a tenant id; use 1 to 63"):
        parse_tenant_id(bad)


def test_a_moment_keeps_its_place_in_time_when_it_is_turned_to_utc():
    abroad = AT.astimezone(timezone(timedelta(hours=-5, minutes=-30)))

    assert to_utc(abroad) == AT
    assert to_utc(abroad).tzinfo is UTC


def test_a_moment_without_a_zone_is_refused_by_the_name_it_goes_by():
    with pytest.raises(ConfigError, match=r"posted_at 2030-01-01T12:00:00 has no time zone"):
        to_utc(AT.replace(tzinfo=None), what="posted_at")


def test_a_moment_that_falls_off_the_calendar_in_utc_is_refused():
    edge = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))

    with pytest.raises(ConfigError, match="years 1 to 9999"):
        to_utc(edge)


@given(any_text)
def test_clean_text_is_storable_and_cleaning_it_again_changes_nothing(text):
    cleaned = clean_text(text)

    assert is_storable(cleaned)
    assert clean_text(cleaned) == cleaned


@given(any_text)
def test_storable_text_is_left_alone_letter_for_letter(text):
    assert (clean_text(text) == text) == is_storable(text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\0b", "ab"),
        ("a\ud800b", "a\ufffdb"),
        ("x" * (MAX_TEXT_LENGTH + 1), "x" * MAX_TEXT_LENGTH),
        ("\x1b[31m\u202e\u200b", "\x1b[31m\u202e\u200b"),  # made harmless where it is shown
        ("Zoë 😀", "Zoë 😀"),
    ],
    ids=["NUL", "half a pair", "too long", "controls", "letters"],
)
def test_poison_is_taken_out_and_the_rest_stays(text, cleaned):
    assert clean_text(text) == cleaned


def test_an_id_is_the_digest_of_source_and_url():
    expected = hashlib.sha256(b"lever|https://x").hexdigest()

    assert compute_job_id(source="lever", url="https://x") == expected
    assert Job.create(source="lever", url="https://x", title="t").id == expected


@given(any_text, any_text)
def test_what_was_found_has_the_id_of_what_is_kept(source, url):
    try:
        job = Job.create(source=source, url=url, title="")
    except PermanentError:
        return
    assert (
        job.id
        == compute_job_id(source=source, url=url)
        == compute_job_id(source=job.source, url=job.url)
    )


@given(any_text, any_text, any_text)
def test_every_text_of_a_found_posting_can_be_stored(title, company, location):
    job = Job.create(source="s", url="u", title=title, company=company, location=location)

    assert all(map(is_storable, (job.title, job.company, job.location)))


@pytest.mark.parametrize("nothing", ["", "  ", "\0", "\0 \0"])
def test_a_posting_without_a_source_or_a_url_is_refused(nothing):
    for named in ({"source": nothing, "url": "u"}, {"source": "s", "url": nothing}):
        with pytest.raises(PermanentError, match="needs a source and a url"):
            Job.create(title="t", **named)


def test_a_posting_dated_without_a_zone_is_refused():
    with pytest.raises(ConfigError, match="posted_at"):
        Job.create(source="s", url="u", title="t", posted_at=AT.replace(tzinfo=None))


@pytest.mark.parametrize("score", [-0.001, 1.001, float("nan"), float("inf")])
def test_a_score_outside_nought_to_one_is_refused(score):
    with pytest.raises(PermanentError, match="between 0 and 1"):
        JobScore(job=JobId("x"), score=score, bucket="weak")


@pytest.mark.parametrize("score", [0, 0.0, 0.5, 1])
def test_a_score_from_nought_to_one_is_kept(score):
    assert JobScore(job=JobId("x"), score=score, bucket="weak").score == score
