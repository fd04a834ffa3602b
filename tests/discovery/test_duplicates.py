"""The same opening at two sources is recognised; two of a kind at one source are two."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import Job
from stoker.discovery.duplicates import (
    DuplicateIndex,
    compute_duplicate_keys,
    normalize_posting_url,
)

DAY = datetime(2026, 11, 1, 18, tzinfo=UTC)


def job(url="https://a.test/1", title="Cook", company="Acme Pte Ltd", **more):
    return Job.create(source="feed", url=url, title=title, company=company, **more)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (job(), job("http://www.a.test/1/?utm_source=x&gh_src=abc", title="Chef", company="B")),
        (job("https://a.test/?b=2&a=1"), job("https://a.test/?a=1&b=2&ref=mail", title="Chef")),
        (
            job(posted_at=DAY, location="Singapore"),
            job("https://b.test/9", "COOK ", "ACME", posted_at=DAY + timedelta(hours=5)),
        ),
        (job(location="Singapore"), job("https://b.test/9", location="singapore")),
    ],
)
def test_twins_have_an_address_or_their_words_in_common(one, other):
    assert set(compute_duplicate_keys(one)) & set(compute_duplicate_keys(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (job(), job("https://a.test/2", "Chef")),
        (job("https://a.test/?id=1"), job("https://a.test/?id=2", "Chef")),
        (job(posted_at=DAY), job("https://b.test/1", posted_at=DAY + timedelta(days=1))),
        (job(location="Singapore"), job("https://b.test/1", location="Jakarta")),
        (job(), job("https://b.test/1", company="Umbrella")),
        (job("https://a.test/1"), job("https://b.test/1", "Chef")),
        # Of two employers nobody names, nobody knows that they are one.
        (job(company="", posted_at=DAY), job("https://b.test/1", company="", posted_at=DAY)),
        (job(company=" - "), job("https://b.test/1", company="")),
    ],
)
def test_who_has_neither_in_common_is_no_twin(one, other):
    assert not set(compute_duplicate_keys(one)) & set(compute_duplicate_keys(other))


@given(st.text(max_size=80))
def test_no_address_gets_past(text):
    assert normalize_posting_url(text) == normalize_posting_url(text)
    assert normalize_posting_url(f"https://{text}") == normalize_posting_url(f"https://{text}")


numbers = st.integers(0, 9) | st.integers(0, 2**64 - 1)
sources = st.lists(
    st.lists(st.lists(st.tuples(numbers, numbers), max_size=6), max_size=3), max_size=12
)


@given(sources)
def test_they_are_found_as_a_plain_set_would_find_them(sources):
    twins, before = DuplicateIndex(), set()
    for batches in sources:
        own = set()
        for keys in batches:
            assert twins.mark_duplicates(keys) == [bool({*pair} & before) for pair in keys]
            own |= {key for pair in keys for key in pair}
        twins.finish_source()
        before |= own
