from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import is_storable
from stoker.discovery.model import (
    MAX_POSTINGS,
    MAX_REJECTS,
    RawPosting,
    parse_date,
    parse_postings,
    to_plain_line,
)

SIX = datetime(2026, 11, 1, 18, tzinfo=UTC)
texts = st.text(st.characters(), max_size=50)
said = st.none() | st.booleans() | st.integers() | st.floats() | texts


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-11-01T18:00:00Z", SIX),
        ("2026-11-02T02:00:00.000+08:00", SIX),
        ("2026-11-01 18:00:00", SIX),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("Sun, 01 Nov 2026 18:00:00 GMT", SIX),
        ("1 Nov 2026 18:00:00 -0000", SIX),
        (1793556000, SIX),
        (1793556000000, SIX),
        ("1793556000000", SIX),
        ("01/11/2026", None),
        ("1026-11-01T18:00:00Z", None),
        ("9999-12-31T23:59:59-12:00", None),
        ("Mon, 01 Jan 1901 00:00:00 +2359", None),
        (float("nan"), None),
        (float("inf"), None),
        (10**30, None),
        (-1, None),
        (True, None),
        ({"a": 1}, None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_moment_is_what_was_meant_or_nothing(written, meant):
    assert parse_date(written) == meant


@given(said)
def test_no_date_however_odd_gets_past(said):
    found = parse_date(said)
    assert found is None or found.tzinfo is UTC


@given(st.lists(st.builds(RawPosting, where=texts, url=texts, title=texts, posted=said)))
def test_a_good_posting_survives_every_bad_neighbour(bad):
    good = RawPosting(where="here", url="https://a.test/1", title="Cook")
    found = parse_postings("feed", [*bad, good], company="Acme")

    assert "https://a.test/1" in [job.url for job in found.jobs]
    assert found.rejected + len(found.jobs) <= len(bad) + 1
    assert all(is_storable(job.title + job.url + job.company) for job in found.jobs)


@pytest.mark.parametrize(
    "url", ["", "ftp://a.test/", "//a.test", "https://a.test/a b", "https://a.test/" + "x" * 2000]
)
def test_what_is_no_web_address_is_no_posting(url):
    assert parse_postings("feed", [RawPosting(where="x", url=url, title="Cook")]).rejected == 1


def test_the_same_posting_twice_is_one():
    raw = RawPosting(where="", url="https://a.test/1", title="Cook")
    assert len(parse_postings("feed", [raw, raw]).jobs) == 1


def test_a_source_without_end_is_taken_so_far():
    def endless():
        nth = 0
        while True:
            yield RawPosting(where="", url=f"https://a.test/{nth}", title="Cook")
            nth += 1

    found = parse_postings("feed", endless())
    assert (len(found.jobs), found.truncated) == (MAX_POSTINGS, True)


def test_reasons_are_kept_so_far_and_counted_all():
    found = parse_postings("feed", [RawPosting(where="")] * (MAX_REJECTS + 5))
    assert (len(found.rejects), found.rejected) == (MAX_REJECTS, MAX_REJECTS + 5)


def test_titles_come_without_markup():
    assert (
        to_plain_line("&lt;b&gt;Head&lt;/b&gt; of <i>Sales</i>\n&amp; more")
        == "Head of Sales & more"
    )
