"""What is known after somebody said more: the newer word, and never silence in place of a word."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import Company, CompanyId, merge_company

moments = st.none() | st.integers(0, 3).map(
    lambda days: datetime(2026, 2, 7, tzinfo=UTC) + timedelta(days=days)
)
words = st.sampled_from(["", "a", "b"])
numbers = st.none() | st.integers(0, 2)
companies = st.builds(
    Company,
    id=st.just(CompanyId("T1")),
    name=words,
    live=st.booleans(),
    ssic=words,
    year=numbers,
    postal_code=words,
    website=words,
    employees=numbers,
    last_seen_at=moments,
)
EMPTY = (None, "")


@given(companies, companies)
def test_every_part_of_a_company_is_the_newer_word_or_the_older_where_there_is_none(known, said):
    merged = merge_company(known, said)
    for name in (each.name for each in fields(Company)):
        if name == "last_seen_at":
            continue
        older, newer = getattr(known, name), getattr(said, name)
        assert getattr(merged, name) == (older if newer in EMPTY and newer is not False else newer)


@given(companies, companies)
def test_a_company_is_never_last_seen_earlier_than_before(known, said):
    seen = [one.last_seen_at for one in (known, said) if one.last_seen_at]
    assert merge_company(known, said).last_seen_at == (max(seen) if seen else None)


@given(companies, companies)
def test_saying_nothing_or_the_same_again_changes_nothing(known, said):
    nothing = Company(id=known.id, name="", live=known.live)
    assert merge_company(known, nothing) == merge_company(known, known) == known
    once = merge_company(known, said)
    assert merge_company(once, said) == once


@given(companies, companies)
def test_what_is_0_or_dead_is_a_word_too(known, said):
    merged = merge_company(known, replace(said, employees=0, year=0, live=False))
    assert (merged.employees, merged.year, merged.live) == (0, 0, False)
